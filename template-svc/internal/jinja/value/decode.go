package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Decoding follows CPython in how many bytes an error covers, because the replacing handlers show it.

// decoder is one run of bytes.decode.
type decoder struct {
	codec
	m      *limit.Meter
	s      string
	at     int
	errors string
	out    []byte
}

// Decode is bytes.decode(encoding, errors).
func Decode(m *limit.Meter, s, encoding, errors string) (Value, error) {
	if s == "" {
		return Str(""), nil // the codec is not even looked for
	}
	c, err := codecOf(encoding)
	if err != nil {
		return Value{}, err
	}
	if err := m.Product(len(s), 2); err != nil {
		return Value{}, err
	}
	d := decoder{codec: c, m: m, s: s, errors: errors}
	d.readOrder()
	for d.at < len(s) {
		if err := m.Scan(256); err != nil {
			return Value{}, err
		}
		r, n, why := d.char()
		if why == "" {
			d.out = AppendChar(d.out, r)
		} else if n, err = d.handle(n, why); err != nil {
			return Value{}, c.wrap(err, "decoding", encoding)
		}
		d.at += n
	}
	return StrOfBytes(d.out), nil
}

// readOrder reads a byte order mark; 16 and 32 bits without one are little-endian.
func (d *decoder) readOrder() {
	if !d.mark {
		return
	}
	little, big := d, codec{kind: d.kind, big: true}
	if first := string(little.order(nil)); strings.HasPrefix(d.s, first) {
		d.at = len(first)
		if d.kind != '8' {
			d.name += "-le"
		}
		return
	}
	if d.kind == '8' {
		return
	}
	if second := string(big.append(nil, 0xfeff)); strings.HasPrefix(d.s, second) {
		d.at, d.big = len(second), true
		d.name += "-be"
	} else {
		d.name += "-le"
	}
}

// char reads the character at hand: its length, or why it is none, and the length of what is bad.
func (d *decoder) char() (r rune, n int, why string) {
	s := d.s[d.at:]
	switch d.kind {
	case 'a':
		if s[0] >= utf8.RuneSelf {
			return 0, 1, "ordinal not in range(128)"
		}
		return rune(s[0]), 1, ""
	case 'l':
		return rune(s[0]), 1, ""
	case '8':
		return charUTF8(s)
	case 'h':
		return d.charUTF16(s)
	}
	return d.charUTF32(s)
}

