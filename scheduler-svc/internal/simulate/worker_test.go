package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a worker on which a test can count: a second per prefill token, nothing else takes time but a step's second.
func small(kvTokens, budget int) Profile {
	return Profile{Name: "small", StepS: 1, PrefillS: 1, BudgetToks: budget, MaxSeqs: 64, BlockTokens: 16, KVTokens: kvTokens}
}

// tape records what a worker's clients see.
type tape struct {
	now   time.Duration
	first map[int]time.Duration
	end   map[int]time.Duration
}

func (t *tape) firstToken(_ *worker, s *sequence) { t.first[s.id] = t.now }
func (t *tape) ended(_ *worker, s *sequence)      { t.end[s.id] = t.now }

func newTape() *tape { return &tape{first: map[int]time.Duration{}, end: map[int]time.Duration{}} }

// drain runs the worker until it has nothing to do, checking it after every step.
func drain(t *testing.T, w *worker, tp *tape, check func()) {
	t.Helper()
	for range 1_000_000 {
		w.begin(tp.now)
		if !w.busy {
			require.Zero(t, len(w.running)+w.waiting.len(), "idle with work left")
			return
		}
		tp.now = w.stepEnd
		w.end(tp)
		if check != nil {
			check()
		}
	}
	t.Fatal("the worker does not come to an end")
}

func seq(id, prompt, output int, units ...uint32) *sequence {
	return &sequence{id: id, units: units, length: prompt, prompt: prompt, output: output}
}

func TestStepsOfOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorker(small(1600, 64), &Workload{UnitTokens: 16, Distinct: 10})
	tp := newTape()
	w.waiting.push(seq(1, 100, 3))
	drain(t, w, tp, nil)
	// 64 and 36 prompt tokens in two steps, then two decode steps of a second.
	require.Equal(t, 65*time.Second+37*time.Second, tp.first[1])
	require.Equal(t, tp.first[1]+2*time.Second, tp.end[1])
	require.Equal(t, w.pool.total, w.pool.free, "nothing is cached without units")
}

func TestDecodesComeBeforePrefillsInTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorker(small(16_000, 64), &Workload{UnitTokens: 16})
	tp := newTape()
	w.waiting.push(seq(1, 10, 50))
	w.begin(0)
	tp.now = w.stepEnd
	w.end(tp)
	w.waiting.push(seq(2, 500, 1))
	w.begin(tp.now)
	require.Equal(t, 1, w.decoders)
	require.Equal(t, []chunk{{w.prefills[0], 63}}, w.chunks)
}

func TestAHitSkipsPrefillButNotTheLastToken(t *testing.T) {
	t.Parallel()
	w := newWorker(small(1600, 640), &Workload{UnitTokens: 32, Distinct: 10})
	tp := newTape()
	a := seq(1, 64, 1, 0, 1)
	w.waiting.push(a)
	drain(t, w, tp, nil)
	require.Equal(t, 0, a.hit)
	b := seq(2, 64, 1, 0, 1)
	w.waiting.push(b)
	start := tp.now
	drain(t, w, tp, nil)
	require.Equal(t, 32, b.hit, "the unit with the last token is computed again")
	require.Equal(t, 33*time.Second, tp.first[2]-start)
	c := seq(3, 65, 1, 0, 1)
	w.waiting.push(c)
	drain(t, w, tp, nil)
	require.Equal(t, 64, c.hit)
}

func TestBlocksCanBeHitWhenTheirStepIsScheduled(t *testing.T) {
	t.Parallel()
	w := newWorker(small(16_000, 1000), &Workload{UnitTokens: 32, Distinct: 10})
	tp := newTape()
	a, b := seq(1, 65, 1, 0, 1), seq(2, 65, 1, 0, 1)
	w.waiting.push(a)
	w.waiting.push(b)
	drain(t, w, tp, nil)
	require.Equal(t, []int{0, 64}, []int{a.hit, b.hit})
	require.Equal(t, tp.first[1], tp.first[2], "both in one step")
}

