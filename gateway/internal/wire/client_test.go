package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func config() Config {
	return Config{ConnectTimeout: 2 * time.Second, IdleTimeout: time.Minute, MaxIdle: 16}
}

// newClient is a client whose connections are closed at the end.
func newClient(t *testing.T, cfg Config) *Client {
	t.Helper()
	c := NewClient(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// scripted serves each connection with a function; it tells how many there were.
type scripted struct {
	url   string
	conns atomic.Int32
}

func serve(t *testing.T, handle func(n int, c net.Conn, br *bufio.Reader)) *scripted {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &scripted{url: "http://" + ln.Addr().String()}
	var wg sync.WaitGroup
	var open sync.Map
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, true)
			n := int(s.conns.Add(1))
			wg.Go(func() {
				defer c.Close()
				handle(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		open.Range(func(k, _ any) bool {
			if c, ok := k.(net.Conn); ok {
				_ = c.Close()
			}
			return true
		})
		wg.Wait()
	})
	return s
}

func request(base string, body ...string) *Request {
	r := &Request{Base: base, Method: "POST", Path: "/v1/x", Header: []byte("Content-Type: application/json\r\n")}
	for _, b := range body {
		r.Body = append(r.Body, []byte(b))
	}
	return r
}

func readAll(t *testing.T, r *Response) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

// TestRequestsReachAServerWhole uses net/http as the other end.
func TestRequestsReachAServerWhole(t *testing.T) {
	t.Parallel()
	type seen struct{ method, path, body, kind, host string }
	got := make(chan seen, 1)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got <- seen{r.Method, r.URL.String(), string(b), r.Header.Get("Content-Type"), r.Host}
		w.Header().Set("X-Note", "hi")
		_, _ = io.WriteString(w, "answer")
	}))
	t.Cleanup(ts.Close)
	c := newClient(t, config())
	big := strings.Repeat("x", 100_000)
	rows := []struct {
		name, base string
		body       []string
		path, want string
	}{
		{"small body in segments", ts.URL, []string{`{"a":`, `1}`}, "/v1/x", `{"a":1}`},
		{"large body in segments", ts.URL, []string{"<", big, ">"}, "/v1/x", "<" + big + ">"},
		{"no body", ts.URL, nil, "/v1/x", ""},
		{"base with a path", ts.URL + "/prefix/", []string{"x"}, "/prefix/v1/x", "x"},
	}
	for _, row := range rows {
		resp, err := c.Do(context.Background(), request(row.base, row.body...))
		require.NoError(t, err, row.name)
		s := <-got
		require.Equal(t, seen{"POST", row.path, row.want, "application/json", strings.TrimPrefix(ts.URL, "http://")}, s, row.name)
		require.Equal(t, 200, resp.Status())
		require.Equal(t, "hi", resp.Header().Get("x-note"))
		require.EqualValues(t, 6, resp.Length())
		require.Equal(t, "answer", readAll(t, resp))
		resp.Close()
	}
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
		}
	})
	c := newClient(t, config())
	for range 5 {
		resp, err := c.Do(context.Background(), request(s.url, "x"))
		require.NoError(t, err)
		require.Equal(t, "ok", readAll(t, resp))
		require.True(t, resp.Ended())
		resp.Close()
	}
	require.EqualValues(t, 1, s.conns.Load())
}

// TestUnreadBodiesAreNotReused: a connection with bytes left on it must not serve another request.
func TestUnreadBodiesAreNotReused(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
		}
	})
	c := newClient(t, config())
	for range 2 {
		resp, err := c.Do(context.Background(), request(s.url))
		require.NoError(t, err)
		resp.Close()
	}
	require.EqualValues(t, 2, s.conns.Load())
}

// TestAConnectionClosedWhileIdleIsReplacedOnce: the worker closes after its first answer without saying so.
func TestAConnectionClosedWhileIdleIsReplacedOnce(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 8)
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_ = c.Close()
		closed <- struct{}{}
	})
	c := newClient(t, config())
	for range 3 {
		resp, err := c.Do(context.Background(), request(s.url, "x"))
		require.NoError(t, err)
		require.Equal(t, "ok", readAll(t, resp))
		resp.Close()
		<-closed
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		say   string
		phase Phase
	}{
		{"nothing", "", PhaseHead},
		{"garbage", "\x00\xff SSH\r\n\r\n", PhaseHead},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", PhaseHead},
		{"endless head", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", maxHeadBytes+10), PhaseHead},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", PhaseBody},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", PhaseBody},
		{"cut before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", PhaseBody},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", PhaseBody},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
				if _, err := http.ReadRequest(br); err == nil {
					_, _ = io.WriteString(c, row.say)
				}
			})
			c := newClient(t, config())
			resp, err := c.Do(context.Background(), request(s.url))
			if row.phase == PhaseBody {
				require.NoError(t, err)
				_, err = io.ReadAll(resp)
				resp.Close()
			}
			var we *Error
			require.ErrorAs(t, err, &we)
			require.Equal(t, row.phase, we.Phase)
			require.EqualValues(t, 1, s.conns.Load(), "a new connection is not tried again")
		})
	}
}

