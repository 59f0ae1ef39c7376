package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// script is what a handler does in a random conversation: it receives and sends in this order and then ends.
type script struct {
	steps []byte // 'r' receives one message and echoes it into the next send, 's' sends, 'h' sets a header
	end   error
}

func randomScript(rnd *rand.Rand) script {
	var s script
	for range rnd.IntN(40) {
		s.steps = append(s.steps, "rsh"[rnd.IntN(3)])
	}
	reasons := []faultv1.Reason{
		faultv1.Reason_REASON_OVERLOADED, faultv1.Reason_REASON_INTERNAL, faultv1.Reason_REASON_NO_WORKER,
	}
	switch rnd.IntN(4) {
	case 0:
		s.end = fault.New(reasons[rnd.IntN(len(reasons))], "step %d", len(s.steps)).WithParam("p")
	case 1:
		s.end = errors.New("something else")
	}
	return s
}

// play is the handler.
func (s script) play(ss grpc.ServerStream) error {
	last := ""
	for i, step := range s.steps {
		switch step {
		case 'r':
			m, err := recvText(ss)
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			last = m
		case 's':
			if err := ss.SendMsg(say(last + "#" + strconv.Itoa(i))); err != nil {
				return err
			}
		case 'h':
			_ = ss.SetHeader(metadata.Pairs("h", strconv.Itoa(i))) // refused after the first send, on every transport
		}
	}
	ss.SetTrailer(metadata.Pairs("steps", strconv.Itoa(len(s.steps))))
	return s.end
}

// converse is the caller: it sends all it has, closes, receives all there is, and returns everything it saw as text.
func converse(ctx context.Context, t *testing.T, conn rpc.Conn, sends int) string {
	t.Helper()
	s, err := conn.NewStream(ctx, bidiStream(), methodBidi)
	require.NoError(t, err)
	for i := range sends {
		if err := s.SendMsg(say("m" + strconv.Itoa(i))); err != nil {
			require.ErrorIs(t, err, io.EOF) // the handler has ended already
			break
		}
	}
	require.NoError(t, s.CloseSend())
	got, err := drain(s)
	header, herr := s.Header()
	require.NoError(t, herr)
	out := strings.Join(got, " ") + fmt.Sprintf(" header=%v trailer=%v", header.Get("h"), s.Trailer().Get("steps"))
	if f := fault.From(err); f != nil {
		out += fmt.Sprintf(" fault=%s %q %q", fault.Name(f.Reason), f.Message, f.Param)
	}
	return out
}

// TestMemEqualsWire: random conversations look the same to the caller in memory and over a socket.
func TestMemEqualsWire(t *testing.T) {
	t.Parallel()
	e := &echo{}
	mem, wire := open(t, doors()[0], rpc.ServerDeps{}, e), open(t, doors()[1], rpc.ServerDeps{}, e)
	rnd := rand.New(rand.NewPCG(11, 12))
	for range 150 {
		s := randomScript(rnd)
		e.bidi = s.play
		sends := rnd.IntN(15) // fewer than a queue holds: a handler may end without having received
		inMemory := converse(shortly(t), t, mem.conn, sends)
		require.Equal(t, converse(shortly(t), t, wire.conn, sends), inMemory, "script %q", s.steps)
	}
}

// TestCallsUnderFire: unary calls and streams from many goroutines, some cancelled, while the server stops. Every call
// ends with an answer or one of the faults that say why not; the leak check of the package sees the rest.
func TestCallsUnderFire(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.unary = func(_ context.Context, in *text) (*text, error) { return in, nil }
		e.server = func(in *text, s grpc.ServerStream) error {
			for range 30 {
				if err := s.SendMsg(in); err != nil {
					return err
				}
			}
			return nil
		}
		var wg sync.WaitGroup
		warm := make(chan struct{}, 1000)
		for worker := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(worker), 0))
				for {
					err := fire(t, b.conn, rnd)
					if err != nil && !allowed(err) {
						t.Errorf("unexpected end of a call: %v", err)
						return
					}
					select {
					case warm <- struct{}{}:
					default:
					}
					if fault.ReasonOf(err) == faultv1.Reason_REASON_UNAVAILABLE {
						return // the server has stopped
					}
				}
			})
		}
		for range 100 { // the server works while it is shot at
			kittest.Recv(t, warm)
		}
		require.NoError(t, b.srv.Stop(shortly(t)))
		wg.Wait()
	})
}

// fire makes one random call and returns how it ended.
func fire(t *testing.T, conn rpc.Conn, rnd *rand.Rand) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if rnd.IntN(2) == 0 {
		got, err := callUnary(ctx, conn, "x")
		if err == nil && got != "x" {
			return errors.New("another call's answer")
		}
		return err
	}
	s, err := openServer(ctx, conn, "y")
	if err != nil {
		if errors.Is(err, io.EOF) { // the stream ended before its request was sent: RecvMsg would say why
			return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "ended early")
		}
		return err
	}
	for i := 0; ; i++ {
		if i == 10 && rnd.IntN(3) == 0 {
			cancel()
		}
		m, err := recvText(s)
		switch {
		case errors.Is(err, io.EOF) && i == 30:
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the stream ended after %d messages", i)
		case err != nil:
			return err
		case m != "y":
			return errors.New("another stream's message")
		}
	}
}

func allowed(err error) bool {
	r := fault.ReasonOf(err)
	return r == faultv1.Reason_REASON_UNAVAILABLE || r == faultv1.Reason_REASON_CANCELLED
}
