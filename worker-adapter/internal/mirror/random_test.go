package mirror_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// world makes the events of a worker's cache: sequences grow, share prefixes, are stored twice, lose their tails, and
// everything is cleared now and then.
type world struct {
	rng    *rand.Rand
	size   int
	groups int
	seqs   [][]uint64
	lora   []string
	next   uint64
}

func (w *world) batch() *kvevents.Batch {
	b := &kvevents.Batch{Rank: kvevents.NoRank}
	for range 1 + w.rng.IntN(6) {
		b.Events = append(b.Events, w.event()...)
	}
	return b
}

func (w *world) event() []kvevents.Event {
	switch n := w.rng.IntN(40); {
	case n == 0:
		return []kvevents.Event{{Kind: kvevents.Cleared}}
	case n < 12 && len(w.seqs) > 0:
		return w.evict()
	case n < 18 && len(w.seqs) > 0:
		return w.again()
	}
	return w.grow()
}

// grow stores new blocks at the end of a new sequence or behind a prefix of an old one.
func (w *world) grow() []kvevents.Event {
	var seq []uint64
	lora := []string{"", "", "ad"}[w.rng.IntN(3)]
	if len(w.seqs) > 0 && w.rng.IntN(3) > 0 {
		i := w.rng.IntN(len(w.seqs))
		lora = w.lora[i]
		seq = append(seq, w.seqs[i][:w.rng.IntN(len(w.seqs[i])+1)]...)
	}
	var parent uint64
	if len(seq) > 0 {
		parent = seq[len(seq)-1]
	}
	var hashes []uint64
	for range 1 + w.rng.IntN(5) {
		w.next++
		hashes = append(hashes, w.next)
	}
	w.seqs = append(w.seqs, append(seq, hashes...))
	w.lora = append(w.lora, lora)
	return w.store(parent, hashes, lora)
}

// again stores a part of a known sequence once more.
func (w *world) again() []kvevents.Event {
	i := w.rng.IntN(len(w.seqs))
	seq := w.seqs[i]
	from := w.rng.IntN(len(seq))
	var parent uint64
	if from > 0 {
		parent = seq[from-1]
	}
	return w.store(parent, seq[from:], w.lora[i])
}

// store announces the blocks in every group: all of them in group 0, the last ones in the sliding groups.
func (w *world) store(parent uint64, hashes []uint64, lora string) []kvevents.Event {
	base := stored(w.size, parent, hashes...)
	base.LoRA, base.SpecKind = lora, "full_attention"
	if parent == 0 && w.rng.IntN(2) == 0 && hashes[0]%2 == 0 {
		base.Extras = make([][]kvevents.Key, len(hashes))
		if lora != "" {
			base.Extras[0] = append(base.Extras[0], kvevents.Key{Kind: kvevents.KeyText, Text: lora})
		}
	}
	events := []kvevents.Event{base}
	for g := 1; g < w.groups; g++ {
		ev := base
		ev.Group, ev.WindowTokens, ev.SpecKind = g, 2*w.size, "sliding_window"
		ev.Hashes = hashes[max(0, len(hashes)-1-w.rng.IntN(2)):]
		if len(ev.Hashes) != len(hashes) {
			ev.Extras = nil
		}
		events = append(events, ev)
	}
	if w.groups > 1 && w.rng.IntN(4) == 0 {
		return events[:1] // only the full group has them
	}
	if w.groups > 1 {
		events[0], events[w.groups-1] = events[w.groups-1], events[0]
	}
	return events
}

// evict removes the tail of a sequence, a copy at a time, from one group or from all.
func (w *world) evict() []kvevents.Event {
	seq := w.seqs[w.rng.IntN(len(w.seqs))]
	var events []kvevents.Event
	for i := len(seq) - 1; i >= max(0, len(seq)-1-w.rng.IntN(3)); i-- {
		for g := range w.groups {
			if w.groups == 1 || w.rng.IntN(3) > 0 {
				ev := removed(seq[i])
				ev.Group = g
				events = append(events, ev)
			}
		}
	}
	return events
}

// TestRandom compares the mirror, what its deltas add up to, and its digest with the naive model after every step.
func TestRandom(t *testing.T) {
	t.Parallel()
	shapes := []struct{ size, groups int }{{16, 1}, {32, 1}, {24, 1}, {16, 2}, {32, 3}}
	for _, shape := range shapes {
		for seed := range uint64(6) {
			t.Run(fmt.Sprintf("size %d groups %d seed %d", shape.size, shape.groups, seed), func(t *testing.T) {
				t.Parallel()
				w := &world{rng: rand.New(rand.NewPCG(seed, 7)), size: shape.size, groups: shape.groups}
				p := newPair()
				for range 100 {
					b := w.batch()
					p.naive.apply(b)
					p.follow.apply(t, p.mirror, p.mirror.Apply(b))
					agree(t, p.naive, p.mirror, p.follow)
				}
			})
		}
	}
}
