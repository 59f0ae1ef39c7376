package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// chat is a chat request of the suite.
func chat(messages []message, more map[string]any) map[string]any {
	body := map[string]any{"model": model, "messages": messages, "max_tokens": 8}
	for k, v := range more {
		body[k] = v
	}
	return body
}

func TestMesh(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		c := newCaller(s.URL(t))
		t.Cleanup(c.http.CloseIdleConnections)
		exact(t, c, workerCount)
		t.Run("plain chat", func(t *testing.T) { plainChat(t, c) })
		t.Run("streamed chat", func(t *testing.T) { streamedChat(t, c) })
		t.Run("completion", func(t *testing.T) { completionOf(t, c) })
		t.Run("a stream without usage ends as the worker's own", func(t *testing.T) { unaskedUsage(t, c) })
		t.Run("second turn hits the first turn's worker", func(t *testing.T) { secondTurn(t, c, "second turn") })
		t.Run("messages and responses are predicted", func(t *testing.T) { otherRoutes(t, c) })
		t.Run("bad JSON and unknown model", func(t *testing.T) { refusals(t, c) })
		t.Run("a client that leaves aborts at the worker", func(t *testing.T) { disconnect(t, c, s) })
		t.Run("scheduler restarted", func(t *testing.T) { schedulerRestart(t, c, s) })
		t.Run("worker killed", func(t *testing.T) { workerKilled(t, c, s) })
		idle(t, c)
	})
}

func plainChat(t *testing.T, c *caller) {
	got := c.mustPost(t, "/v1/chat/completions", chat(conversation("plain"), nil), http.StatusOK)
	body := decode(t, got.body)
	require.NotEmpty(t, body.Choices[0].Message.Content)
	require.Equal(t, 8, body.Usage.CompletionTokens)
	require.NotEmpty(t, got.header.Get("X-Kvmesh-Worker"))
	require.Equal(t, "exact", got.header.Get("X-Kvmesh-Certainty"))
	require.Equal(t, "0", got.header.Get("X-Kvmesh-Predicted-Hit-Tokens"))
}

func streamedChat(t *testing.T, c *caller) {
	s := c.open(t, "/v1/chat/completions", chat(conversation("streamed"), map[string]any{
		"stream": true, "stream_options": map[string]bool{"include_usage": true},
	}))
	require.Equal(t, http.StatusOK, s.resp.StatusCode)
	require.Contains(t, s.resp.Header.Get("Content-Type"), "text/event-stream")
	events := s.rest()
	require.Equal(t, "[DONE]", events[len(events)-1])
	var text strings.Builder
	for _, e := range events[:len(events)-1] {
		if body := decode(t, []byte(e)); len(body.Choices) > 0 {
			text.WriteString(body.Choices[0].Delta.Content)
		}
	}
	require.NotEmpty(t, text.String())
	require.Equal(t, 8, decode(t, []byte(events[len(events)-2])).Usage.CompletionTokens)
}

// unaskedUsage: the usage that the mesh asks for is hidden, and the fingerprint that the worker then puts beside it is where
// it stands without usage: on the chunk that ends the choice.
func unaskedUsage(t *testing.T, c *caller) {
	events := c.open(t, "/v1/chat/completions", chat(conversation("unasked"), map[string]any{"stream": true})).rest()
	require.Equal(t, "[DONE]", events[len(events)-1])
	for i, e := range events[:len(events)-1] {
		last := i == len(events)-2
		require.NotContains(t, e, `"usage"`)
		require.Equal(t, last, strings.Contains(e, `"finish_reason":"length"`), e)
		require.Equal(t, last, strings.Contains(e, `"system_fingerprint":"vllm-`), e)
	}
}

func completionOf(t *testing.T, c *caller) {
	got := c.mustPost(t, "/v1/completions", map[string]any{
		"model": model, "prompt": []string{"The tide is", "The wind is"}, "max_tokens": 4,
	}, http.StatusOK)
	body := decode(t, got.body)
	require.Len(t, body.Choices, 2)
	require.Equal(t, 8, body.Usage.CompletionTokens)
}

// secondTurn checks that a conversation comes back to its worker, that the worker's own cached_tokens say so, and that
// the prediction in the headers is right. An answer can overtake the event of its last block, so on a busy machine the
// first prediction may be a block short; it must not stay so.
func secondTurn(t *testing.T, c *caller, topic string) {
	turns := conversation(topic)
	first := c.mustPost(t, "/v1/chat/completions", chat(turns, nil), http.StatusOK)
	turns = append(turns, decode(t, first.body).Choices[0].Message, message{"user", "And then?"})
	eventually(t, 10*time.Second, func() error {
		second := c.mustPost(t, "/v1/chat/completions", chat(turns, nil), http.StatusOK)
		require.Equal(t, first.header.Get("X-Kvmesh-Worker"), second.header.Get("X-Kvmesh-Worker"))
		cached := decode(t, second.body).Usage.Details.CachedTokens
		require.Positive(t, cached)
		require.Equal(t, fmt.Sprint(cached), second.header.Get("X-Kvmesh-Cached-Tokens"))
		if predicted := second.header.Get("X-Kvmesh-Predicted-Hit-Tokens"); predicted != fmt.Sprint(cached) {
			return fmt.Errorf("predicted %s of %d cached tokens", predicted, cached)
		}
		return nil
	})
}

