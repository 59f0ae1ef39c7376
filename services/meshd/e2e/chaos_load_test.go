package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// loadCallers is how many requests are under way at most.
	loadCallers = 8
	// loadTopics is how many conversations each caller keeps, in turn.
	loadTopics = 3
	// loadTurns is when a conversation ends and another begins, so that new blocks are stored all the time.
	loadTurns = 6
	// loadPause bounds each caller to 20 requests per second.
	loadPause = 50 * time.Millisecond
)

// load is a steady stream of short chats that goes on while parts of the mesh die. Half of the callers stream.
type load struct {
	stop func()

	mu    sync.Mutex
	count map[string]int // calls by ending and status
	ended int
	whole int
	wrong []error
	slow  time.Duration
	talks map[string][]message // conversations as they stand, by topic
	door  bool                 // the gateway is down: calls may find no door, or lose theirs
}

// doorClosed says whether calls may fail for want of a gateway.
func (l *load) doorClosed(closed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.door = closed
}

// startLoad begins; the callers end with stop, which waits for the calls under way.
func startLoad(t *testing.T, base string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{count: map[string]int{}, talks: map[string][]message{}}
	var wg sync.WaitGroup
	for i := range loadCallers {
		wg.Go(func() { l.run(ctx, base, i) })
	}
	l.stop = func() {
		cancel()
		wg.Wait()
	}
	t.Cleanup(l.stop)
	return l
}

// run is one caller: a turn of one of its conversations at each tick.
func (l *load) run(ctx context.Context, base string, number int) {
	c := newCaller(base)
	defer c.http.CloseIdleConnections()
	tick := time.NewTicker(loadPause)
	defer tick.Stop()
	talks := make([][]message, loadTopics)
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		slot, round := n%loadTopics, n/loadTopics
		topic := fmt.Sprintf("caller %d slot %d life %d", number, slot, round/loadTurns)
		if round%loadTurns == 0 || talks[slot] == nil {
			talks[slot] = conversation(topic)
		}
		// A call under way when the load stops is waited for: ctx ends the loop alone.
		got, err := ask(context.WithoutCancel(ctx), c, talks[slot], number%2 == 1)
		if err == nil && got.ending == whole {
			question := message{"user", fmt.Sprintf("And what comes after that, in part %d?", round)}
			talks[slot] = append(slices.Clip(talks[slot]), got.reply, question)
		}
		l.note(got, err, fmt.Sprintf("%d/%d", number, slot), talks[slot])
	}
}

func (l *load) note(got call, err error, place string, talk []message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	l.slow = max(l.slow, got.took)
	l.talks[place] = talk
	if err != nil && l.door && errors.Is(err, errNoDoor) {
		l.count["no gateway"]++
		return
	}
	if err != nil {
		l.wrong = append(l.wrong, err)
		return
	}
	l.count[fmt.Sprintf("%s %d", got.ending, got.status)]++
	if got.ending == whole {
		l.whole++
	}
}

// progress is how many calls have ended, and how many of them whole.
func (l *load) progress() (ended, whole int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended, l.whole
}

// awaitEnded waits for n more calls to end, well or not.
func (l *load) awaitEnded(t *testing.T, n int) {
	t.Helper()
	from, _ := l.progress()
	eventually(t, 2*callLimit, func() error {
		if now, _ := l.progress(); now < from+n {
			return errCount("calls ended", now-from, n)
		}
		return nil
	})
}

// awaitWhole waits for n more whole answers.
func (l *load) awaitWhole(t *testing.T, n int) {
	t.Helper()
	_, from := l.progress()
	eventually(t, 2*callLimit, func() error {
		if _, now := l.progress(); now < from+n {
			return errCount("whole answers", now-from, n)
		}
		return nil
	})
}

// take gives the tally since the last take, in words, and how many calls did not end whole. Wrong answers fail the
// test.
func (l *load) take(t *testing.T) (text string, broken int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(t, l.wrong, "hung or wrong")
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(l.count)) {
		parts = append(parts, fmt.Sprintf("%s: %d", key, l.count[key]))
		if !strings.HasPrefix(key, string(whole)) {
			broken += l.count[key]
		}
	}
	text = fmt.Sprintf("%s; slowest %s", strings.Join(parts, ", "), l.slow.Round(time.Millisecond))
	l.count, l.slow = map[string]int{}, 0
	return text, broken
}
