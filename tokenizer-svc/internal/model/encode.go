package model

import (
	"errors"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// errEmpty marks an engine that gave no ids for text that has some; the Hugging Face crate does so when it fails
// inside.
var errEmpty = errors.New("the engine gave no ids for a text that is not empty")

// Encode appends the ids of text to dst.
func (m *Model) Encode(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	engine := m.active.Load()
	if engine == nil {
		return m.reference.AppendIDs(dst, text, addSpecial)
	}
	if m.cutter == nil || len(text) < minPieceBytes || (addSpecial && !m.affix.known) {
		return (*engine).AppendIDs(dst, text, addSpecial)
	}
	return m.encodePieces(*engine, dst, text, addSpecial)
}

// EncodeReference appends the ids that the reference gives.
func (m *Model) EncodeReference(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	return m.reference.AppendIDs(dst, text, addSpecial)
}

// encodePieces cuts text and takes the ids of known pieces from the cache.
func (m *Model) encodePieces(engine Engine, dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	var room [64]int
	cuts := m.cutter.AppendCuts(room[:0], text, minPieceBytes)
	if len(cuts) == 1 {
		m.stats.MissBytes.Add(uint64(len(text)))
		return engine.AppendIDs(dst, text, addSpecial)
	}
	if addSpecial {
		dst = append(dst, m.affix.before...)
	}
	var err error
	hit, start := 0, 0
	for _, end := range cuts {
		piece := text[start:end]
		known := false
		if dst, known = m.cache.Append(dst, m.owner, piece); known {
			hit += len(piece)
		} else if dst, err = m.encodePiece(engine, dst, piece); err != nil {
			return dst, err
		}
		start = end
	}
	m.stats.HitBytes.Add(uint64(hit))
	m.stats.MissBytes.Add(uint64(len(text) - hit))
	if addSpecial {
		dst = append(dst, m.affix.after...)
	}
	return dst, nil
}

// encodePiece encodes a piece that the cache lacks and remembers it.
func (m *Model) encodePiece(engine Engine, dst []uint32, piece []byte) ([]uint32, error) {
	before := len(dst)
	dst, err := engine.AppendIDs(dst, piece, false)
	if err != nil {
		return dst, err
	}
	m.cache.Put(m.owner, piece, dst[before:])
	return dst, nil
}

// Decode appends the text of ids to dst. The reference decodes: it is as fast for the few ids of a step.
func (m *Model) Decode(dst []byte, ids []uint32, skipSpecial bool) ([]byte, error) {
	return m.reference.AppendText(dst, ids, skipSpecial)
}

// cutExactly reports whether text's pieces give want, without the cache.
func cutExactly(c *segment.Cutter, engine Engine, text []byte, want []uint32) (bool, error) {
	var ids []uint32
	start := 0
	// Every possible cut is tried, not only those that encodePieces makes.
	for _, end := range c.AppendCuts(nil, text, 1) {
		var err error
		if ids, err = engine.AppendIDs(ids, text[start:end], false); err != nil {
			return false, err
		}
		start = end
	}
	return equal(ids, want), nil
}
