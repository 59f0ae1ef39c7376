package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Bytes come into a template by str.encode and int.to_bytes alone; they print as b'…' and are ints when taken apart.

// Bytes makes a Python bytes of the bytes of s, which need not be UTF-8.
func Bytes(s string) Value {
	v := Str(s)
	v.k = KindBytes
	return v
}

// IsBytes reports whether v is a bytes.
func (v Value) IsBytes() bool { return v.k == KindBytes }

// byteIter walks bytes as ints.
type byteIter struct{ s string }

// Next gives the next byte.
func (it *byteIter) Next() (Value, bool, error) {
	if it.s == "" {
		return Value{}, false, nil
	}
	c := it.s[0]
	it.s = it.s[1:]
	return Int(int64(c)), true, nil
}

// containsByte is item in container for bytes: a part, or an int that is a byte.
func containsByte(m *limit.Meter, item, container Value) (bool, error) {
	s := container.AsStr()
	if err := m.Scan(len(s)); err != nil {
		return false, err
	}
	switch {
	case item.k == KindBytes:
		return strings.Contains(s, item.AsStr()), nil
	case item.k == KindBig || item.IsInt() && uint64(item.AsInt()) > 255:
		return false, pyerr.New(pyerr.Value, "byte must be in range(0, 256)")
	case item.IsInt():
		return strings.IndexByte(s, byte(item.AsInt())) >= 0, nil
	}
	return false, pyerr.Newf(pyerr.Type, "a bytes-like object is required, not '%s'", item.TypeName())
}

// reprBytes appends the repr of a bytes.
func (p *Printer) reprBytes(s string) error {
	if err := p.Meter.Bytes(len(s) + 3); err != nil {
		return err
	}
	if err := p.Meter.Chars(len(s)); err != nil {
		return err
	}
	p.Buf = AppendReprBytes(p.Buf, s)
	return nil
}

// AppendReprBytes appends Python's repr of a bytes: quotes as in a str, and escapes for all that is not ASCII.
func AppendReprBytes(b []byte, s string) []byte {
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	b = append(b, 'b', quote)
	for i := range len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			b = appendReprByte(b, c, quote)
		} else {
			b = appendRuneEscape(b, rune(c))
		}
	}
	return append(b, quote)
}

// lookUp gives the value of a key in brackets; bytes have bytes for keys. shown is the key's repr.
func (p *printf) lookUp(name string) (v Value, ok bool, shown string) {
	if !p.bytes {
		v, ok = p.mapping.AsDict().GetStr(name)
		return v, ok, ReprString(name)
	}
	v, ok, _ = p.mapping.AsDict().Get(Bytes(name)) // bytes are always hashable
	return v, ok, string(AppendReprBytes(nil, name))
}

// keyType is the type of a format's keys.
func (p *printf) keyType() string {
	if p.bytes {
		return "bytes"
	}
	return "str"
}

// raw is %s and %b of a bytes format, which take bytes alone.
func (p *printf) raw(d directive, v Value) error {
	if v.k != KindBytes {
		return pyerr.Newf(pyerr.Type, "%%b requires a bytes-like object, or an object that implements __bytes__, not '%s'",
			v.TypeName())
	}
	s := v.AsStr()
	if d.prec >= 0 && d.prec < len(s) {
		s = s[:d.prec]
	}
	return p.padBytes(d, s)
}

// byte is %c of a bytes format.
func (p *printf) byte(d directive, v Value) error {
	switch {
	case v.k == KindBytes && v.n == 1:
		return p.padBytes(d, v.AsStr())
	case v.k == KindBig || v.IsInt() && uint64(v.AsInt()) > 255:
		return pyerr.New(pyerr.Overflow, "%c arg not in range(256)")
	case v.IsInt():
		return p.padBytes(d, string([]byte{byte(v.AsInt())}))
	}
	return pyerr.New(pyerr.Type, "%c requires an integer in range(256) or a single byte")
}

// padBytes writes s, padded to the width in bytes.
func (p *printf) padBytes(d directive, s string) error {
	fill := strings.Repeat(" ", max(d.width-len(s), 0)) // size checked the width
	if d.left {
		return p.write(s + fill)
	}
	return p.write(fill + s)
}
