package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// counting counts the writes of a listener's connections.
type counting struct {
	net.Listener
	writes atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &counted{c, l}, err
}

type counted struct {
	net.Conn
	l *counting
}

func (c *counted) Write(p []byte) (int, error) {
	c.l.writes.Add(1)
	return c.Conn.Write(p)
}

// gathering serves pieces, one Data call each, and counts the writes of each call.
func gathering(t *testing.T, pieces [][]byte, length int64, secure bool) (body []byte, writes []int64) {
	t.Helper()
	var below *counting
	ts := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{w: w, in: &inbound.Call{Record: &flight.Record{}}, conn: connOf(r.Context())}
		c.flush, _ = w.(interface{ FlushError() error })
		_ = c.Head(&reply.Head{Status: http.StatusOK, ContentType: "text/event-stream", Length: length})
		for _, p := range pieces {
			before := below.writes.Load()
			if c.Data(p) != nil {
				return
			}
			writes = append(writes, below.writes.Load()-before)
		}
	}))
	below = &counting{Listener: ts.Listener}
	ts.Listener, ts.Config.ConnContext = NewGathering(below), ConnContext
	if secure {
		ts.StartTLS()
	} else {
		ts.Start()
	}
	resp, err := ts.Client().Get(ts.URL)
	require.NoError(t, err)
	body, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	ts.Close() // waits for the handler
	return body, writes
}

// TestAPieceIsOneWrite: streams flush after each piece, and a piece that fits is one write whatever its size.
func TestAPieceIsOneWrite(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 180, 2047, 2048, 2049, 4080, 4096, 16 << 10, 32<<10 + 1, 60 << 10} {
		t.Run(strconv.Itoa(size), func(t *testing.T) {
			t.Parallel()
			piece := bytes.Repeat([]byte("x"), size)
			body, writes := gathering(t, [][]byte{piece, piece, piece}, -1, false)
			require.Equal(t, 3*size, len(body))
			require.Equal(t, []int64{1, 1, 1}, writes)
		})
	}
}

// TestGatheredBytesAreTheSame: pieces of all sizes arrive whole and in order, with and without TLS and a known length.
func TestGatheredBytesAreTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			var want []byte
			var pieces [][]byte
			for range 1 + r.IntN(12) {
				p := make([]byte, r.IntN(1+8<<r.IntN(16)))
				for i := range p {
					p[i] = byte(r.Uint32())
				}
				pieces, want = append(pieces, p), append(want, p...)
			}
			length := int64(-1)
			if seed%2 == 0 {
				length = int64(len(want))
			}
			got, _ := gathering(t, pieces, length, seed%3 == 0)
			require.True(t, bytes.Equal(want, got))
		})
	}
}

// TestAGoneClientIsSeenByTheGatheredWrite: what fails when the gathered bytes go out fails the piece.
func TestAGoneClientIsSeenByTheGatheredWrite(t *testing.T) {
	t.Parallel()
	ours, theirs := net.Pipe()
	require.NoError(t, theirs.Close())
	g := &Gathering{}
	c := &gathered{Conn: ours, buffers: &g.buffers}
	c.gather()
	n, err := c.Write(make([]byte, gatherMost))
	require.NoError(t, err)
	require.Equal(t, gatherMost, n)
	_, err = c.Write([]byte("x"))
	require.Error(t, err, "what is too much goes out at once")
	c.gather()
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	require.Error(t, c.release())
	require.Nil(t, connOf(ConnContext(context.Background(), ours)), "other servers' connections are left alone")
	require.ErrorIs(t, c.CloseWrite(), errors.ErrUnsupported)
}
