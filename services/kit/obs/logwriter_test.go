package obs_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/obs"
)

// writes counts calls and keeps what was written.
type writes struct {
	mu    sync.Mutex
	calls int
	buf   bytes.Buffer
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	return w.buf.Write(p)
}

func (w *writes) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

func (w *writes) n() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

func TestLogWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out writes
		w := obs.NewLogWriter(&out, 100*time.Millisecond)
		log := obs.NewLogger(obs.LogConfig{Level: "info", Format: "text"}, w, "s").With("a", 1).WithGroup("g")
		lines := func() int { return strings.Count(out.String(), "\n") }

		log.Info("one")
		log.Info("two")
		require.Zero(t, lines())
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 2, lines())
		require.Equal(t, 1, out.n(), "lines are written together")

		log.Info("three")
		log.Warn("four")
		require.Equal(t, 4, lines(), "a warning is written at once, and what came before it too")

		log.Info("five")
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, 5, lines(), "the wait begins again")

		log.Info(strings.Repeat("x", 40<<10))
		require.Equal(t, 6, lines(), "the buffer is bounded")

		log.Info("seven")
		w.Flush()
		require.Equal(t, 7, lines())
		log.Info("eight")
		w.Close()
		log.Info("nine")
		require.Equal(t, 9, lines(), "a closed writer holds nothing back")
		require.Contains(t, out.String(), "service=s a=1")
		for i, word := range []string{"one", "two", "three", "four", "five", "xxx", "seven", "eight", "nine"} {
			require.Contains(t, strings.Split(out.String(), "\n")[i], "msg="+word)
		}
	})
}

func TestLogWriterAtOnce(t *testing.T) {
	t.Parallel()
	var out writes
	w := obs.NewLogWriter(&out, -1)
	fmt.Fprintln(w, "line")
	require.Equal(t, "line\n", out.String())
}

// TestLogWriterTogether loses no line of many goroutines.
func TestLogWriterTogether(t *testing.T) {
	t.Parallel()
	var out writes
	w := obs.NewLogWriter(&out, time.Millisecond)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				_, err := io.WriteString(w, "0123456789\n")
				require.NoError(t, err)
			}
		})
	}
	wg.Wait()
	w.Close()
	require.Equal(t, strings.Repeat("0123456789\n", 4000), out.String())
	require.Less(t, out.n(), 4000)
}
