package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
)

// serving is a card of models, "name<base" for an adapter.
func serving(id string, models ...string) *workerv1.WorkerCard {
	c := card(id, 1)
	c.Models = nil
	for _, m := range models {
		name, parent, _ := strings.Cut(m, "<")
		c.Models = append(c.Models, &workerv1.ServedModel{Id: name, Parent: parent})
	}
	return c
}

// TestModelsThatShareWorkersShareALine: and no others do; an adapter renames no line.
func TestModelsThatShareWorkersShareALine(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		workers [][]string
		want    map[string]string
	}{
		{"one model each", [][]string{{"m"}, {"n"}, {"m"}}, map[string]string{"m": "m", "n": "n"}},
		{"an adapter", [][]string{{"m", "a<m"}, {"m"}}, map[string]string{"m": "m", "a": "m"}},
		{"an adapter listed first", [][]string{{"a<m", "m"}}, map[string]string{"m": "m", "a": "m"}},
		{"two names of one model", [][]string{{"b", "a"}}, map[string]string{"a": "a", "b": "a"}},
		{
			"by way of others",
			[][]string{{"c", "d"}, {"b", "c"}, {"a", "b"}, {"z"}},
			map[string]string{"a": "a", "b": "a", "c": "a", "d": "a", "z": "z"},
		},
		{"one adapter of two bases", [][]string{{"n", "x<n"}, {"m", "x<m"}}, map[string]string{"m": "m", "n": "m", "x": "m"}},
		{"adapters alone", [][]string{{"y<m", "x<m"}}, map[string]string{"x": "x", "y": "x"}},
		{"a name twice", [][]string{{"m", "m"}}, map[string]string{"m": "m"}},
		{"nothing", [][]string{{}}, map[string]string{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(nil)
			for i, models := range row.workers {
				b.fleet.Card(start, serving(fmt.Sprint("w", i), models...))
			}
			require.Equal(t, row.want, lines(b.fleet.View()))
		})
	}
}

func lines(v *View) map[string]string {
	out := map[string]string{}
	for model, p := range v.Pools {
		out[model] = p.Line
	}
	return out
}

// TestLinesAgainstTheObviousWay: random fleets; two models share a line exactly when a chain of workers joins them.
func TestLinesAgainstTheObviousWay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		b := newBench(nil)
		var workers [][]string
		for i := range 1 + r.IntN(6) {
			var models []string
			for range 1 + r.IntN(3) {
				models = append(models, string(rune('a'+r.IntN(8))))
			}
			workers = append(workers, models)
			b.fleet.Card(start, serving(fmt.Sprint("w", i), models...))
		}
		want := map[string]string{}
		for _, models := range workers {
			for _, m := range models {
				want[m] = m
			}
		}
		for range 8 { // the least name spreads over each worker's models until all have it
			for _, models := range workers {
				least := slices.MinFunc(models, func(a, b string) int { return strings.Compare(want[a], want[b]) })
				for _, m := range models {
					want[m] = want[least]
				}
			}
		}
		require.Equal(t, slices.Sorted(maps.Keys(want)), b.fleet.View().Models())
		require.Equal(t, want, lines(b.fleet.View()), "seed %d: %v", seed, workers)
	}
}
