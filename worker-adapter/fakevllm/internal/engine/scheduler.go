package engine

import (
	"slices"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// specKind is the kind of a plain model's one cache group, and of a hybrid one's last.
const specKind = "full_attention"

// share is a sequence's part of one step.
type share struct {
	seq    *Seq
	tokens int
}

// scheduler decides what each step computes. It follows vLLM's v1 scheduler: running sequences first in order of
// admission, then the waiting queue from its head, all within a token budget; a sequence without a block for its next
// token makes the last admitted one start again. It is not safe for concurrent use.
type scheduler struct {
	cfg     *Config
	pool    *pool
	waiting []*Seq
	running []*Seq
	step    []share // of the step that is being computed
	arrived uint64
	stats   *Stats
	scratch []int32
}

// add queues a job behind those that came before it or, under the priority policy, behind those that are no less
// urgent.
func (s *scheduler) add(q *Seq) {
	s.arrived++
	q.arrival = s.arrived
	at := len(s.waiting)
	if s.cfg.Priority {
		for at > 0 && s.before(q, s.waiting[at-1]) {
			at--
		}
	}
	s.waiting = slices.Insert(s.waiting, at, q)
}

// before orders by urgency and then by arrival.
func (s *scheduler) before(a, b *Seq) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.arrival < b.arrival
}

// plan fills step and returns its load. With admit false only sequences that run already go on.
func (s *scheduler) plan(admit bool) Load {
	s.step = s.step[:0]
	var load Load
	budget := s.cfg.MaxBatchedTokens
	preempted := false
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		n := min(len(q.tokens)-q.computed, budget)
		for !s.allocate(q, n) {
			preempted = true
			victim := s.victim()
			s.preempt(victim)
			if victim == q {
				break
			}
		}
		if i >= len(s.running) || s.running[i] != q {
			break
		}
		s.schedule(q, n, &load)
		budget -= n
	}
	for admit && !preempted && budget > 0 && len(s.waiting) > 0 && len(s.running) < s.cfg.MaxNumSeqs {
		n := s.admit(s.waiting[0], budget)
		if n == 0 {
			break
		}
		q := s.waiting[0]
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.running = append(s.running, q)
		q.state.Store(int32(Running))
		s.schedule(q, n, &load)
		budget -= n
	}
	return load
}

// schedule gives a sequence n tokens of the step. One token behind the prompt is a decode; everything else is
// prefill, also what a preempted sequence computes again.
func (s *scheduler) schedule(q *Seq, n int, load *Load) {
	s.step = append(s.step, share{seq: q, tokens: n})
	if q.computed >= len(q.Prompt) && n == 1 {
		load.Sequences++
		load.ReadTokens += q.computed + 1
		return
	}
	load.PrefillTokens += n
	load.PrefillContext += float64(n) * (float64(q.computed) + float64(n)/2)
}

// admit gives the head of the queue its cached prefix and the blocks of its first chunk, whose length it returns; 0 if
// the rest of its tokens would not fit into the reusable blocks. The whole sequence must fit, not only the chunk.
func (s *scheduler) admit(q *Seq, budget int) int {
	bs := s.cfg.BlockSize
	hits := s.scratch[:0]
	if s.cfg.PrefixCaching && !q.SkipRead {
		hits = s.pool.lookup(hits, q.chain[:min(len(q.chain), (len(q.tokens)-1)/bs)], s.full())
	}
	if s.cfg.DropLastHit && len(hits) > 0 {
		hits = hits[:len(hits)-1]
	}
	n, lanes := s.cut(q, len(hits))
	if s.full() > 0 {
		hits = hits[:n]
	}
	s.scratch = hits
	need := (len(q.tokens)+bs-1)/bs - len(hits) + s.laneNeed(lanes, len(q.tokens)) + s.pool.idle(hits)
	for _, l := range lanes {
		need += s.pool.idle(l.blocks)
	}
	if need > s.pool.free {
		return 0
	}
	s.pool.touch(hits)
	for _, l := range lanes {
		s.pool.touch(l.blocks)
	}
	q.lanes = lanes
	q.blocks = append(q.blocks[:0], hits...)
	q.stored = len(hits)
	q.computed = len(hits) * bs
	s.count(q)
	if q.ReportFull && len(hits) > 0 {
		s.announce(q, 0, len(hits))
	}
	n = min(len(q.tokens)-q.computed, budget)
	s.allocate(q, n)
	return n
}

