package engine

import "github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"

// Hybrid makes a model of several cache groups: sliding-window groups first, then one of full attention, as vLLM 0.32
// numbers those of Gemma 3. The zero value is a plain model. Seen there: a sliding group keeps the blocks of the window
// before the end of a prompt and none of what is generated, so a hit ends where an earlier prompt ended, or nowhere.
type Hybrid struct {
	SlidingGroups int `yaml:"sliding_groups"`
	WindowTokens  int `yaml:"window_tokens"`
}

// lane is one sliding group's blocks of a sequence, those from number from on.
type lane struct {
	from   int
	blocks []int32
}

func (l *lane) end() int { return l.from + len(l.blocks) }

// window is how many blocks in a row a sliding group needs before the next token.
func (s *scheduler) window() int {
	return (s.cfg.Hybrid.WindowTokens - 1 + s.cfg.BlockSize - 1) / s.cfg.BlockSize
}

// first is the number of the first block that a sliding group needs once tokens are computed.
func (s *scheduler) first(tokens int) int {
	return max(0, tokens-s.cfg.Hybrid.WindowTokens+1) / s.cfg.BlockSize
}

// full is the group of full attention.
func (s *scheduler) full() int32 { return int32(s.cfg.Hybrid.SlidingGroups) }

// cut shortens a prefix that the full group holds to its deepest end that every sliding group can serve, and returns
// the groups' blocks there. Found from the right, as vLLM does.
func (s *scheduler) cut(q *Seq, n int) (int, []lane) {
	lanes := make([]lane, s.cfg.Hybrid.SlidingGroups)
	for ; n > 0; n-- {
		from := max(0, n-s.window())
		served := true
		for g := range lanes {
			lanes[g] = lane{from: from, blocks: s.pool.lookup(nil, q.chain[from:n], int32(g))}
			served = served && lanes[g].end() == n
		}
		if served {
			return n, lanes
		}
	}
	for g := range lanes {
		lanes[g] = lane{}
	}
	return 0, lanes
}

// laneNeed is how many blocks the sliding groups need to compute up to a token: as many as the full group.
func (s *scheduler) laneNeed(lanes []lane, tokens int) (need int) {
	total := (tokens + s.cfg.BlockSize - 1) / s.cfg.BlockSize
	for g := range lanes {
		need += max(0, total-lanes[g].end())
	}
	return need
}

// slide gives the sliding groups their blocks up to a token, after those that the window has left were released, and
// caches what a group keeps of the full ones.
func (s *scheduler) slide(q *Seq, tokens int) {
	total := (tokens + s.cfg.BlockSize - 1) / s.cfg.BlockSize
	for g := range q.lanes {
		l := &q.lanes[g]
		gone := max(0, min(s.first(q.computed)-l.from, len(l.blocks)))
		s.pool.release(l.blocks[:gone])
		l.blocks, l.from = l.blocks[gone:], l.from+gone
		l.blocks = s.pool.take(l.blocks, max(0, total-l.end()))
		if !s.cfg.PrefixCaching {
			continue
		}
		for i := s.keeps(q, l); i < min(tokens, len(q.Prompt))/s.cfg.BlockSize; i++ {
			s.pool.cache(l.blocks[i-l.from], q.chain[i], int32(g))
		}
	}
}

// keeps is the first block, of those not stored yet, that a sliding group caches: none before the window in which the
// prompt's last full block ends, and none that it no longer has.
func (s *scheduler) keeps(q *Seq, l *lane) int {
	end := len(q.Prompt) / s.cfg.BlockSize * s.cfg.BlockSize
	return max(q.stored, s.first(end), l.from)
}

// announceLanes queues what the sliding groups stored of blocks [q.stored, to): the hashes of what they keep, with the
// ids of all.
func (s *scheduler) announceLanes(q *Seq, to int) {
	for g := range q.lanes {
		e := s.stored(q, q.stored, to)
		e.Group, e.SpecKind, e.Window, e.Hashes = g, "sliding_window", s.cfg.Hybrid.WindowTokens, nil
		for i := s.keeps(q, &q.lanes[g]); i < min(to, len(q.Prompt)/s.cfg.BlockSize); i++ {
			e.Hashes = append(e.Hashes, q.chain[i])
			e.Extras = append(e.Extras, q.Scope.extras(i))
		}
		s.pool.events = append(s.pool.events, e)
	}
}

// releaseLanes gives a sequence's sliding blocks back.
func (s *scheduler) releaseLanes(q *Seq) {
	for g := range q.lanes {
		s.pool.release(q.lanes[g].blocks)
		q.lanes[g] = lane{}
	}
}

// stored is the event for blocks [from, to) in the group of full attention. Token memory is shared: it is never changed.
func (s *scheduler) stored(q *Seq, from, to int) kvevent.Event {
	bs := s.cfg.BlockSize
	e := kvevent.Event{
		Kind: kvevent.BlockStored, Hashes: q.chain[from:to:to], Tokens: q.tokens[from*bs : to*bs : to*bs],
		BlockSize: bs, LoRAID: q.Scope.LoRAID, LoRAName: q.Scope.LoRAName, Medium: medium,
		SpecKind: specKind, Group: int(s.full()), Session: q.Session,
	}
	if from > 0 {
		e.Parent = &q.chain[from-1]
	}
	return e
}
