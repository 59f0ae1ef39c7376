package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Bytes made of other bytes are charged before they are made.

// bytesReplace is replace(old, new, count=-1).
func bytesReplace(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("bytes", "replace", 2, 3); err != nil {
		return self, err
	}
	old, err := asBytes(a.pos[0])
	if err != nil {
		return self, err
	}
	next, err := asBytes(a.pos[1])
	if err != nil {
		return self, err
	}
	n, err := asInt(a.at(2), -1)
	if err != nil {
		return self, err
	}
	s := self.AsStr()
	if old == "" {
		return interleave(r, s, next, n)
	}
	s, err = replaceText(r, s, old, next, n)
	return value.Bytes(s), err
}

// interleave puts next before each byte and at the end, at most limit times unless that is negative.
func interleave(r *run, s, next string, limit int64) (value.Value, error) {
	n := len(s) + 1
	if limit >= 0 {
		n = int(min(limit, int64(n)))
	}
	if err := r.m.Product(n, len(next)+1); err != nil {
		return value.Value{}, err
	}
	var out strings.Builder
	for i := range len(s) + 1 {
		if i < n {
			out.WriteString(next)
		}
		if i < len(s) {
			out.WriteByte(s[i])
		}
	}
	return r.madeBytes(out.String())
}

// bytesJoin is join(iterable of bytes).
func bytesJoin(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("bytes", "join", 1, 1); err != nil {
		return self, err
	}
	if !a.pos[0].CanIter() {
		return self, typeError("can only join an iterable")
	}
	it, err := a.pos[0].Iter()
	if err != nil {
		return self, err
	}
	p := value.Printer{Meter: &r.m}
	n := 0
	err = r.each(it, func(v value.Value) error {
		if !v.IsBytes() {
			return typeError("sequence item %d: expected a bytes-like object, %s found", n, v.TypeName())
		}
		if n++; n > 1 {
			if err := p.Write(self.AsStr()); err != nil {
				return err
			}
		}
		return p.Write(v.AsStr())
	})
	return value.Bytes(string(p.Buf)), err
}

// bytesJust is center, ljust or rjust(width, fillbyte=b' ').
func bytesJust(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("bytes", name, 1, 2); err != nil {
			return self, err
		}
		width, err := asInt(a.pos[0], 0)
		if err != nil {
			return self, err
		}
		fill := " "
		if len(a.pos) > 1 {
			if !a.pos[1].IsBytes() || len(a.pos[1].AsStr()) != 1 {
				return self, typeError("%s() argument 2 must be a byte string of length 1, not %s", name, a.pos[1].TypeName())
			}
			fill = a.pos[1].AsStr()
		}
		return r.padBytes(self.AsStr(), fill, width, name)
	}
}

// padBytes pads s with fill to width bytes, left and right.
func (r *run) padBytes(s, fill string, width int64, how string) (value.Value, error) {
	n := width - int64(len(s))
	if n <= 0 {
		return value.Bytes(s), nil
	}
	if err := r.m.Pad(n); err != nil {
		return value.Value{}, err
	}
	return r.madeBytes(padded(s, fill, n, width, how))
}

// bytesZfill is zfill(width): zeros after the sign.
func bytesZfill(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("bytes", "zfill", 1, 1); err != nil {
		return self, err
	}
	width, err := asInt(a.pos[0], 0)
	if err != nil {
		return self, err
	}
	s, sign := self.AsStr(), ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	padded, err := r.padBytes(s, "0", width-int64(len(sign)), "rjust")
	if err != nil {
		return self, err
	}
	return value.Bytes(sign + padded.AsStr()), nil
}

// bytesExpandTabs is expandtabs(tabsize=8), columns counted from the last line end.
func bytesExpandTabs(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := a.named("expandtabs", "tabsize")
	if err != nil {
		return self, err
	}
	size, err := asInt(b[0], 8)
	if err != nil {
		return self, err
	}
	if err := r.m.Pad(size); err != nil {
		return self, err
	}
	p := value.Printer{Meter: &r.m}
	column := int64(0)
	for _, c := range []byte(self.AsStr()) {
		if err := r.m.Step(); err != nil {
			return self, err
		}
		text := string([]byte{c})
		column++
		switch {
		case c == '\n' || c == '\r':
			column = 0
		case c == '\t':
			column--
			n := int64(0)
			if size > 0 {
				n = size - column%size
			}
			text, column = strings.Repeat(" ", int(n)), column+n
		}
		if err := p.Write(text); err != nil {
			return self, err
		}
	}
	return value.Bytes(string(p.Buf)), nil
}

// bytesTranslate is translate(table, /, delete=b”): a table of 256 bytes, or None.
func bytesTranslate(r *run, self value.Value, a *args) (value.Value, error) {
	if len(a.pos) == 0 {
		return self, typeError("translate() takes at least 1 positional argument (0 given)")
	}
	b, err := a.named("translate", "", "delete")
	if err != nil {
		return self, err
	}
	table, drop := "", ""
	if !b[0].IsNone() {
		if table, err = asBytes(b[0]); err != nil {
			return self, err
		}
		if len(table) != 256 {
			return self, valueError("translation table must be 256 characters long")
		}
	}
	if !isMissing(b[1]) {
		if drop, err = asBytes(b[1]); err != nil {
			return self, err
		}
	}
	if err := r.m.Work(len(self.AsStr())); err != nil {
		return self, err
	}
	var out []byte
	for _, c := range []byte(self.AsStr()) {
		if strings.IndexByte(drop, c) >= 0 {
			continue
		}
		if table != "" {
			c = table[c]
		}
		out = append(out, c)
	}
	return r.madeBytes(string(out))
}

// bytesMakeTrans is maketrans(from, to): a table of 256 bytes.
func bytesMakeTrans(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("bytes", "maketrans", 2, 2); err != nil {
		return self, err
	}
	from, err := asBytes(a.pos[0])
	if err != nil {
		return self, err
	}
	to, err := asBytes(a.pos[1])
	if err != nil {
		return self, err
	}
	if len(from) != len(to) {
		return self, valueError("maketrans arguments must have same length")
	}
	table := make([]byte, 256)
	for i := range table {
		table[i] = byte(i)
	}
	for i := range len(from) {
		table[from[i]] = to[i]
	}
	return r.madeBytes(string(table))
}