// count records the first admission: its time, and what the prompt found in the cache. Later admissions, after a
// preemption, are no news to the client and are left out of the hit rate.
func (s *scheduler) count(q *Seq) {
	if q.admitted {
		return
	}
	q.admitted = true
	q.scheduled = time.Now()
	q.cachedHits.Store(int32(q.computed))
	if !q.SkipRead {
		s.stats.Queries += uint64(len(q.Prompt))
		s.stats.Hits += uint64(q.computed)
	}
	s.stats.PromptTokens += uint64(len(q.Prompt))
}

// allocate makes room for n more tokens and caches the blocks that they fill: contents count as cached, and are
// announced, when their step is scheduled. It returns false, and changes nothing, if there are too few blocks.
func (s *scheduler) allocate(q *Seq, n int) bool {
	bs := s.cfg.BlockSize
	need := (q.computed+n+bs-1)/bs - len(q.blocks)
	if max(0, need)+s.laneNeed(q.lanes, q.computed+n) > s.pool.free {
		return false
	}
	s.slide(q, q.computed+n)
	if need > 0 {
		q.blocks = s.pool.take(q.blocks, need)
	}
	if full := (q.computed + n) / bs; s.cfg.PrefixCaching && full > q.stored {
		for i := q.stored; i < full; i++ {
			s.pool.cache(q.blocks[i], q.chain[i], s.full())
		}
		s.announceLanes(q, full)
		s.announce(q, q.stored, full)
		q.stored = full
	}
	return true
}

// announce queues the BlockStored of the group of full attention for blocks [from, to) of a sequence.
func (s *scheduler) announce(q *Seq, from, to int) {
	e := s.stored(q, from, to)
	e.Extras = make([][]kvevent.Extra, to-from)
	for i := from; i < to; i++ {
		e.Extras[i-from] = q.Scope.extras(i)
	}
	s.pool.events = append(s.pool.events, e)
}

// victim is the sequence that loses its blocks: the last admitted, or the least urgent under the priority policy.
func (s *scheduler) victim() *Seq {
	last := s.running[len(s.running)-1]
	if s.cfg.Priority {
		for _, q := range s.running {
			if s.before(last, q) {
				last = q
			}
		}
	}
	return last
}

// preempt sends a running sequence back to the head of the queue. Its blocks stay cached until someone needs them.
func (s *scheduler) preempt(q *Seq) {
	s.remove(q)
	q.state.Store(int32(Waiting))
	q.preempted++
	s.stats.Preemptions++
	s.waiting = slices.Insert(s.waiting, 0, q)
}

// remove takes a sequence out of the running ones and of the step, and releases its blocks.
func (s *scheduler) remove(q *Seq) {
	if i := slices.Index(s.running, q); i >= 0 {
		s.running = slices.Delete(s.running, i, i+1)
	}
	if i := slices.IndexFunc(s.step, func(w share) bool { return w.seq == q }); i >= 0 {
		s.step = slices.Delete(s.step, i, i+1)
	}
	s.releaseLanes(q)
	s.pool.release(q.blocks)
	q.blocks, q.computed, q.stored = q.blocks[:0], 0, 0
}

// commit ends the step: every sequence that has no uncomputed token left gets its next one.
func (s *scheduler) commit(now time.Time) (produced int) {
	for _, w := range slices.Clone(s.step) {
		q := w.seq
		q.computed += w.tokens
		if q.computed < len(q.tokens) {
			continue
		}
		n := len(q.tokens) - len(q.Prompt)
		if n < len(q.Output) {
			q.tokens = append(q.tokens, q.Output[n])
			if len(q.tokens)%s.cfg.BlockSize == 0 {
				q.chain = appendHashes(q.chain, q.tokens, s.cfg.BlockSize, &q.Scope)
			}
			n++
			produced++
			if n == 1 {
				q.first = now
			}
			q.produced.Store(int32(n))
		}
		if n == len(q.Output) {
			s.remove(q)
			q.state.Store(int32(Finished))
		}
	}
	return produced
}
