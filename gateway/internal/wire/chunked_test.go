package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// decodeAll feeds a body in pieces of step bytes.
func decodeAll(raw []byte, step int) (payload []byte, done bool, err error) {
	var d chunked
	for at := 0; at < len(raw); {
		piece := bytes.Clone(raw[at:min(at+step, len(raw))])
		n, used, err := d.decode(piece)
		payload = append(payload, piece[:n]...)
		if err != nil {
			return payload, false, err
		}
		at += used
		if d.state == chunkDone {
			return payload, true, nil
		}
	}
	return payload, false, nil
}

func TestChunked(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, raw, want string
		done            bool
		err             error
	}{
		{"two chunks", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", true, nil},
		{"upper case size", "A\r\n0123456789\r\n0\r\n\r\n", "0123456789", true, nil},
		{"extension", "5;a=\"b\"\r\nhello\r\n0;x\r\n\r\n", "hello", true, nil},
		{"trailers", "1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", "x", true, nil},
		{"bare LF", "1\nx\n0\n\n", "x", true, nil},
		{"leading zeros", "0005\r\nhello\r\n0\r\n\r\n", "hello", true, nil},
		{"unfinished", "5\r\nhel", "hel", false, nil},
		{"no size", "\r\nhello", "", false, errChunk},
		{"bad size", "5g\r\nhello", "", false, errChunk},
		{"data too long", "2\r\nhello\r\n", "he", false, errChunk},
		{"size beyond 64 bits", "fffffffffffffffff\r\n", "", false, errChunk},
		{"endless size line", strings.Repeat("0", maxChunkLine+1), "", false, errChunk},
		{"endless extension", "1;" + strings.Repeat("a", maxChunkLine+1), "", false, errChunk},
		{"negative", "-1\r\n", "", false, errChunk},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, step := range []int{1, 2, 3, 1 << 20} {
				payload, done, err := decodeAll([]byte(row.raw), step)
				require.ErrorIs(t, err, row.err, "step %d", step)
				require.Equal(t, row.done, done, "step %d", step)
				if err == nil {
					require.Equal(t, row.want, string(payload), "step %d", step)
				}
			}
		})
	}
}

// TestChunkedStopsAtItsEnd: bytes behind the body are not consumed.
func TestChunkedStopsAtItsEnd(t *testing.T) {
	t.Parallel()
	raw := []byte("1\r\nx\r\n0\r\n\r\nHTTP/1.1 200 OK")
	var d chunked
	n, used, err := d.decode(raw)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, len("1\r\nx\r\n0\r\n\r\n"), used)
}

func FuzzChunkedAgreesWithNetHTTP(f *testing.F) {
	f.Add([]byte("5\r\nhello\r\n0\r\n\r\n"), uint8(1))
	f.Add([]byte("5;ext\r\nhello\r\n1\r\n!\r\n0\r\nT: v\r\n\r\n"), uint8(4))
	f.Add([]byte("zz\r\n"), uint8(2))
	f.Fuzz(func(t *testing.T, raw []byte, step uint8) {
		if len(raw) > 1<<12 {
			return
		}
		whole, done, err := decodeAll(raw, len(raw)+1)
		pieces, done2, err2 := decodeAll(raw, int(step)%9+1)
		require.Equal(t, done, done2)
		require.Equal(t, err == nil, err2 == nil)
		require.Equal(t, string(whole), string(pieces))
		// What net/http takes as a whole body is the same here.
		want, werr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(raw)))
		if werr == nil && done {
			require.Equal(t, string(want), string(whole))
		}
		// What is encoded properly is decoded.
		var enc bytes.Buffer
		w := httputil.NewChunkedWriter(&enc)
		_, _ = w.Write(raw)
		_ = w.Close()
		enc.WriteString("\r\n")
		back, ok, err := decodeAll(enc.Bytes(), int(step)%9+1)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, string(raw), string(back))
	})
}

func TestParseHead(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, head string
		status     int
		length     int64
		chunked    bool
		closes     bool
		bad        bool
	}{
		{"usual", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 200, 5, false, false, false},
		{"chunked", "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", 200, -1, true, false, false},
		{"close", "HTTP/1.1 503 x\r\nConnection: foo, Close\r\n\r\n", 503, -1, false, true, false},
		{"old protocol", "HTTP/1.0 200 OK\r\n\r\n", 200, -1, false, true, false},
		{"old protocol kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", 200, -1, false, false, false},
		{"no reason", "HTTP/1.1 204\r\n\r\n", 204, -1, false, false, false},
		{"bare LF", "HTTP/1.1 200 OK\nContent-Length: 1\n\n", 200, 1, false, false, false},
		{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", 200, 5, false, false, false},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", 0, 0, false, false, true},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", 0, 0, false, false, true},
		{"other coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 0, 0, false, false, true},
		{"blank in a name", "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", 0, 0, false, false, true},
		{"no colon", "HTTP/1.1 200 OK\r\nabc\r\n\r\n", 0, 0, false, false, true},
		{"no HTTP", "SSH-2.0-x\r\n\r\n", 0, 0, false, false, true},
		{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", 0, 0, false, false, true},
		{"status word", "HTTP/1.1 abc OK\r\n\r\n", 0, 0, false, false, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, err := parseHead([]byte(row.head), nil)
			if row.bad {
				require.ErrorIs(t, err, errHead)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.status, h.status)
			require.Equal(t, row.length, h.length)
			require.Equal(t, row.chunked, h.chunked)
			require.Equal(t, row.closes, h.closeAfter)
		})
	}
}

func TestHeaderGet(t *testing.T) {
	t.Parallel()
	h, err := parseHead([]byte("HTTP/1.1 200 OK\r\nA:  b \r\nset-cookie: 1\r\nSet-Cookie: 2\r\n\r\n"), nil)
	require.NoError(t, err)
	require.Equal(t, "b", h.header.Get("a"))
	require.Equal(t, "1", h.header.Get("Set-Cookie"))
	require.Empty(t, h.header.Get("none"))
	require.Equal(t, "[{A b} {set-cookie 1} {Set-Cookie 2}]", fmt.Sprint(h.header))
}

func FuzzParseHeadNeverPanics(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		end := headEnd(raw, 0)
		if end < 0 {
			return
		}
		h, err := parseHead(raw[:end], nil)
		if err != nil && !errors.Is(err, errHead) {
			t.Fatalf("odd error %v", err)
		}
		if err == nil && (h.status < 100 || h.status > 999) {
			t.Fatalf("status %d", h.status)
		}
	})
}
