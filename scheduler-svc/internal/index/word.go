package index

// A word is the holders of one unit in eight bytes, so that a table slot is one unit hash and one word:
//
//	tag 0        nobody: the slot is empty
//	tag 1 to 4   that many holder ids of 15 bits, ascending, inline
//	tag 15       a reference to an interned set of five or more: 28 bits of place, 32 bits of generation
//
// Equal holder sets have equal words, so a run of units held by the same workers is walked in one step.
type word uint64

const (
	tagBits    = 4
	tagMask    = 1<<tagBits - 1
	tagSet     = 15
	inlineMax  = 4
	idBits     = 15
	idMask     = 1<<idBits - 1
	maxIDs     = 1 << idBits
	placeBits  = 28
	placeMask  = 1<<placeBits - 1
	genShift   = tagBits + placeBits
	notAtIndex = -1
)

func setWord(place, generation uint32) word {
	return word(generation)<<genShift | word(place&placeMask)<<tagBits | tagSet
}

func (w word) isSet() bool { return w&tagMask == tagSet }

// count is the number of inline ids.
func (w word) count() int { return int(w & tagMask) }

// place is the set's place in the pool.
func (w word) place() uint32 { return uint32(w>>tagBits) & placeMask }

// id returns the i-th inline id.
func (w word) id(i int) uint16 { return uint16(w>>(tagBits+idBits*i)) & idMask }

// inlineWord packs up to inlineMax ascending ids.
func inlineWord(ids []uint16) word {
	w := word(len(ids))
	for i, id := range ids {
		w |= word(id) << (tagBits + idBits*i)
	}
	return w
}

// appendInline appends the inline ids.
func (w word) appendInline(dst []uint16) []uint16 {
	for i := range w.count() {
		dst = append(dst, w.id(i))
	}
	return dst
}

// indexInline returns where the id is, or notAtIndex.
func (w word) indexInline(id uint16) int {
	for i := range w.count() {
		if w.id(i) == id {
			return i
		}
	}
	return notAtIndex
}

// insertID returns ids with id at its place; dst must have room. The id must not be in it.
func insertID(dst, ids []uint16, id uint16) []uint16 {
	i := 0
	for i < len(ids) && ids[i] < id {
		i++
	}
	dst = append(dst, ids[:i]...)
	dst = append(dst, id)
	return append(dst, ids[i:]...)
}

// removeID returns ids without the entry at i.
func removeID(dst, ids []uint16, i int) []uint16 {
	dst = append(dst, ids[:i]...)
	return append(dst, ids[i+1:]...)
}