// otherRoutes repeats a prompt on the routes that have other words for the same counts: the worker's own count reaches
// the header, and the prediction meets it.
func otherRoutes(t *testing.T, c *caller) {
	turn := conversation("routes")[:1]
	turn[0].Role = "user"
	for path, body := range map[string]map[string]any{
		"/v1/messages":  {"model": model, "messages": turn, "max_tokens": 4},
		"/v1/responses": {"model": model, "input": turn[0].Content, "max_output_tokens": 4},
	} {
		eventually(t, 10*time.Second, func() error {
			got := c.mustPost(t, path, body, http.StatusOK).header
			cached, predicted := got.Get("X-Kvmesh-Cached-Tokens"), got.Get("X-Kvmesh-Predicted-Hit-Tokens")
			if cached == "" || cached == "0" || cached != predicted {
				return fmt.Errorf("%s: predicted %s of %q cached tokens", path, predicted, cached)
			}
			return nil
		})
	}
}

func refusals(t *testing.T, c *caller) {
	rows := []struct {
		name, body string
		status     int
		param      string
	}{
		{"broken JSON", `{"model": "` + model + `", "messages": [`, http.StatusBadRequest, ""},
		{"no object", `[1, 2]`, http.StatusBadRequest, ""},
		{"empty body", ``, http.StatusBadRequest, ""},
		{"unknown model", `{"model": "no/such", "messages": [{"role": "user", "content": "x"}]}`, http.StatusNotFound, "model"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got := c.mustPost(t, "/v1/chat/completions", row.body, row.status)
			body := decode(t, got.body)
			require.NotNil(t, body.Error, string(got.body))
			require.NotEmpty(t, body.Error.Message)
			if row.param != "" {
				require.Equal(t, row.param, *body.Error.Param)
			}
		})
	}
}

// disconnect leaves a stream after its first events and waits until the worker runs nothing.
func disconnect(t *testing.T, c *caller, s shape) {
	open := c.open(t, "/v1/chat/completions", chat(conversation("leaving"), map[string]any{
		"stream": true, "max_tokens": 4000, "ignore_eos": true,
	}))
	worker := open.resp.Header.Get("X-Kvmesh-Worker")
	for range 3 {
		_, ok := open.next()
		require.True(t, ok)
	}
	at := newCaller(s.WorkerURL(t, int(worker[len(worker)-1]-'0')))
	defer at.http.CloseIdleConnections()
	require.Positive(t, running(t, at), "the worker runs the request")
	open.close()
	eventually(t, 5*time.Second, func() error {
		if n := running(t, at); n != 0 {
			return errCount("requests running at the worker", n, 0)
		}
		return nil
	})
	idle(t, c)
}

// running reads a worker's own count of running requests.
func running(t *testing.T, at *caller) int {
	t.Helper()
	got, err := at.get(t.Context(), "/metrics")
	require.NoError(t, err)
	for line := range strings.Lines(string(got.body)) {
		if strings.HasPrefix(line, "vllm:num_requests_running{") {
			var n float64
			_, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n)
			require.NoError(t, err)
			return int(n)
		}
	}
	require.Fail(t, "the worker has no vllm:num_requests_running")
	return 0
}

// schedulerRestart checks that a new scheduler knows the caches again, from snapshots, without any new event.
func schedulerRestart(t *testing.T, c *caller, s shape) {
	turns := conversation("before the restart")
	first := c.mustPost(t, "/v1/chat/completions", chat(turns, nil), http.StatusOK)
	s.RestartScheduler(t)
	exact(t, c, workerCount)
	turns = append(turns, decode(t, first.body).Choices[0].Message, message{"user", "And now?"})
	second := c.mustPost(t, "/v1/chat/completions", chat(turns, nil), http.StatusOK)
	require.Equal(t, first.header.Get("X-Kvmesh-Worker"), second.header.Get("X-Kvmesh-Worker"))
	require.NotEqual(t, "0", second.header.Get("X-Kvmesh-Predicted-Hit-Tokens"))
	require.Positive(t, decode(t, second.body).Usage.Details.CachedTokens)
}

// workerKilled kills a worker under load: every request ends with an answer or an error, the dead one's lease ends, the
// rest serves, and the worker is taken back when it returns.
func workerKilled(t *testing.T, c *caller, s shape) {
	var wg sync.WaitGroup
	results := make(chan error, 64)
	for i := range 16 {
		wg.Go(func() {
			for j := range 4 {
				got, err := c.post(t.Context(), "/v1/chat/completions", chat(conversation(fmt.Sprintf("load %d %d", i, j)), nil))
				if err == nil && got.status != http.StatusOK && got.status != http.StatusBadGateway &&
					got.status != http.StatusServiceUnavailable {
					err = errStatus(got)
				}
				results <- err
			}
		})
	}
	s.KillWorker(t, 0)
	wg.Wait()
	close(results)
	for err := range results {
		require.NoError(t, err)
	}
	eventually(t, 10*time.Second, func() error {
		f, err := fleetOf(t.Context(), c)
		if err == nil && len(f.Workers) != workerCount-1 {
			err = errCount("workers with a lease", len(f.Workers), workerCount-1)
		}
		return err
	})
	for i := range 4 {
		got := c.mustPost(t, "/v1/chat/completions", chat(conversation(fmt.Sprintf("after %d", i)), nil), http.StatusOK)
		require.Equal(t, workerID(1), got.header.Get("X-Kvmesh-Worker"))
	}
	s.StartWorker(t, 0)
	exact(t, c, workerCount)
	secondTurn(t, c, "the worker is back")
}
