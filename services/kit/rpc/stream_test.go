package rpc_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// drain receives until the end and returns what came and how it ended, nil for io.EOF.
func drain(s interface{ RecvMsg(any) error }) ([]string, error) {
	var got []string
	for {
		m, err := recvText(s)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, m)
	}
}

// count is more messages than any queue holds.
const count = 100

func TestServerStream(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.server = func(in *text, s grpc.ServerStream) error {
			if err := s.SetHeader(metadata.Pairs("h", in.GetValue())); err != nil {
				return err
			}
			for i := range count {
				if err := s.SendMsg(say(strconv.Itoa(i))); err != nil {
					return err
				}
			}
			if err := s.SetHeader(metadata.Pairs("late", "1")); err == nil {
				return errors.New("SetHeader after the first message did not fail")
			}
			s.SetTrailer(metadata.Pairs("t", "end"))
			return fault.New(faultv1.Reason_REASON_STREAM_BROKEN, "after %d", count)
		}
		finished := make(chan error, 1)
		s, err := openServer(shortly(t), b.conn, "x", grpc.OnFinish(func(err error) { finished <- err }))
		require.NoError(t, err)
		header, err := s.Header()
		require.NoError(t, err)
		require.Equal(t, []string{"x"}, header.Get("h"))
		got, err := drain(s)
		require.Len(t, got, count)
		for i, m := range got {
			require.Equal(t, strconv.Itoa(i), m)
		}
		require.Equal(t, faultv1.Reason_REASON_STREAM_BROKEN, fault.ReasonOf(err))
		require.Equal(t, []string{"end"}, s.Trailer().Get("t"))
		require.Equal(t, faultv1.Reason_REASON_STREAM_BROKEN, fault.ReasonOf(kittest.Recv(t, finished)))
	})
}

func TestBidiStream(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.bidi = func(s grpc.ServerStream) error {
			for {
				m, err := recvText(s)
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if err := s.SendMsg(say(m + m)); err != nil {
					return err
				}
			}
		}
		s, err := b.conn.NewStream(shortly(t), bidiStream(), methodBidi)
		require.NoError(t, err)
		for i := range count {
			require.NoError(t, s.SendMsg(say(strconv.Itoa(i))))
			got, err := recvText(s)
			require.NoError(t, err)
			require.Equal(t, strconv.Itoa(i)+strconv.Itoa(i), got)
		}
		require.NoError(t, s.CloseSend())
		rest, err := drain(s)
		require.NoError(t, err)
		require.Empty(t, rest)
		require.Error(t, s.SendMsg(say("late")))
	})
}

func TestClientStream(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.bidi = func(s grpc.ServerStream) error {
			got, err := drain(s)
			if err != nil {
				return err
			}
			if len(got) == 0 {
				return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "empty")
			}
			return s.SendMsg(say(got[len(got)-1]))
		}
		s, err := b.conn.NewStream(shortly(t), &grpc.StreamDesc{ClientStreams: true}, methodClient)
		require.NoError(t, err)
		for i := range count {
			require.NoError(t, s.SendMsg(say(strconv.Itoa(i))))
		}
		require.NoError(t, s.CloseSend())
		got, err := recvText(s)
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(count-1), got)

		s, err = b.conn.NewStream(shortly(t), &grpc.StreamDesc{ClientStreams: true}, methodClient)
		require.NoError(t, err)
		require.NoError(t, s.CloseSend())
		_, err = recvText(s)
		require.Equal(t, faultv1.Reason_REASON_INVALID_REQUEST, fault.ReasonOf(err))
	})
}

// TestStreamCancel: the caller goes away while the handler sends into a full queue; both ends learn it.
func TestStreamCancel(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		ended := make(chan error, 1)
		big := string(make([]byte, 1<<16)) // fills a wire's flow-control window
		e.server = func(_ *text, s grpc.ServerStream) error {
			for {
				if err := s.SendMsg(say(big)); err != nil {
					ended <- err
					return err
				}
			}
		}
		ctx, cancel := context.WithCancel(shortly(t))
		s, err := openServer(ctx, b.conn, "")
		require.NoError(t, err)
		_, err = recvText(s)
		require.NoError(t, err)
		cancel()
		_, err = drain(s)
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(err))
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(kittest.Recv(t, ended)))
	})
}

// TestHandlerEndsFirst: a handler that returns early makes the sender stop with io.EOF and RecvMsg tell why.
func TestHandlerEndsFirst(t *testing.T) {
	t.Parallel()
	eachDoor(t, rpc.ServerDeps{}, func(t *testing.T, e *echo, b bundle) {
		e.bidi = func(grpc.ServerStream) error { return fault.New(faultv1.Reason_REASON_OVERLOADED, "full") }
		s, err := b.conn.NewStream(shortly(t), bidiStream(), methodBidi)
		require.NoError(t, err)
		_, err = recvText(s)
		require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
		kittest.Eventually(t, func() error {
			if err := s.SendMsg(say("x")); !errors.Is(err, io.EOF) {
				return errors.New("SendMsg does not return io.EOF")
			}
			return nil
		})
	})
}

func TestMemStreamIsBoundedAndShared(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := open(t, doors()[0], rpc.ServerDeps{}, e)
	sent := make(chan int, 1000)
	e.server = func(_ *text, s grpc.ServerStream) error {
		for i := range 1000 {
			if err := s.SendMsg(say("x")); err != nil {
				return err
			}
			sent <- i
		}
		return nil
	}
	s, err := openServer(shortly(t), b.conn, "")
	require.NoError(t, err)
	_, err = recvText(s)
	require.NoError(t, err)
	require.LessOrEqual(t, len(sent), 18, "the queue, one received and one in flight")
	_, err = drain(s)
	require.NoError(t, err)
}

// TestMemHandlerExit: a handler that ends its goroutine (as t.FailNow does) still ends the call.
func TestMemHandlerExit(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := open(t, doors()[0], rpc.ServerDeps{}, e)
	e.server = func(*text, grpc.ServerStream) error { goexit(); return nil }
	s, err := openServer(shortly(t), b.conn, "")
	require.NoError(t, err)
	_, err = recvText(s)
	require.Equal(t, faultv1.Reason_REASON_INTERNAL, fault.ReasonOf(err))
}

func TestMemWrongShape(t *testing.T) {
	t.Parallel()
	e := &echo{}
	b := open(t, doors()[0], rpc.ServerDeps{}, e)
	require.ErrorContains(t, b.conn.Invoke(shortly(t), methodServer, say(""), new(text)), "is not unary")
	_, err := b.conn.NewStream(shortly(t), serverStream(), methodUnary)
	require.ErrorContains(t, err, "is not a stream")
}
