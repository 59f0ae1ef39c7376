package rest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestASilentBodyEnds sends half a body and stops: reading it ends by the deadline, and a body that comes in time leaves
// no deadline behind on the connection.
func TestASilentBodyEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		silence := 50 * time.Millisecond
		if r.URL.Path == "/patient" {
			silence = time.Minute
		}
		if r.URL.Path == "/wrapped" {
			w = struct{ http.ResponseWriter }{w}
		}
		p := newPatience(w, r.Body, silence)
		_, err := io.ReadAll(p)
		ended <- err
	}))
	t.Cleanup(server.Close)
	silent, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	_, err = silent.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"))
	require.NoError(t, err)
	var timeout net.Error
	require.ErrorAs(t, <-ended, &timeout)
	require.True(t, timeout.Timeout())
	_, err = io.ReadAll(silent)
	require.NoError(t, err, "the server closes the connection without waiting for the rest")

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	answers := bufio.NewReader(conn)
	for _, path := range []string{"/patient", "/patient", "/wrapped"} {
		_, err = conn.Write([]byte("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"))
		require.NoError(t, err)
		require.NoError(t, <-ended)
		resp, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
}
