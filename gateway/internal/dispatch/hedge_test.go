package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHedgeIsOffByDefault(t *testing.T) {
	t.Parallel()
	require.False(t, Hedge{Budget: 0.05}.On())
	require.True(t, Hedge{Delay: time.Second}.On())
	require.True(t, Hedge{Quantile: 0.9}.On())
}

func TestHedgeWaits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		cfg     Hedge
		samples int // first bytes of 1 ms, 2 ms and so on
		want    time.Duration
		ok      bool
	}{
		"fixed":                       {Hedge{Delay: time.Second}, 0, time.Second, true},
		"fixed, whatever was seen":    {Hedge{Delay: time.Second}, 100, time.Second, true},
		"a quantile needs samples":    {Hedge{Quantile: 0.9}, hedgeLeast - 1, 0, false},
		"until then the delay counts": {Hedge{Quantile: 0.9, Delay: time.Second}, 3, time.Second, true},
		"quantile":                    {Hedge{Quantile: 0.9}, 100, 91 * time.Millisecond, true},
		"not below the delay":         {Hedge{Quantile: 0.5, Delay: time.Second}, 100, time.Second, true},
		"only the newest count":       {Hedge{Quantile: 0.5}, 2 * hedgeSamples, 769 * time.Millisecond, true},
	} {
		h := hedger{cfg: row.cfg}
		for i := range row.samples {
			h.observe(time.Duration(i+1) * time.Millisecond)
		}
		d, ok := h.delay()
		require.Equal(t, row.ok, ok, name)
		require.Equal(t, row.want, d, name)
	}
}

// TestHedgeBudget: of many requests no more than the share is hedged, beside what an idle time saved up.
func TestHedgeBudget(t *testing.T) {
	t.Parallel()
	h := hedger{cfg: Hedge{Delay: time.Second, Budget: 0.125}, savings: 1}
	spent := 0
	for range 1000 {
		h.delay()
		if h.spend() {
			spent++
		}
	}
	require.Equal(t, 126, spent)
	for range 1000 {
		h.delay()
	}
	burst := 0
	for h.spend() {
		burst++
	}
	require.Equal(t, hedgeBurst, burst)
}