func TestConnectFailures(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := ln.Addr().String()
	require.NoError(t, ln.Close())
	c := newClient(t, config())
	for _, base := range []string{"http://" + addr, "ftp://x", "http://", "::"} {
		_, err := c.Do(context.Background(), request(base))
		var we *Error
		require.ErrorAs(t, err, &we, base)
		require.Equal(t, PhaseConnect, we.Phase, base)
	}
}

func TestBodyUntilTheConnectionEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nall of it")
		}
	})
	resp, err := newClient(t, config()).Do(context.Background(), request(s.url))
	require.NoError(t, err)
	require.EqualValues(t, -1, resp.Length())
	require.Equal(t, "all of it", readAll(t, resp))
	require.True(t, resp.MustClose())
	resp.Close()
}

func TestInterimResponsesAreSkipped(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 1\r\n\r\ny")
		}
	})
	resp, err := newClient(t, config()).Do(context.Background(), request(s.url))
	require.NoError(t, err)
	require.Equal(t, 201, resp.Status())
	require.Equal(t, "y", readAll(t, resp))
	resp.Close()
}

// TestCancelWakesEveryWait: before the head, and inside the body.
func TestCancelWakesEveryWait(t *testing.T) {
	t.Parallel()
	for _, say := range []string{"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"} {
		arrived, gone := make(chan struct{}), make(chan struct{})
		s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(c, say)
			close(arrived)
			_, _ = br.Peek(1)
			close(gone)
		})
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-arrived; cancel() }()
		resp, err := newClient(t, config()).Do(ctx, request(s.url))
		if say != "" && err == nil {
			_, err = io.ReadAll(resp)
			resp.Close()
		}
		require.Error(t, err)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		<-gone // the worker sees the close
	}
}

func TestWakeAfterLeavesTheResponseUsable(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
			<-more
			_, _ = io.WriteString(c, "b")
		}
	})
	c := newClient(t, config())
	ctx := context.Background()
	resp, err := c.Do(ctx, request(s.url))
	require.NoError(t, err)
	var b [8]byte
	n, err := resp.Read(b[:])
	require.NoError(t, err)
	require.Equal(t, "a", string(b[:n]))
	resp.WakeAfter(ctx, time.Millisecond)
	_, err = resp.Read(b[:])
	require.True(t, Woken(err), "%v", err)
	resp.WakeAfter(ctx, time.Minute)
	more <- struct{}{}
	n, err = resp.Read(b[:])
	require.NoError(t, err)
	require.Equal(t, "b", string(b[:n]))
	_, err = resp.Read(b[:])
	require.ErrorIs(t, err, io.EOF)
	resp.Close()
	resp, err = c.Do(ctx, request(s.url))
	require.NoError(t, err, "the limit does not outlive the response")
	more <- struct{}{}
	require.Equal(t, "ab", readAll(t, resp))
	resp.Close()
	require.EqualValues(t, 1, s.conns.Load())
}

func TestDetachOutlivesTheContext(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
			<-more
			_, _ = io.WriteString(c, "b")
			_, _ = br.Peek(1)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	resp, err := newClient(t, config()).Do(ctx, request(s.url))
	require.NoError(t, err)
	require.True(t, resp.Detach())
	cancel()
	close(more)
	require.Equal(t, "ab", readAll(t, resp))
	resp.Close()
}

func TestIdleConnectionsAreBoundedAndPruned(t *testing.T) {
	t.Parallel()
	var gate sync.WaitGroup
	gate.Add(4)
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(br); err != nil {
				return
			}
			gate.Done()
			gate.Wait()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	cfg := config()
	cfg.MaxIdle = 2
	c := newClient(t, cfg)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			resp, err := c.Do(context.Background(), request(s.url))
			if err == nil {
				resp.Close()
			}
		})
	}
	wg.Wait()
	h, err := c.host(s.url)
	require.NoError(t, err)
	require.Len(t, h.idle, 2)
	require.False(t, h.prune(time.Now().Add(time.Hour), cfg.IdleTimeout, false))
	require.Empty(t, h.idle)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ts := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "secure")
	}))
	t.Cleanup(ts.Close)
	_, err := newClient(t, config()).Do(context.Background(), request(ts.URL))
	require.Error(t, err, "the certificate is checked")
	cfg := config()
	cfg.TLS = ts.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	resp, err := newClient(t, cfg).Do(context.Background(), request(ts.URL))
	require.NoError(t, err)
	require.Equal(t, "secure", readAll(t, resp))
	resp.Close()
}

// TestAnAnswerBeforeTheBodyWasRead: the worker refuses a large body early and closes.
func TestAnAnswerBeforeTheBodyWasRead(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ int, c net.Conn, br *bufio.Reader) {
		if _, err := br.ReadString('\n'); err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, br)
		}
	})
	resp, err := newClient(t, config()).Do(context.Background(), request(s.url, strings.Repeat("x", 1<<20)))
	if errors.Is(err, errNoByte) {
		t.Fatal("the answer was lost")
	}
	require.NoError(t, err)
	require.Equal(t, 413, resp.Status())
	resp.Close()
}
