package policy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryParameterHasAName: a parameter that is added to the options can be configured.
func TestEveryParameterHasAName(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	named := o.Named()
	require.Len(t, named, reflect.TypeFor[Options]().NumField()-1+reflect.TypeFor[CostOptions]().NumField())
	seen := map[string]bool{}
	for _, n := range named {
		require.False(t, seen[n.Name], n.Name)
		seen[n.Name] = true
		require.GreaterOrEqual(t, *n.Value, n.Least, n.Name)
		require.LessOrEqual(t, *n.Value, n.Most, n.Name)
		require.NoError(t, o.Override(map[string]float64{n.Name: n.Least}))
		require.Equal(t, n.Least, *n.Value, n.Name)
	}
}

func TestOverride(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		values map[string]float64
		faults []string
	}{
		{"nothing", nil, nil},
		{"an explicit zero", map[string]float64{"cost_eviction_price": 0}, nil},
		{"unknown", map[string]float64{"cost_evict": 1}, []string{"cost_evict: unknown, want one of degraded_discount, "}},
		{"below", map[string]float64{"consistent_hash_load_factor": 0.5}, []string{"0.5 is not in 1 to 1e+06"}},
		{"above", map[string]float64{"sticky_match": 1.5}, []string{"sticky_match: 1.5 is not in 0 to 1"}},
		{"no number", map[string]float64{"blend_kv": math.NaN()}, []string{"blend_kv: NaN"}},
		{"two faults", map[string]float64{"blend_kv": -1, "blend_hit": -1}, []string{"blend_kv", "blend_hit"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			o := DefaultOptions()
			err := o.Override(row.values)
			if row.faults == nil {
				require.NoError(t, err)
				for _, n := range o.Named() {
					if v, ok := row.values[n.Name]; ok {
						require.Equal(t, v, *n.Value)
					}
				}
				return
			}
			for _, fault := range row.faults {
				require.ErrorContains(t, err, fault)
			}
			require.Equal(t, DefaultOptions(), o, "what is wrong changes nothing")
		})
	}
}

// TestParametersChangeTheChoice: a price of nothing makes the default policy ignore what others hold.
func TestParametersChangeTheChoice(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	require.NoError(t, o.Override(map[string]float64{
		"cost_delay_price": 0, "cost_eviction_price": 0, "cost_decode_weight": 0, "cost_room_s": 1000,
	}))
	p, err := New("cost", o)
	require.NoError(t, err)
	views := []View{
		{Target: 0, ID: 1, HitTokens: 9000, KVUse: 0.9, KVCapacityTokens: 100_000},
		{Target: 1, ID: 2, KVUse: 0.1, KVCapacityTokens: 100_000},
	}
	var r Ranking
	p.Rank(&Request{PromptTokens: 10_000}, views, &r)
	best, ok := r.Best()
	require.True(t, ok)
	require.Equal(t, 1, best.Target)
	name, _ := r.Deciding()
	require.Equal(t, "room", name)
}

// TestThePageOfPolicies holds docs/policies.md to the code: every policy, every parameter with its default and bounds.
func TestThePageOfPolicies(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "policies.md"))
	require.NoError(t, err)
	page := string(raw)
	for _, name := range Names() {
		require.Contains(t, page, "| `"+name+"` |", "a row of its own")
	}
	o := DefaultOptions()
	for _, n := range o.Named() {
		require.Contains(t, page, fmt.Sprintf("| `%s` | %s |", n.Name, plain(*n.Value)))
	}
	require.Equal(t, len(Names())+len(o.Named()), strings.Count(page, "\n| `")-strings.Count(page, "\n| `term "))
}

func plain(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", v), ".00") }
