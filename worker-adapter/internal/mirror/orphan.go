package mirror

import (
	"slices"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// orphan is the tail of a stored event whose parent was not known: what it takes to hash its blocks later.
type orphan struct {
	ev    kvevents.Event
	space int32
	cut   cut
	gone  bool
}

// orphanage keeps orphans by the parent they wait for, oldest first, within a bound of blocks.
type orphanage struct {
	limit   int
	blocks  int
	live    int
	waiting map[uint64][]*orphan
	order   []*orphan
}

// add keeps a copy of an event: the batch it lies in is reused.
func (o *orphanage) add(ev *kvevents.Event, r *run) {
	if len(ev.Hashes) == 0 || len(ev.Hashes) > o.limit {
		return
	}
	kept := *ev
	kept.Hashes, kept.TokenIDs = slices.Clone(ev.Hashes), slices.Clone(ev.TokenIDs)
	kept.Extras = make([][]kvevents.Key, len(ev.Extras))
	for i, keys := range ev.Extras {
		kept.Extras[i] = slices.Clone(keys)
	}
	w := &orphan{ev: kept, space: r.space, cut: r.cut}
	if o.waiting == nil {
		o.waiting = map[uint64][]*orphan{}
	}
	o.waiting[ev.Parent] = append(o.waiting[ev.Parent], w)
	o.order = append(o.order, w)
	o.blocks += len(kept.Hashes)
	o.live++
	if len(o.order) > 2*o.live+64 {
		o.order = slices.DeleteFunc(o.order, func(x *orphan) bool { return x.gone })
	}
}

// bound drops the oldest orphans beyond the limit and returns how many blocks that were.
func (o *orphanage) bound() (dropped uint64) {
	for len(o.order) > 0 && (o.blocks > o.limit || o.order[0].gone) {
		w := o.order[0]
		o.order = o.order[1:]
		if w.gone {
			continue
		}
		dropped += uint64(len(w.ev.Hashes))
		o.release(w)
		kin := slices.DeleteFunc(o.waiting[w.ev.Parent], func(x *orphan) bool { return x == w })
		if len(kin) == 0 {
			delete(o.waiting, w.ev.Parent)
			continue
		}
		o.waiting[w.ev.Parent] = kin
	}
	return dropped
}

// release ends an orphan's wait; bound takes it out of the order later.
func (o *orphanage) release(w *orphan) {
	w.gone = true
	o.live--
	o.blocks -= len(w.ev.Hashes)
}

// take hands out the orphans that wait for a parent.
func (o *orphanage) take(parent uint64) []*orphan {
	kin := o.waiting[parent]
	if len(kin) == 0 {
		return nil
	}
	delete(o.waiting, parent)
	for _, w := range kin {
		o.release(w)
	}
	return kin
}

// dropSpace forgets the orphans of a namespace.
func (o *orphanage) dropSpace(ns int32) {
	for parent, kin := range o.waiting {
		kept := kin[:0:0]
		for _, w := range kin {
			if w.space != ns {
				kept = append(kept, w)
				continue
			}
			o.release(w)
		}
		if len(kept) == 0 {
			delete(o.waiting, parent)
			continue
		}
		o.waiting[parent] = kept
	}
}

// adoptOrphans gives content to the blocks that waited for b, and to those that waited for them.
func (m *Mirror) adoptOrphans(s *store, b *block) {
	if m.orphans.blocks == 0 {
		return
	}
	type end struct{ hash, value uint64 }
	for todo := []end{{b.hash, b.tail[0]}}; len(todo) > 0; todo = todo[1:] {
		for _, w := range m.orphans.take(todo[0].hash) {
			r := &run{ev: &w.ev, space: w.space, cut: w.cut, prev: todo[0].value, state: known}
			for i, h := range w.ev.Hashes {
				units := m.unitsOf(r, i)
				if units == nil {
					break
				}
				r.prev = units[len(units)-1]
				m.reveal(h, units)
				todo = append(todo, end{h, r.prev})
			}
		}
	}
}

// reveal gives units to an orphaned block in whichever tiers hold it.
func (m *Mirror) reveal(hash uint64, units []uint64) {
	for _, s := range m.tiers {
		if b := s.find(hash); b != nil && b.content == orphaned {
			s.learn(b, units)
			s.refresh(b)
		}
	}
}
