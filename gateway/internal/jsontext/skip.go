package jsontext

import "math/bits"

// Skip consumes and checks the next value of any kind and tells where it lies.
func (r *Reader) Skip() (Value, error) {
	v := Value{Kind: r.Peek(), Start: r.pos}
	var err error
	switch v.Kind {
	case Object, Array:
		err = r.skipNested()
	case String:
		err = r.skipString()
	case Number:
		err = r.skipNumber()
	case True:
		err = r.literal("true")
	case False:
		err = r.literal("false")
	case Null:
		err = r.literal("null")
	default:
		err = ErrSyntax
	}
	if err != nil {
		return Value{}, err
	}
	v.End = r.pos
	return v, nil
}

// skipNested walks an object or array with a stack of closing bytes.
func (r *Reader) skipNested() error {
	r.stack = r.stack[:0]
	for {
		opened, err := r.skipValue()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		done, err := r.skipClosers()
		if err != nil || done {
			return err
		}
	}
}

// skipValue consumes a scalar, or the opening of a container together with the first member's name. It reports whether
// a container is open and its first value comes next.
func (r *Reader) skipValue() (opened bool, err error) {
	switch r.Peek() {
	case Object:
		return r.open('}')
	case Array:
		return r.open(']')
	default:
		_, err = r.Skip()
		return false, err
	}
}

// open consumes an opening byte; an empty container is consumed whole.
func (r *Reader) open(closing byte) (bool, error) {
	if r.depth+len(r.stack)+1 > r.maxDepth {
		return false, ErrDepth
	}
	r.pos++
	r.space()
	if r.take(closing) {
		return false, nil
	}
	r.stack = append(r.stack, closing)
	if closing == '}' {
		if err := r.skipName(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// skipClosers consumes what may follow a value: closing bytes, or a comma and the next member's name. done means that
// the outermost container is closed.
func (r *Reader) skipClosers() (done bool, err error) {
	for len(r.stack) > 0 {
		top := r.stack[len(r.stack)-1]
		r.space()
		if r.take(top) {
			r.stack = r.stack[:len(r.stack)-1]
			continue
		}
		if !r.take(',') {
			return false, ErrSyntax
		}
		r.space()
		if top == '}' {
			return false, r.skipName()
		}
		return false, nil
	}
	return true, nil
}

// skipName consumes a member's name and its colon.
func (r *Reader) skipName() error {
	if err := r.skipString(); err != nil {
		return err
	}
	return r.colon()
}

func (r *Reader) colon() error {
	r.space()
	if !r.take(':') {
		return ErrSyntax
	}
	r.space()
	return nil
}

// literal consumes one of JSON's words.
func (r *Reader) literal(word string) error {
	end := r.pos + len(word)
	if end > len(r.doc) || string(r.doc[r.pos:end]) != word {
		return ErrSyntax
	}
	r.pos = end
	return nil
}

// skipNumber checks JSON's number grammar.
func (r *Reader) skipNumber() error {
	r.take('-')
	switch {
	case r.take('0'):
	case r.digits() == 0:
		return ErrSyntax
	}
	if r.take('.') && r.digits() == 0 {
		return ErrSyntax
	}
	if r.take('e') || r.take('E') {
		if !r.take('+') {
			r.take('-')
		}
		if r.digits() == 0 {
			return ErrSyntax
		}
	}
	return nil
}

func (r *Reader) digits() int {
	start := r.pos
	for r.pos < len(r.doc) && r.doc[r.pos]-'0' <= 9 {
		r.pos++
	}
	return r.pos - start
}

// Masks for finding a byte in a word of eight.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has the high bit set in each byte of w that is a quote, a backslash or a control character. Bytes after the
// first hit may be reported wrongly; only the lowest set bit counts.
func special(w uint64) uint64 {
	quote := w ^ (ones * '"')
	back := w ^ (ones * '\\')
	return ((quote-ones)&^quote | (back-ones)&^back | (w-ones*0x20)&^w) & highs
}

// skipString consumes a string and checks its escapes. Eight bytes are looked at in a step.
func (r *Reader) skipString() error {
	if !r.take('"') {
		return ErrSyntax
	}
	doc, i := r.doc, r.pos
	for {
		i += plainRun(doc[i:])
		for i+8 <= len(doc) {
			m := special(load64(doc[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(doc) {
			return ErrSyntax
		}
		switch c := doc[i]; {
		case c == '"':
			r.pos = i + 1
			return nil
		case c == '\\':
			n := escape(doc[i:])
			if n == 0 {
				return ErrSyntax
			}
			i += n
		case c < 0x20:
			return ErrSyntax
		default:
			i++
		}
	}
}

// plainRun is how many bytes at the start of b, in steps of 32, hold nothing special: the four tests are independent, so
// the processor works on them at once.
func plainRun(b []byte) int {
	n := 0
	for len(b) >= 32 {
		m := special(load64(b)) | special(load64(b[8:])) | special(load64(b[16:])) | special(load64(b[24:]))
		if m != 0 {
			break
		}
		b = b[32:]
		n += 32
	}
	return n
}

func load64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// escape is the length of the escape sequence at the start of b, 0 if it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex4(b[2:6]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 is the value of four hexadecimal digits, -1 if they are none.
func hex4(b []byte) rune {
	var v rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		v = v<<4 | rune(c)
	}
	return v
}
