package jsontext

import "slices"

// Edit replaces [Start, End) of a document by Text; Start == End inserts.
type Edit struct {
	Start, End int
	Text       []byte
}

// Replace is the edit that puts text in the place of v.
func Replace(v Value, text []byte) Edit { return Edit{Start: v.Start, End: v.End, Text: text} }

// AddMember is the edit that adds a member at the end of the object v. source is "name":value text. empty tells that
// the object has no member yet.
func AddMember(v Value, empty bool, source []byte) Edit {
	at := v.End - 1
	if empty {
		return Edit{Start: at, End: at, Text: source}
	}
	return Edit{Start: at, End: at, Text: append([]byte{','}, source...)}
}

// Splice is the document with edits applied, as segments that share the document's memory. Edits may come in any
// order but must not overlap; several insertions at one place keep their order.
func Splice(doc []byte, edits []Edit) [][]byte {
	if len(edits) == 0 {
		return [][]byte{doc}
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Start - b.Start })
	out := make([][]byte, 0, 2*len(edits)+1)
	at := 0
	for _, e := range edits {
		if e.Start > at {
			out = append(out, doc[at:e.Start])
		}
		if len(e.Text) > 0 {
			out = append(out, e.Text)
		}
		at = e.End
	}
	if at < len(doc) {
		out = append(out, doc[at:])
	}
	return out
}

// Join is the document of segments in one piece; a single segment is returned as it is.
func Join(segments [][]byte) []byte {
	if len(segments) == 1 {
		return segments[0]
	}
	return slices.Concat(segments...)
}

// Len is the length of segments in bytes.
func Len(segments [][]byte) int {
	n := 0
	for _, s := range segments {
		n += len(s)
	}
	return n
}
