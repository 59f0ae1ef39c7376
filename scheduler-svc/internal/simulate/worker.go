package simulate

import (
	"math"
	"time"
)

// sequence is one request inside a worker.
type sequence struct {
	id       int // index of the request in the run
	units    []uint32
	length   int // tokens to prefill: the prompt, after a preemption also what was generated
	prompt   int
	output   int
	produced int // tokens emitted before this admission
	computed int
	hit      int      // tokens found cached at the first admission
	owned    []uint32 // cached units it references, in order
	admitted bool     // at least once
	from     int64    // decode counter at its first decode step
	decoding bool
}

type chunk struct {
	seq    *sequence
	tokens int
}

// worker models one engine. Its clock is virtual; begin and end are called by the run in order of time.
type worker struct {
	profile Profile
	pool    *pool
	unit    int // tokens

	waiting  queue
	running  []*sequence // in order of admission
	prefills []*sequence // running ones whose prompt is not computed yet, in order of admission
	chunks   []chunk     // of the step under way

	decoders int   // D
	kv       int   // K: tokens the next decode step reads
	steps    int64 // decode steps done: a decoder's position is the difference to its from
	finish   finishes
	crossing []int // decoders that need a new block when steps modulo the block size is the index

	busy      bool
	stepEnd   time.Duration
	preempted int
}

func newWorker(p Profile, w *Workload) *worker {
	return &worker{
		profile: p, unit: w.UnitTokens, crossing: make([]int, p.BlockTokens),
		pool: newPool(p.KVTokens/p.BlockTokens, w.UnitTokens/p.BlockTokens, w.Distinct),
	}
}

func (w *worker) blocks(tokens int) int {
	return (tokens + w.profile.BlockTokens - 1) / w.profile.BlockTokens
}

// fits reports whether the request could ever run.
func (w *worker) fits(prompt, output int) bool { return w.blocks(prompt+output) <= w.pool.total }

// cached returns the leading units the pool holds, at most what leaves the last token to compute.
func (w *worker) cached(s *sequence) int {
	n, most := 0, min(len(s.units), (s.length-1)/w.unit)
	for n < most && w.pool.has(s.units[n]) {
		n++
	}
	return n
}

// begin schedules one step at now: decodes, then running prefills, then the queue in order. It leaves busy false when
// there is nothing to do.
func (w *worker) begin(now time.Duration) {
	w.growDecodes()
	budget := w.profile.BudgetToks - w.decoders
	w.chunks = w.chunks[:0]
	work := 0.0
	add := func(s *sequence) {
		n := min(budget, s.length-s.computed)
		budget -= n
		w.chunks = append(w.chunks, chunk{s, n})
		w.announce(s, s.computed+n)
		context := float64(s.computed) + float64(n)/2
		work += float64(float64(n) * (w.profile.PrefillS + float64(w.profile.PrefillCtxS*context)))
	}
	for _, s := range w.prefills {
		if budget <= 0 {
			break
		}
		add(s)
	}
	for budget > 0 && len(w.running) < w.profile.MaxSeqs && w.waiting.len() > 0 && w.admit(w.waiting.peek()) {
		s := w.waiting.pop()
		w.running, w.prefills = append(w.running, s), append(w.prefills, s)
		add(s)
	}
	w.busy = w.decoders > 0 || len(w.chunks) > 0
	if !w.busy {
		return
	}
	step := w.profile.StepS + work
	step += float64(w.profile.SeqS * float64(w.decoders))
	step += float64(w.profile.KVS * float64(w.kv))
	w.stepEnd = now + time.Duration(math.Round(step*1e9))
}

// growDecodes takes the new blocks of this step's decodes, preempting the last admitted sequences while none are left.
func (w *worker) growDecodes() {
	for {
		need := w.crossing[w.steps%int64(len(w.crossing))]
		if need <= w.pool.reusable() {
			w.pool.take(need)
			return
		}
		w.preempt()
	}
}

