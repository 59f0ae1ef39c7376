package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithheld(t *testing.T) {
	t.Parallel()
	type hit struct{ held, served int }
	times := func(n int, h hit) []hit {
		var out []hit
		for range n {
			out = append(out, h)
		}
		return out
	}
	then := func(all ...[]hit) (out []hit) {
		for _, hs := range all {
			out = append(out, hs...)
		}
		return out
	}
	short, whole := hit{64, 48}, hit{64, 64}
	for name, row := range map[string]struct {
		hits    []hit
		blocks  int
		changes int
	}{
		"nothing seen":               {nil, 0, 0},
		"whole hits":                 {times(100, whole), 0, 0},
		"one block short each time":  {times(withheldVotes, short), 1, 1},
		"not often enough":           {times(withheldVotes-1, short), 0, 0},
		"a whole one between":        {then(times(withheldVotes-1, short), times(1, whole), times(withheldVotes-1, short)), 0, 0},
		"others say nothing":         {then(times(4, short), []hit{{64, 0}, {64, 16}, {0, 0}, {64, 80}}, times(4, short)), 1, 1},
		"a hit of one block":         {times(withheldVotes, hit{16, 0}), 1, 1},
		"prompts without a hit":      {times(100, hit{0, 0}), 0, 0},
		"evictions of other lengths": {times(100, hit{64, 32}), 0, 0},
		"the worker starts without":  {then(times(withheldVotes, short), times(withheldVotes, whole)), 0, 2},
		"and stays":                  {then(times(withheldVotes, short), times(100, short), times(3, whole), times(100, short)), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w Withheld
			changes := 0
			for _, h := range row.hits {
				if w.Observe(h.held, h.served, 16) {
					changes++
				}
			}
			require.Equal(t, row.blocks, w.Blocks())
			require.Equal(t, row.changes, changes)
			require.False(t, w.Observe(64, 48, 0), "a worker whose blocks are not known")
		})
	}
}
