package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Unix(5000, 0)

func config() Config {
	return Config{Failures: 3, OpenMin: time.Second, OpenMax: 3 * time.Second}
}

func TestOnlyFailuresInARowOpen(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		ends []Verdict
		want State
	}{
		{"none", nil, Closed},
		{"two", []Verdict{Failed, Failed}, Closed},
		{"three", []Verdict{Failed, Failed, Failed}, Open},
		{"an answer between", []Verdict{Failed, Failed, Alive, Failed, Failed}, Closed},
		{"a client that left between", []Verdict{Failed, Silent, Failed, Silent, Failed}, Open},
		{"refusals only", []Verdict{Alive, Alive, Alive, Alive}, Closed},
		{"departures only", []Verdict{Silent, Silent, Silent, Silent}, Closed},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := New(config())
			for i, v := range row.ends {
				b.Sent(start, uint64(i+1))
				b.Done(start, uint64(i+1), v)
			}
			require.Equal(t, row.want, b.State(start))
			require.Equal(t, row.want == Closed, b.Allows(start))
		})
	}
}

func opened(t *testing.T) *Breaker {
	b := New(config())
	for i := range uint64(3) {
		b.Done(start, i+1, Failed)
	}
	require.Equal(t, Open, b.State(start))
	return b
}

func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	b := opened(t)
	later := start.Add(time.Second)
	require.Equal(t, HalfOpen, b.State(later))
	require.True(t, b.Allows(later))
	b.Sent(later, 10)
	require.False(t, b.Allows(later), "the probe is out")
	b.Done(later, 4, Alive)
	require.Equal(t, HalfOpen, b.State(later), "a request sent before the failure proves nothing")
	b.Done(later, 10, Alive)
	require.Equal(t, Closed, b.State(later))
	require.True(t, b.Allows(later))
}

func TestAReturnedWorkerIsProbedAtOnce(t *testing.T) {
	t.Parallel()
	b := opened(t)
	b.Returned(start)
	require.Equal(t, HalfOpen, b.State(start))
	b.Sent(start, 10)
	b.Done(start, 10, Failed)
	require.Equal(t, Open, b.State(start), "a probe that fails opens it again")
	b = New(config())
	b.Returned(start)
	require.Equal(t, Closed, b.State(start))
}

func TestFailedProbesWaitLongerAndLonger(t *testing.T) {
	t.Parallel()
	b, now := opened(t), start
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		require.False(t, b.Allows(now.Add(wait-time.Millisecond)), "opening %d", i)
		now = now.Add(wait)
		require.True(t, b.Allows(now))
		b.Sent(now, uint64(100+i))
		b.Done(now, uint64(100+i), Failed)
	}
	require.Equal(t, uint64(5), b.Opened())
}

func TestAProbeWithoutVerdictMakesRoomForTheNext(t *testing.T) {
	t.Parallel()
	b := opened(t)
	later := start.Add(time.Second)
	b.Sent(later, 10)
	b.Done(later, 10, Silent)
	require.True(t, b.Allows(later))
	b.Done(later, 11, Failed)
	require.Equal(t, HalfOpen, b.State(later), "not the probe")
}

func TestSpelling(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"closed", "open", "half-open"}, []string{Closed.String(), Open.String(), HalfOpen.String()})
}
