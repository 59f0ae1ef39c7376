package model

import (
	"errors"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// errEmpty marks an engine that gave no ids for text that has some; the Hugging Face crate does so when it fails
// inside.
var errEmpty = errors.New("the engine gave no ids for a text that is not empty")

// Request is one text and what is wanted of it.
type Request struct {
	Text []byte
	// Cuts are ascending offsets; the text between them is encoded piece by piece. With any, AddSpecial is false.
	Cuts []uint32
	// AddSpecial adds what the post-processor adds.
	AddSpecial bool
	// Root and Salt are of the chain of unit hashes.
	Root uint64
	Salt string
	// WantIDs asks for the ids too.
	WantIDs bool
}

// Encode appends the ids of text to dst.
func (m *Model) Encode(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	e := Encoding{ids: dst, hashed: len(dst)}
	err := m.Units(&e, Request{Text: text, AddSpecial: addSpecial, WantIDs: true})
	return e.ids, err
}

// EncodeReference appends the ids that the reference gives.
func (m *Model) EncodeReference(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	return m.reference.AppendIDs(dst, text, addSpecial)
}

// Units encodes a text and hashes its units into e, which is empty. Of pieces that are known it takes the hashes from the
// cache, so that their ids are neither made nor read.
func (m *Model) Units(e *Encoding, r Request) error {
	start := 0
	w := walk{m: m, e: e, r: &r, engine: m.reference}
	if active := m.active.Load(); active != nil {
		w.engine = *active
		w.cached = m.cutter != nil && (!r.AddSpecial || m.affix.known)
	}
	if w.cached {
		w.key = m.rootKey(&r)
	}
	for _, cut := range r.Cuts {
		if err := w.text(r.Text[start:cut], false); err != nil {
			return err
		}
		start = int(cut)
	}
	return w.text(r.Text[start:], r.AddSpecial)
}

// walk is one text on its way through the pieces.
type walk struct {
	m      *Model
	e      *Encoding
	r      *Request
	engine Engine
	cached bool
	key    segment.Key // of all text before
}

// text encodes what lies between two of the request's cuts.
func (w *walk) text(text []byte, addSpecial bool) error {
	if !w.cached || len(text) < minPieceBytes && len(w.r.Cuts) == 0 {
		return w.whole(text, addSpecial)
	}
	var room [64]int
	cuts := w.m.cutter.AppendCuts(room[:0], text, minPieceBytes)
	if len(cuts) == 1 && len(w.r.Cuts) == 0 {
		w.m.stats.MissBytes.Add(uint64(len(text)))
		return w.whole(text, addSpecial)
	}
	if addSpecial {
		w.e.add(w.r, w.m.affix.before)
	}
	hit, start := 0, 0
	for _, end := range cuts {
		known, err := w.piece(text[start:end])
		if err != nil {
			return err
		}
		if known {
			hit += end - start
		}
		start = end
	}
	w.m.stats.HitBytes.Add(uint64(hit))
	w.m.stats.MissBytes.Add(uint64(len(text) - hit))
	if addSpecial {
		w.e.add(w.r, w.m.affix.after)
	}
	return nil
}

// whole encodes a text that is not looked up.
func (w *walk) whole(text []byte, addSpecial bool) (err error) {
	if w.e.ids, err = w.engine.AppendIDs(w.e.ids, text, addSpecial); err == nil {
		w.e.hash(w.r)
	}
	return err
}

// piece takes one piece from the cache, or encodes and remembers it.
func (w *walk) piece(text []byte) (known bool, err error) {
	cache := w.m.cache
	w.key = cache.After(w.key, text)
	if p := cache.Find(w.key); p != nil && (p.IDs != nil || !w.r.WantIDs) {
		w.e.take(w.r, p)
		return true, nil
	}
	units := len(w.e.units)
	ids, err := w.engine.AppendIDs(w.e.ids, text, false)
	if err != nil {
		return false, err
	}
	made := segment.Piece{}
	if w.r.WantIDs {
		made.IDs = ids[len(w.e.ids):]
	}
	w.e.ids = ids
	w.e.hash(w.r)
	made.Units, made.Tail = w.e.units[units:], w.e.ids[w.e.hashed:]
	cache.Put(w.key, made)
	return false, nil
}

// rootKey tells apart what gives other hashes for the same text.
func (m *Model) rootKey(r *Request) segment.Key {
	var room [64]byte
	special := byte(0)
	if r.AddSpecial {
		special = 1
	}
	b := append(room[:0], special)
	for shift := 0; shift < 64; shift += 8 {
		b = append(b, byte(r.Root>>shift))
	}
	return m.cache.Root(m.owner, append(b, r.Salt...))
}

// Encoding is what came of a text: hashes, and ids where they were wanted. Reset makes it empty for another one.
type Encoding struct {
	// ids are those wanted, or the ones after the last full unit.
	ids []uint32
	// hashed is how many of ids have gone into units.
	hashed int
	units  []uint64
}

// Reset empties the encoding and keeps its memory.
func (e *Encoding) Reset() { e.ids, e.units, e.hashed = e.ids[:0], e.units[:0], 0 }

// Units are the hashes of the full units, valid until Reset.
func (e *Encoding) Units() []uint64 { return e.units }

// IDs are the ids, valid until Reset; only where they were wanted.
func (e *Encoding) IDs() []uint32 { return e.ids }

// Tokens is the number of ids.
func (e *Encoding) Tokens() int { return len(e.units)*kvblock.UnitTokens + len(e.ids) - e.hashed }

// Cap is the number of ids that fit without an allocation.
func (e *Encoding) Cap() int { return cap(e.ids) }

// add appends ids that no engine made.
func (e *Encoding) add(r *Request, ids []uint32) {
	e.ids = append(e.ids, ids...)
	e.hash(r)
}

// hash makes the units that ids fill, and forgets ids that nobody wants.
func (e *Encoding) hash(r *Request) {
	before := len(e.units)
	e.units = kvblock.AppendRest(e.units, r.Root, e.ids[e.hashed:], r.Salt)
	e.hashed += (len(e.units) - before) * kvblock.UnitTokens
	if !r.WantIDs {
		e.ids = e.ids[:copy(e.ids, e.ids[e.hashed:])]
		e.hashed = 0
	}
}

// take appends what a known piece adds.
func (e *Encoding) take(r *Request, p *segment.Piece) {
	e.units = append(e.units, p.Units...)
	if !r.WantIDs {
		e.ids = append(e.ids[:0], p.Tail...)
		return
	}
	e.ids = append(e.ids, p.IDs...)
	e.hashed += len(p.Units) * kvblock.UnitTokens
}

// Decode appends the text of ids to dst. The reference decodes: it is as fast for the few ids of a step.
func (m *Model) Decode(dst []byte, ids []uint32, skipSpecial bool) ([]byte, error) {
	return m.reference.AppendText(dst, ids, skipSpecial)
}

// cutExactly reports whether text's pieces give want, without the cache.
func cutExactly(c *segment.Cutter, engine Engine, text []byte, want []uint32) (bool, error) {
	var ids []uint32
	start := 0
	// Every possible cut is tried, not only those that text makes.
	for _, end := range c.AppendCuts(nil, text, 1) {
		var err error
		if ids, err = engine.AppendIDs(ids, text[start:end], false); err != nil {
			return false, err
		}
		start = end
	}
	return equal(ids, want), nil
}
