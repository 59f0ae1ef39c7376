package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
)

// told is what a client got.
type told struct {
	status            int
	worker, answer    string
	predicted, cached int
	err               error
}

// converse sends one conversation.
func converse(ctx context.Context, url, model, topic string, stream bool) (got told) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}],"max_tokens":2,"stream":%t}`, model,
		topic+strings.Repeat(" which berth is free for the next ship", 40), stream)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return told{err: err}
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return told{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	number := func(name string) int {
		n, wrong := strconv.Atoi(resp.Header.Get(name))
		if wrong != nil {
			return -1
		}
		return n
	}
	return told{
		resp.StatusCode, resp.Header.Get("X-Kvmesh-Worker"), string(text), number("X-Kvmesh-Predicted-Hit-Tokens"),
		number("X-Kvmesh-Cached-Tokens"), err,
	}
}

// operate is an operator's POST to a worker itself.
func operate(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", http.NoBody)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// taken is how many requests a worker's engine has.
func taken(url string) (int, error) {
	resp, err := http.Get(url + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(string(page)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(name, "vllm:num_requests_running{") && !strings.HasPrefix(name, "vllm:num_requests_waiting{") {
			continue
		}
		var v float64
		if _, err := fmt.Sscan(value, &v); err != nil {
			return 0, err
		}
		n += int(v)
	}
	return n, nil
}

// TestAsleepWithACall: what reaches a worker that has just gone to sleep hangs there, and vLLM says nothing. It is answered
// by another worker once the adapter has seen the sleep; without another one the client gets an error.
func TestAsleepWithACall(t *testing.T) {
	rows := []struct {
		name, sleep, wake string
		stream, alone     bool
	}{
		{"sleep, plain", "/sleep?level=1", "/wake_up", false, false},
		{"sleep, streamed", "/sleep?level=1", "/wake_up", true, false},
		{"pause, plain", "/pause?mode=abort", "/resume", false, false},
		{"pause, streamed, no other worker", "/pause?mode=abort", "/resume", true, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			m, url := loraMesh(t, func(c *mesh.Config) {
				for i := range c.Mesh.Workers {
					c.Mesh.Workers[i].Config = workeradapter.Config{
						ID: c.Mesh.Workers[i].ID, PollIdle: 2 * time.Second, Parity: workeradapter.Parity{Disabled: true},
					}
				}
				if row.alone {
					c.Mesh.Workers, c.Mesh.Simulated = c.Mesh.Workers[:1], c.Mesh.Simulated[:1]
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
			defer cancel()
			for round := 0; ; round++ {
				topic := fmt.Sprintf("round %d", round)
				first := converse(ctx, url, base, topic, row.stream)
				require.NoError(t, first.err)
				if first.status != http.StatusOK {
					continue // the worker of the last round is not back yet
				}
				worker := m.WorkerURL(first.worker)
				operate(t, worker+row.sleep)
				done := make(chan told, 1)
				go func() { done <- converse(ctx, url, base, topic, row.stream) }()
				hung, got := hangs(ctx, worker, done)
				operate(t, worker+row.wake)
				if !hung {
					continue // it went elsewhere at once: the adapter had looked in between
				}
				require.NoError(t, got.err)
				if row.alone {
					require.Equal(t, http.StatusBadGateway, got.status, got.answer)
					require.Contains(t, got.answer, `"error"`)
					return
				}
				require.Equal(t, http.StatusOK, got.status, got.answer)
				require.NotEqual(t, first.worker, got.worker)
				return
			}
		})
	}
}

// hangs waits for the end of a call and tells whether it stood at the worker before.
func hangs(ctx context.Context, worker string, done <-chan told) (hung bool, got told) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case got = <-done:
			return hung, got
		case <-ctx.Done():
			return hung, told{err: errors.Join(ctx.Err(), errors.New("the call still hangs"))}
		case <-tick.C:
			n, err := taken(worker)
			hung = hung || err == nil && n > 0
		}
	}
}
