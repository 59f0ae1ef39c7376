package admit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// bench is a queue in front of one place, with a cache of prefixes behind it.
type bench struct {
	t        *testing.T
	q        *Queue
	r        *rand.Rand
	cache    []string // groups whose prefix is cached, the least recently used first
	room     int
	waiting  map[*Waiter]string // group
	served   map[string]float64 // weighted tokens by tenant
	hits     int
	requests int
}

const (
	prefixTokens = 4000
	ownTokens    = 500
	outTokens    = 200
)

func newBench(t *testing.T, quantum, room int) *bench {
	return &bench{
		t: t, q: New(Config{MaxWaiting: 10_000, MaxTenants: 100, QuantumTokens: quantum}, start), room: room,
		r: rand.New(rand.NewPCG(1, 9)), waiting: map[*Waiter]string{}, served: map[string]float64{},
	}
}

func (b *bench) held(group string) int {
	if slices.Contains(b.cache, group) {
		return prefixTokens
	}
	return 0
}

func (b *bench) arrive(tenant, group string) {
	w := &Waiter{Model: "m", Tenant: tenant, Peek: func() int { return b.held(group) }}
	b.q.Tenants().Begin(tenant)
	require.True(b.t, enter(b.q, w))
	b.waiting[w] = group
}

// serve gives the place to whose turn it is.
func (b *bench) serve() *Waiter {
	b.q.Refresh(100)
	b.q.Freed(start, "m")
	for w, group := range b.waiting {
		if !w.awake {
			continue
		}
		<-w.turn
		w.awake = false
		b.q.Leave(w, false)
		inVain(b.q.lines["m"])
		delete(b.waiting, w)
		b.run(w.Tenant, group)
		return w
	}
	b.t.Fatal("nobody has the turn")
	return nil
}

func (b *bench) run(tenant, group string) {
	cached := b.held(group)
	if cached > 0 {
		b.hits++
	}
	b.requests++
	b.cache = append(slices.DeleteFunc(b.cache, func(g string) bool { return g == group }), group)
	b.cache = b.cache[max(0, len(b.cache)-b.room):]
	before := b.q.Tenants().Spent(tenant)
	b.q.Tenants().ChargeInput(tenant, prefixTokens+ownTokens-cached, cached)
	b.q.Tenants().ChargeOutput(tenant, outTokens)
	b.served[tenant] += b.q.Tenants().Spent(tenant) - before
}

// backlog serves n requests of tenants that always wait, the first with ten times as many requests as each other; every
// tenant has groups of its own.
func (b *bench) backlog(n, groups int) {
	share := map[string]int{"flood": 200, "a": 20, "b": 20, "c": 20}
	add := func(tenant string) { b.arrive(tenant, fmt.Sprint(tenant, b.r.IntN(groups))) }
	for _, tenant := range []string{"flood", "a", "b", "c"} {
		for range share[tenant] {
			add(tenant)
		}
	}
	for range n {
		add(b.serve().Tenant)
	}
}

func (b *bench) jain() float64 {
	sum, squares := 0.0, 0.0
	for _, v := range b.served {
		sum, squares = sum+v, squares+v*v
	}
	return sum * sum / (4 * squares)
}

// TestLocalityWithinFairness: at a skew of ten to one the tenants are served alike and hardly a hit is lost against taking
// the longest prefix whoever it belongs to. Without the quantum nearly all are lost.
func TestLocalityWithinFairness(t *testing.T) {
	t.Parallel()
	const requests, groups, room, quantum = 1000, 4, 3, 65_536
	run := func(quantum int) *bench {
		b := newBench(t, quantum, room)
		b.backlog(requests, groups)
		t.Logf("quantum %d: Jain %.3f, hits %.3f", quantum, b.jain(), float64(b.hits)/float64(b.requests))
		return b
	}
	strict, fair, greedy := run(0), run(quantum), run(1<<50)
	require.GreaterOrEqual(t, fair.jain(), 0.95)
	require.GreaterOrEqual(t, float64(fair.hits), 0.95*float64(greedy.hits))
	require.Less(t, float64(strict.hits), 0.1*float64(fair.hits), "turns one by one thrash the cache")
	require.GreaterOrEqual(t, strict.jain(), 0.95)
	require.Less(t, greedy.jain(), 0.9, "the longest prefix alone is not fair")
}

