// Package stream turns a growing list of token ids into text piece by piece, by the rule of vLLM 0.32: decode from a
// prefix offset, give out what is new, and hold back text that ends inside a character.
package stream

import (
	"bytes"
	"unicode/utf8"
)

// maxPending bounds the ids a state may hold. A real stream holds a few; only special tokens that are left out of the
// text can pile up, and then the text held back is given out as it is.
const maxPending = 4096

// State is what a stream remembers between steps. The zero State begins a stream.
type State struct {
	// Pending holds the ids since the prefix offset.
	Pending []uint32
	// Read is the index in Pending up to which text was given out.
	Read int
}

// Decoder decodes ids that belong together.
type Decoder func(dst []byte, ids []uint32) ([]byte, error)

// Valid reports whether the state can be one that Step returned.
func (s State) Valid() bool {
	return s.Read >= 0 && s.Read <= len(s.Pending) && len(s.Pending) <= maxPending
}

// Step appends the text that ids complete to dst and returns the next state. The ids are taken one by one, as a
// worker's steps bring them, since the rule may hold back differently otherwise. s is not changed.
func Step(dst []byte, s State, ids []uint32, decode Decoder) ([]byte, State, error) {
	next := State{Pending: append(make([]uint32, 0, len(s.Pending)+len(ids)), s.Pending...), Read: s.Read}
	for _, id := range ids {
		next.Pending = append(next.Pending, id)
		text, done, err := next.fresh(decode)
		if err != nil {
			return dst, s, err
		}
		if done || len(next.Pending) > maxPending {
			dst = append(dst, text...)
			next = State{Pending: next.Pending[next.Read:], Read: len(next.Pending) - next.Read}
		}
	}
	return dst, next, nil
}

// Flush appends the text that is held back, whole characters or not.
func Flush(dst []byte, s State, decode Decoder) ([]byte, error) {
	text, _, err := s.fresh(decode)
	return append(dst, text...), err
}

// fresh returns the text after what was given out; done says that it ends with a whole character and may be given out.
func (s State) fresh(decode Decoder) (text []byte, done bool, err error) {
	before, err := decode(nil, s.Pending[:s.Read])
	if err != nil {
		return nil, false, err
	}
	all, err := decode(nil, s.Pending)
	if err != nil {
		return nil, false, err
	}
	text = after(all, before)
	return text, len(text) > 0 && !bytes.HasSuffix(all, []byte("\ufffd")), nil
}

// after returns what all has after as many characters as before has, as vLLM cuts.
func after(all, before []byte) []byte {
	if rest, ok := bytes.CutPrefix(all, before); ok {
		return rest
	}
	for range utf8.RuneCount(before) {
		_, size := utf8.DecodeRune(all)
		all = all[size:]
	}
	return all
}