// admit gives the head of the queue its blocks, or returns false when they do not fit.
func (w *worker) admit(s *sequence) bool {
	hits := w.cached(s)
	need := w.blocks(s.length) - hits*w.pool.unitBlocks
	reusable := w.pool.reusable()
	for _, u := range s.units[:hits] {
		if w.pool.refs[u] == 0 {
			reusable -= w.pool.unitBlocks
		}
	}
	if need > reusable {
		return false
	}
	for _, u := range s.units[:hits] {
		w.pool.ref(u)
	}
	s.owned = append(s.owned[:0], s.units[:hits]...)
	w.pool.take(need)
	s.computed = hits * w.unit
	if !s.admitted {
		s.hit, s.admitted = s.computed, true
	}
	return true
}

// announce caches the full units that end by tokens: vLLM makes a block hittable when its step is scheduled.
func (w *worker) announce(s *sequence, tokens int) {
	for i := s.computed / w.unit; i < min(len(s.units), tokens/w.unit); i++ {
		if w.pool.cache(s.units[i]) {
			s.owned = append(s.owned, s.units[i])
		}
	}
}

// release gives all blocks back, tails before heads.
func (w *worker) release(s *sequence) {
	tokens := s.length
	if s.decoding {
		tokens += int(w.steps - s.from)
	}
	w.pool.give(w.blocks(tokens) - len(s.owned)*w.pool.unitBlocks)
	for i := len(s.owned) - 1; i >= 0; i-- {
		w.pool.unref(s.owned[i])
	}
	s.owned = s.owned[:0]
}

// preempt drops the last admitted sequence to the head of the queue, to recompute prompt and answer.
func (w *worker) preempt() {
	s := w.running[len(w.running)-1]
	w.running = w.running[:len(w.running)-1]
	w.release(s)
	if s.decoding {
		done := int(w.steps - s.from)
		w.leave(s)
		w.finish.remove(s)
		s.produced += done
		s.length += done
	} else {
		w.prefills = w.prefills[:len(w.prefills)-1]
	}
	s.computed = 0
	w.waiting.pushFront(s)
	w.preempted++
}

// phase is the remainder of steps at which the decoder needs a new block.
func (w *worker) phase(s *sequence) int {
	bs := int64(len(w.crossing))
	return int(((s.from-int64(s.length))%bs + bs) % bs)
}

// enter makes the sequence a decoder from the next step on.
func (w *worker) enter(s *sequence) {
	s.decoding, s.from = true, w.steps
	w.decoders++
	w.kv += s.length + 1
	w.crossing[w.phase(s)]++
	w.finish.push(w.steps+int64(s.output-s.produced), s)
}

func (w *worker) leave(s *sequence) {
	w.crossing[w.phase(s)]--
	w.decoders--
	w.kv -= s.length + 1 + int(w.steps-s.from)
	s.decoding = false
}

// listener hears what a worker's clients would see at the end of a step.
type listener interface {
	firstToken(w *worker, s *sequence)
	ended(w *worker, s *sequence)
}

// end completes the step under way.
func (w *worker) end(l listener) {
	if w.decoders > 0 {
		w.steps++
		w.kv += w.decoders
	}
	for s := w.finish.due(w.steps); s != nil; s = w.finish.due(w.steps) {
		w.retire(s)
		l.ended(w, s)
	}
	for _, c := range w.chunks {
		s := c.seq
		s.computed += c.tokens
		if s.computed < s.length {
			continue
		}
		w.prefills = without(w.prefills, s)
		s.produced++
		if s.length == s.prompt {
			l.firstToken(w, s)
		}
		if s.produced >= s.output {
			w.retire(s)
			l.ended(w, s)
			continue
		}
		w.enter(s)
	}
	w.chunks = w.chunks[:0]
	w.busy = false
}

func (w *worker) retire(s *sequence) {
	w.release(s)
	if s.decoding {
		w.leave(s)
	}
	w.running = without(w.running, s)
}

func without(list []*sequence, s *sequence) []*sequence {
	for i := range list {
		if list[i] == s {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = nil
			return list[:len(list)-1]
		}
	}
	return list
}