func TestHeadOfTheQueueWaitsForRoomAndHoldsTheRestBack(t *testing.T) {
	t.Parallel()
	w := newWorker(small(320, 1000), &Workload{UnitTokens: 16})
	tp := newTape()
	w.waiting.push(seq(1, 200, 5))
	w.waiting.push(seq(2, 200, 1))
	w.waiting.push(seq(3, 16, 1))
	w.begin(0)
	require.Len(t, w.running, 1)
	require.Equal(t, 2, w.waiting.len(), "the short one behind the head waits too")
	tp.now = w.stepEnd
	w.end(tp)
	drain(t, w, tp, nil)
	require.Less(t, tp.end[1], tp.first[2])
}

func TestPreemptionDropsTheLastAdmittedAndRecomputes(t *testing.T) {
	t.Parallel()
	w := newWorker(small(160, 1000), &Workload{UnitTokens: 16})
	tp := newTape()
	w.waiting.push(seq(1, 64, 60))
	w.waiting.push(seq(2, 64, 60))
	drain(t, w, tp, nil)
	require.Positive(t, w.preempted)
	require.Less(t, tp.end[1], tp.end[2], "the first admitted is served first")
	require.Less(t, tp.first[2], tp.end[1], "its first token had left before it was dropped")
}

func TestTailsAreEvictedBeforeHeads(t *testing.T) {
	t.Parallel()
	w := newWorker(small(128, 1000), &Workload{UnitTokens: 16, Distinct: 20})
	tp := newTape()
	w.waiting.push(seq(1, 65, 1, 0, 1, 2, 3))
	drain(t, w, tp, nil)
	w.waiting.push(seq(2, 81, 1, 10, 11, 12, 13, 14))
	drain(t, w, tp, nil)
	require.True(t, w.pool.has(0) && w.pool.has(1))
	require.False(t, w.pool.has(2) || w.pool.has(3))
}

// requireConserved checks that every block is in exactly one state and that the list agrees with the counts.
func requireConserved(t *testing.T, w *worker) {
	t.Helper()
	p := w.pool
	require.Equal(t, p.total, p.free+p.private+p.unitBlocks*(p.held+p.idle))
	require.True(t, p.free >= 0 && p.private >= 0 && p.held >= 0 && p.idle >= 0)
	held, idle, refs, owned := 0, 0, 0, 0
	for _, n := range p.refs {
		if n > 0 {
			held++
			refs += int(n)
		}
		if n == 0 {
			idle++
		}
	}
	listed := 0
	for u := p.next[p.sentinel()]; u != p.sentinel(); u = p.next[u] {
		require.Zero(t, p.refs[u])
		listed++
	}
	private, decoders, kv := 0, 0, 0
	for _, s := range w.running {
		owned += len(s.owned)
		tokens := s.length
		if s.decoding {
			done := int(w.steps - s.from)
			tokens += done
			decoders++
			kv += s.length + 1 + done
		}
		private += w.blocks(tokens) - len(s.owned)*p.unitBlocks
	}
	require.Equal(t, []int{held, idle, idle, refs, private}, []int{p.held, p.idle, listed, owned, p.private})
	require.Equal(t, []int{decoders, kv}, []int{w.decoders, w.kv})
	require.Len(t, w.finish.heap, decoders)
}

// TestBlocksAreConserved runs random requests with shared prefixes through a cache that is too small for them.
func TestBlocksAreConserved(t *testing.T) {
	t.Parallel()
	preempted, evicted := 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		const unit, families, depth = 32, 6, 12
		w := newWorker(small(1600, 1+rng.IntN(200)+64), &Workload{UnitTokens: unit, Distinct: families * depth})
		tp := newTape()
		for id := range 120 {
			prompt := 1 + rng.IntN(600)
			s := seq(id, prompt, 1+rng.IntN(120))
			family := uint32(rng.IntN(families)) * depth
			for i := range uint32(min(prompt/unit, depth)) {
				s.units = append(s.units, family+i)
			}
			require.True(t, w.fits(s.prompt, s.output))
			w.waiting.push(s)
		}
		drain(t, w, tp, func() { requireConserved(t, w) })
		require.Len(t, tp.first, 120)
		require.Len(t, tp.end, 120)
		require.Zero(t, w.pool.private+w.pool.held+w.decoders+w.kv)
		for _, n := range w.crossing {
			require.Zero(t, n)
		}
		preempted, evicted = preempted+w.preempted, evicted+w.pool.evicted
	}
	require.Positive(t, preempted)
	require.Positive(t, evicted)
}