// charUTF8 reads one character; a bad one covers the longest beginning of a good one.
func charUTF8(s string) (r rune, n int, why string) {
	if r, n := utf8.DecodeRuneInString(s); r != utf8.RuneError || n > 1 {
		return r, n, ""
	}
	c := s[0]
	want, low, high := 0, byte(0x80), byte(0xbf)
	switch {
	case c >= 0xc2 && c <= 0xdf:
		want = 1
	case c >= 0xe0 && c <= 0xef:
		want = 2
	case c >= 0xf0 && c <= 0xf4:
		want = 3
	default:
		return 0, 1, "invalid start byte"
	}
	switch c {
	case 0xe0:
		low = 0xa0
	case 0xed:
		high = 0x9f
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	for n = 1; n <= want; n++ {
		if n == len(s) {
			return 0, n, "unexpected end of data"
		}
		if s[n] < low || s[n] > high {
			break
		}
		low, high = 0x80, 0xbf
	}
	return 0, n, "invalid continuation byte"
}

// word reads the unit at an offset.
func (d *decoder) word(s string) uint32 {
	if d.kind == 'h' {
		if d.big {
			return uint32(s[0])<<8 | uint32(s[1])
		}
		return uint32(s[1])<<8 | uint32(s[0])
	}
	if d.big {
		return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
	}
	return uint32(s[3])<<24 | uint32(s[2])<<16 | uint32(s[1])<<8 | uint32(s[0])
}

// charUTF16 reads one unit or a pair.
func (d *decoder) charUTF16(s string) (r rune, n int, why string) {
	if len(s) < 2 {
		return 0, 1, "truncated data"
	}
	u := d.word(s)
	switch {
	case u < 0xd800 || u > 0xdfff:
		return rune(u), 2, ""
	case u >= 0xdc00:
		return 0, 2, "illegal encoding"
	case len(s) < 4:
		return 0, len(s), "unexpected end of data"
	}
	v := d.word(s[2:])
	if v < 0xdc00 || v > 0xdfff {
		return 0, 2, "illegal UTF-16 surrogate"
	}
	return 0x10000 + rune(u-0xd800)<<10 + rune(v-0xdc00), 4, ""
}

// charUTF32 reads one unit.
func (d *decoder) charUTF32(s string) (r rune, n int, why string) {
	if len(s) < 4 {
		return 0, len(s), "truncated data"
	}
	u := d.word(s)
	switch {
	case u >= 0xd800 && u <= 0xdfff:
		return 0, 4, "code point in surrogate code point range(0xd800, 0xe000)"
	case u > utf8.MaxRune:
		return 0, 4, "code point not in range(0x110000)"
	}
	return rune(u), 4, ""
}

// handle gives n bad bytes to the error handler; the result is how many bytes it took.
func (d *decoder) handle(n int, why string) (int, error) {
	bad := d.s[d.at : d.at+n]
	switch d.errors {
	case "strict":
		return n, d.fail(bad, why)
	case "ignore":
		return n, nil
	case "replace":
		d.out = utf8.AppendRune(d.out, utf8.RuneError)
		return n, d.m.Bytes(3)
	case "backslashreplace":
		for i := range n {
			d.out = append(d.out, '\\', 'x', hexDigits[bad[i]>>4], hexDigits[bad[i]&15])
		}
		return n, d.m.Bytes(4 * n)
	case "surrogateescape":
		for i := range n {
			if bad[i] < utf8.RuneSelf {
				if i == 0 {
					return n, d.fail(bad, why)
				}
				return i, nil
			}
			d.out = AppendChar(d.out, 0xdc00+rune(bad[i]))
		}
		return n, d.m.Bytes(4 * n)
	case "surrogatepass":
		return d.pass(bad, why)
	case "xmlcharrefreplace", "namereplace":
		return n, pyerr.New(pyerr.Type, "don't know how to handle UnicodeDecodeError in error callback")
	}
	return n, pyerr.New(pyerr.Lookup, "unknown error handler name "+ReprString(d.errors))
}

// pass lets the code of a surrogate through.
func (d *decoder) pass(bad, why string) (int, error) {
	s := d.s[d.at:]
	var r rune
	n := 0
	switch {
	case d.kind == '8' && len(s) >= 3 && s[0] == 0xed && s[1]&0xe0 == 0xa0 && s[2]&0xc0 == 0x80:
		r, n = 0xd000|rune(s[1]&0x3f)<<6|rune(s[2]&0x3f), 3
	case d.kind == 'h' && len(s) >= 2:
		r, n = rune(d.word(s)), 2
	case d.kind == 'w' && len(s) >= 4 && d.word(s) < 0x10000:
		r, n = rune(d.word(s)), 4
	}
	if r < 0xd800 || r > 0xdfff {
		return len(bad), d.fail(bad, why)
	}
	d.out = AppendChar(d.out, r)
	return n, d.m.Bytes(4)
}

// fail is the UnicodeDecodeError of some bytes.
func (d *decoder) fail(bad, why string) error {
	if len(bad) == 1 {
		return pyerr.Newf(pyerr.UnicodeDecode, "'%s' codec can't decode byte 0x%02x in position %d: %s", d.name, bad[0], d.at, why)
	}
	return pyerr.Newf(pyerr.UnicodeDecode, "'%s' codec can't decode bytes in position %d-%d: %s", d.name, d.at,
		d.at+len(bad)-1, why)
}
