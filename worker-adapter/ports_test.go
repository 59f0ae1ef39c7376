package workeradapter_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// door is one HTTP address behind which the process can change, as a restarted server's port. It hides the start time of
// the process, as vLLM's metrics of several API servers do.
type door struct {
	behind atomic.Pointer[worker]
	asked  atomic.Int64 // questions about event sources
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/kv_event_sources" {
		d.asked.Add(1)
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, d.behind.Load().url+r.URL.RequestURI(), r.Body)
	if err != nil {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		http.Error(w, "nobody there", http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	if r.URL.Path == "/metrics" {
		body = bytes.ReplaceAll(body, []byte("process_start_time_seconds"), []byte("hidden"))
	}
	w.WriteHeader(res.StatusCode)
	_, _ = w.Write(body)
}

// TestNewEventPorts: a worker that restarts between two looks, on other event ports, is found again, and what its
// predecessor held is gone.
func TestNewEventPorts(t *testing.T) {
	t.Parallel()
	first := startWorker(t, fakevllm.Config{BlockSize: 32})
	d := &door{}
	d.behind.Store(&first)
	front := httptest.NewServer(d)
	t.Cleanup(front.Close)
	m := newMesh()
	startAdapter(t, fast(front.URL), m)
	untilLive(t, m)
	old, fresh := prompt(5, 200), prompt(6, 200)
	first.complete(t, old)
	untilHit(t, m, old, 192)
	asked := d.asked.Load()
	require.EqualValues(t, 1, asked, "a worker that is heard is not asked again")

	second := startWorker(t, fakevllm.Config{BlockSize: 32})
	second.complete(t, fresh)
	d.behind.Store(&second)
	first.stop()
	untilHit(t, m, fresh, 192)
	untilHit(t, m, old, 0)
	c := untilLive(t, m)
	require.True(t, strings.HasSuffix(c.Version, "simulated"))
}