// TestUnfairnessIsBounded: the counters of tenants that always wait stay within the quantum and one request of each other.
func TestUnfairnessIsBounded(t *testing.T) {
	t.Parallel()
	for _, quantum := range []int{0, 5000, 32_768, 200_000} {
		t.Run(fmt.Sprint(quantum), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quantum, 4)
			const request = prefixTokens + ownTokens + 2*outTokens
			for _, tenant := range []string{"flood", "a", "b", "c"} {
				for range 5 {
					b.arrive(tenant, fmt.Sprint(tenant, b.r.IntN(3)))
				}
			}
			for range 300 {
				tenant := b.serve().Tenant
				b.arrive(tenant, fmt.Sprint(tenant, b.r.IntN(3)))
				least, most := b.q.Tenants().Spent("a"), b.q.Tenants().Spent("a")
				for _, other := range []string{"flood", "b", "c"} {
					least, most = min(least, b.q.Tenants().Spent(other)), max(most, b.q.Tenants().Spent(other))
				}
				require.LessOrEqual(t, most-least, float64(quantum+request))
			}
		})
	}
}

func TestTurnsWithinTheQuantum(t *testing.T) {
	t.Parallel()
	type waiter struct {
		tenant   string
		priority int32
		hit      int
	}
	for _, row := range []struct {
		name    string
		quantum int
		spent   map[string]int
		waiters []waiter
		want    []int
	}{
		{"longest prefix first", 1000, nil, []waiter{{"a", 0, 10}, {"b", 0, 30}, {"c", 0, 20}}, []int{1, 2, 0}},
		{
			"but not of a tenant that had more than the quantum", 1000,
			map[string]int{"b": 1001},
			[]waiter{{"a", 0, 10}, {"b", 0, 30}, {"c", 0, 20}},
			[]int{2, 0, 1},
		},
		{"equal prefixes: who had less", 1000, map[string]int{"a": 5}, []waiter{{"a", 0, 7}, {"b", 0, 7}}, []int{1, 0}},
		{"equal in all: who came first", 1000, nil, []waiter{{"a", 0, 7}, {"b", 0, 7}}, []int{0, 1}},
		{"priority before all", 1000, map[string]int{"b": 9000}, []waiter{{"a", 0, 99}, {"b", 1, 0}}, []int{1, 0}},
		{"no quantum: the least served tenant", 0, map[string]int{"b": 1}, []waiter{{"b", 0, 99}, {"a", 0, 0}}, []int{1, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			q := New(Config{MaxWaiting: 10, MaxTenants: 10, QuantumTokens: row.quantum}, start)
			for tenant, n := range row.spent {
				q.Tenants().ChargeInput(tenant, n, 0)
			}
			var ws []*Waiter
			for _, w := range row.waiters {
				ws = append(ws, &Waiter{Model: "m", Tenant: w.tenant, Priority: w.priority, Peek: func() int { return w.hit }})
				require.True(t, enter(q, ws[len(ws)-1]))
			}
			var got []int
			for range ws {
				q.Freed(start, "m")
				for i, w := range ws {
					select {
					case <-w.turn:
						got = append(got, i)
					default:
					}
				}
			}
			require.Equal(t, row.want, got)
		})
	}
}

// TestNobodyStarvesBehindPrefixes: a request without a prefix among cached ones of its tenant waits for a bounded number.
func TestNobodyStarvesBehindPrefixes(t *testing.T) {
	t.Parallel()
	b := newBench(t, 1<<40, 1)
	b.run("a", "hot")
	b.arrive("a", "cold")
	for n := 1; ; n++ {
		b.arrive("a", "hot")
		w := b.serve()
		if w.hit == 0 {
			require.Equal(t, maxOvertaken+1, n)
			return
		}
		require.LessOrEqual(t, n, maxOvertaken)
	}
}

// TestRefreshAsksAllInTurn: a bounded number at a time, everybody once a round.
func TestRefreshAsksAllInTurn(t *testing.T) {
	t.Parallel()
	q := newQueue(100)
	asked := make([]atomic.Int64, 10)
	for i := range asked {
		w := &Waiter{Model: fmt.Sprint(i % 3), Peek: func() int { return int(asked[i].Add(1)) }}
		require.True(t, enter(q, w))
	}
	require.True(t, enter(q, &Waiter{Model: "m"}), "nobody knows its prefix")
	for range 8 {
		q.Refresh(3)
	}
	for i := range asked {
		require.InDelta(t, 3.4, asked[i].Load(), 1, "waiter %d", i)
	}
	q.Refresh(0)
}
