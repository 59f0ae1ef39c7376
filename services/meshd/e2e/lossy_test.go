package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// lossyBus stands between every process and the NATS server and loses one message in so many, in both directions and
// whatever it is: deltas, heartbeats, cards, shared reservations, answers of the registry.
type lossyBus struct {
	upstream string
	oneIn    int
	lost     atomic.Int64
	passed   atomic.Int64

	listener net.Listener
	wg       sync.WaitGroup
	mu       sync.Mutex
	conns    map[net.Conn]struct{}
	closed   bool
}

// startLossyBus listens at a free port for the length of the test; the server behind it may come and go.
func startLossyBus(t *testing.T, upstream string, oneIn int) *lossyBus {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &lossyBus{upstream: upstream, oneIn: oneIn, listener: lis, conns: map[net.Conn]struct{}{}}
	b.wg.Go(func() {
		for seed := uint64(1); ; seed++ {
			client, err := lis.Accept()
			if err != nil {
				return
			}
			b.wg.Go(func() { b.serve(client, seed) })
		}
	})
	t.Cleanup(b.stop)
	return b
}

// url is what clients of the bus connect to.
func (b *lossyBus) url() string { return "nats://" + b.listener.Addr().String() }

func (b *lossyBus) stop() {
	b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for c := range b.conns {
		c.Close()
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// hold keeps a connection until stop; false when it is too late.
func (b *lossyBus) hold(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		c.Close()
		return false
	}
	b.conns[c] = struct{}{}
	return true
}

// serve carries one connection until either side ends it.
func (b *lossyBus) serve(client net.Conn, seed uint64) {
	if !b.hold(client) {
		return
	}
	server, err := net.Dial("tcp", b.upstream)
	if err != nil || !b.hold(server) {
		client.Close()
		return
	}
	end := func() {
		client.Close()
		server.Close()
	}
	var both sync.WaitGroup
	both.Go(func() {
		defer end()
		_ = b.carry(server, client, rand.New(rand.NewPCG(seed, 1)))
	})
	both.Go(func() {
		defer end()
		_ = b.carry(client, server, rand.New(rand.NewPCG(seed, 2)))
	})
	both.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.conns, client)
	delete(b.conns, server)
}

// carry copies NATS protocol lines, and payloads of the operations that have one, but for those that are lost.
func (b *lossyBus) carry(to io.Writer, from io.Reader, random *rand.Rand) error {
	in := bufio.NewReaderSize(from, 1<<16)
	var message []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		message = append(message[:0], line...)
		size, carries, err := payloadSize(line)
		if err != nil {
			return err
		}
		if carries {
			start := len(message)
			message = append(message, make([]byte, size+len("\r\n"))...)
			if _, err := io.ReadFull(in, message[start:]); err != nil {
				return err
			}
			if b.oneIn > 0 && random.IntN(b.oneIn) == 0 {
				b.lost.Add(1)
				continue
			}
			b.passed.Add(1)
		}
		if _, err := to.Write(message); err != nil {
			return err
		}
	}
}

// maxPayload is above NATS's default of 1 MiB with headers.
const maxPayload = 4 << 20

// payloadSize reads the last number of a line that announces a payload: PUB, HPUB, MSG and HMSG do.
func payloadSize(line []byte) (size int, carries bool, err error) {
	fields := bytes.Fields(line)
	if len(fields) < 3 {
		return 0, false, nil
	}
	switch strings.ToUpper(string(fields[0])) {
	case "PUB", "HPUB", "MSG", "HMSG":
	default:
		return 0, false, nil
	}
	size, err = strconv.Atoi(string(fields[len(fields)-1]))
	if err == nil && (size < 0 || size > maxPayload) {
		err = errors.New("size out of range")
	}
	if err != nil {
		return 0, false, fmt.Errorf("NATS operation %s: %w", fields[0], err)
	}
	return size, true, nil
}

// TestLossyBusKeepsTheProtocol: what is not lost passes byte for byte, and what is lost is whole messages.
func TestLossyBusKeepsTheProtocol(t *testing.T) {
	t.Parallel()
	var in, want bytes.Buffer
	for _, fixed := range []string{"INFO {\"a\": 1}\r\n", "CONNECT {}\r\n", "PING\r\n", "SUB kvmesh.> 1\r\n", "+OK\r\n"} {
		in.WriteString(fixed)
	}
	want.Write(in.Bytes())
	for i := range 1000 {
		body := strings.Repeat("x\r\n", i%7) + strconv.Itoa(i)
		fmt.Fprintf(&in, "MSG kvmesh.kv.m.w.0 1 %d\r\n%s\r\n", len(body), body)
		fmt.Fprintf(&in, "HPUB a.b reply 12 %d\r\n%s\r\n", 12+len(body), "NATS/1.0\r\n\r\n"+body)
	}
	var whole bytes.Buffer
	keep := &lossyBus{}
	require.ErrorIs(t, keep.carry(&whole, bytes.NewReader(in.Bytes()), rand.New(rand.NewPCG(1, 1))), io.EOF)
	require.Equal(t, in.String(), whole.String())
	require.EqualValues(t, 2000, keep.passed.Load())
	var rest bytes.Buffer
	lose := &lossyBus{oneIn: 10}
	require.ErrorIs(t, lose.carry(&rest, bytes.NewReader(in.Bytes()), rand.New(rand.NewPCG(1, 1))), io.EOF)
	require.InDelta(t, 200, lose.lost.Load(), 50)
	require.EqualValues(t, 2000, lose.lost.Load()+lose.passed.Load())
	require.True(t, strings.HasPrefix(rest.String(), want.String()))
	var again bytes.Buffer
	require.ErrorIs(t, keep.carry(&again, bytes.NewReader(rest.Bytes()), nil), io.EOF)
	require.Equal(t, rest.String(), again.String(), "still the protocol")
	require.Error(t, keep.carry(io.Discard, strings.NewReader("MSG a 1 many\r\n"), nil))
	require.ErrorContains(t, keep.carry(io.Discard, strings.NewReader("PUB a 99999999999\r\n"), nil), "size")
}
