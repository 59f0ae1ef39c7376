package policy

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
)

// TestEveryTermHasWords: no policy's deciding term is left to its bare name.
func TestEveryTermHasWords(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, p Policy, rng *rand.Rand) {
		var r Ranking
		for range 300 {
			req, views := draw(rng)
			p.Rank(&req, views, &r)
			if len(r.Scored) == 0 {
				continue
			}
			why := r.Why()
			require.NotEmpty(t, why)
			require.NotContains(t, why, " is less", "a term without words")
			for _, term := range r.Terms {
				require.NotContains(t, wordingOf(term).words, " is less")
			}
		}
	})
	require.Equal(t, "new is less", wordingOf("new").words, "a term that is not known is named at least")
}

// TestWhyNamesWhatDecided has for each policy two targets that differ in what it goes by.
func TestWhyNamesWhatDecided(t *testing.T) {
	t.Parallel()
	busy := View{
		Target: 0, ID: 1, Inflight: 9, KVTokens: 9000, PrefillQueuedTokens: 5000, PrefillBookedTokens: 5000, KVUse: 0.5,
		Waiting: 8, LastDispatch: 7, KVCapacityTokens: 100_000, Coefficients: learn.Prior(),
	}
	idle := View{Target: 1, ID: 2, LastDispatch: 3, KVCapacityTokens: 100_000, Coefficients: learn.Prior()}
	warm := idle
	warm.HitTokens = 9984
	cold := idle
	cold.ID, cold.Target = 1, 0
	for _, row := range []struct {
		policy string
		views  []View
		want   string
	}{
		{"round-robin", []View{busy, idle}, "its turn"},
		{"random", []View{busy, idle}, "tie, drawn at random"},
		{"least-requests", []View{busy, idle}, "fewer requests in flight by 9 requests"},
		{"least-tokens", []View{busy, idle}, "fewer tokens in flight by 5.45e+03 tokens"},
		{"power-of-two", []View{busy, idle}, "less loaded of the two drawn"},
		{"longest-prefix", []View{cold, warm}, "longer match by 9.98e+03 tokens"},
		{"blend", []View{cold, warm}, "longer match by 3 of the score"},
		{"sticky", []View{cold, warm}, "warm, the other one is cold"},
		{"sticky", []View{busy, idle}, "shorter queue by 5e+03 tokens"},
		{"lmetric", []View{cold, warm}, "fewer tokens times requests by 9.98e+03 tokens"},
		{"predicted-ttft", []View{cold, warm}, "less of the prompt to compute by 0."},
		{"cost", []View{cold, warm}, "less of the prompt to compute by 0."},
		{"cost", []View{busy, idle}, "shorter queue by 0."},
		{"cost", []View{idle}, "only candidate"},
		{"cost", []View{cold, idle}, "tie, drawn at random"},
	} {
		t.Run(row.policy+" "+row.want, func(t *testing.T) {
			t.Parallel()
			p, err := New(row.policy, DefaultOptions())
			require.NoError(t, err)
			var r Ranking
			p.Rank(&Request{PromptTokens: 10_000, Key: 3}, row.views, &r)
			require.True(t, strings.HasPrefix(r.Why(), row.want), r.Why())
		})
	}
	home := busy
	home.SessionHome = true
	p, err := New("cost", DefaultOptions())
	require.NoError(t, err)
	var r Ranking
	p.Rank(&Request{PromptTokens: 10_000}, []View{home, idle}, &r)
	require.Equal(t, "session stays", r.Why())
}
