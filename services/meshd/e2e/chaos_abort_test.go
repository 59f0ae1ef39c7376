package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// abortTarget is how many clients leave before their answer is complete.
	abortTarget = 1000
	// abortCallers leave at the same time at most: with answers of abortTokens they fill both workers.
	abortCallers = 24
	// abortTokens makes answers longer than any client's patience.
	abortTokens = 400
	// abortPatience is the longest time that a client stays; the moment is drawn evenly below it, so that clients leave
	// while they are routed, queued, in prefill, and mid-stream.
	abortPatience = 120 * time.Millisecond
)

// TestAborts is CANCEL-06: a thousand clients leave at random moments, then nothing is in flight anywhere.
func TestAborts(t *testing.T) {
	s := startOne(t)
	c := newCaller(s.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	exact(t, c, workerCount)
	var aborted, answered, both atomic.Int64 // both counts the stages that were seen
	var stages sync.Map                      // what the client had seen when it left
	var wg sync.WaitGroup
	for i := range abortCallers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(6, uint64(i)))
			for n := 0; aborted.Load() < abortTarget || both.Load() < 2 && n < abortTarget; n++ {
				patience := abortPatience << min(n/(abortTarget/abortCallers), 5) // a busy machine needs more for a first byte
				stage, err := leave(t.Context(), c, fmt.Sprintf("abort %d %d", i, n%20), patience, random)
				if err != nil {
					answered.Add(1)
					continue
				}
				aborted.Add(1)
				count, old := stages.LoadOrStore(stage, new(atomic.Int64))
				if !old {
					both.Add(1)
				}
				count.(*atomic.Int64).Add(1)
			}
		})
	}
	wg.Wait()
	left := time.Now()
	idle(t, c)
	zero := time.Since(left)
	for i := range workerCount {
		at := newCaller(s.WorkerURL(t, i))
		eventually(t, 5*time.Second, func() error { return quiet(t, at) })
		at.http.CloseIdleConnections()
	}
	var seen []string
	stages.Range(func(stage, count any) bool {
		seen = append(seen, fmt.Sprintf("%s %d", stage, count.(*atomic.Int64).Load()))
		return true
	})
	t.Logf("%d aborts (%s), %d answers before that; nothing in flight %s after the last", aborted.Load(),
		strings.Join(seen, ", "), answered.Load(), zero.Round(time.Millisecond))
	require.Len(t, seen, 2, "clients must leave before and after the first byte")
	secondTurn(t, c, "after the aborts")
}

// leave sends a request, streamed or not, and goes away at a random moment. It tells how far the answer was, or an
// error when the answer was complete before.
func leave(ctx context.Context, c *caller, topic string, patience time.Duration, random *rand.Rand) (stage string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(random.Int64N(int64(patience))))
	defer cancel()
	more := map[string]any{"max_tokens": abortTokens, "ignore_eos": true, "stream": random.IntN(2) == 0}
	got, err := c.post(ctx, "/v1/chat/completions", chat(conversation(topic), more))
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("the answer came first: status %d, %w", got.status, err)
	case got.status == 0:
		return "before the first byte", nil
	}
	return "mid-answer", nil
}

// quiet says whether a worker runs and queues nothing.
func quiet(t *testing.T, at *caller) error {
	t.Helper()
	got, err := at.get(t.Context(), "/metrics")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(got.body)) {
		for _, name := range []string{"vllm:num_requests_running{", "vllm:num_requests_waiting{"} {
			if !strings.HasPrefix(line, name) {
				continue
			}
			found++
			if value := strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]); value != "0" && value != "0.0" {
				return fmt.Errorf("%s is %s", name, value)
			}
		}
	}
	require.Equal(t, 2, found, "counts of running and waiting requests")
	return nil
}
