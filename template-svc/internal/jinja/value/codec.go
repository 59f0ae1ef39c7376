package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Of CPython's codecs those of Unicode, ASCII and Latin-1 are known; a name of another is an unknown encoding here.

// codec is one encoding as its error messages call it.
type codec struct {
	name string // as in messages
	kind byte   // '8', 'a' (ASCII), 'l' (Latin-1), 'h' (16 bits), 'w' (32 bits)
	big  bool   // most significant byte first
	mark bool   // a byte order mark is written and read
}

// codecOf finds an encoding by any of the names that CPython knows it by.
func codecOf(name string) (codec, error) {
	switch normalCodec(name) {
	case "utf_8", "utf8", "u8", "utf", "cp65001", "utf8_ucs2", "utf8_ucs4":
		return codec{name: "utf-8", kind: '8'}, nil
	case "utf_8_sig":
		return codec{name: "utf-8", kind: '8', mark: true}, nil
	case "ascii", "us_ascii", "us", "646", "ansi_x3.4_1968", "ansi_x3_4_1968", "ansi_x3.4_1986", "cp367", "csascii", "ibm367",
		"iso646_us", "iso_646.irv_1991", "iso_ir_6":
		return codec{name: "ascii", kind: 'a'}, nil
	case "latin_1", "latin1", "latin", "l1", "iso_8859_1", "iso8859_1", "8859", "cp819", "csisolatin1", "ibm819", "iso8859",
		"iso_8859_1_1987", "iso_ir_100":
		return codec{name: "latin-1", kind: 'l'}, nil
	case "utf_16", "utf16", "u16":
		return codec{name: "utf-16", kind: 'h', mark: true}, nil
	case "utf_16_le", "utf_16le", "unicodelittleunmarked":
		return codec{name: "utf-16-le", kind: 'h'}, nil
	case "utf_16_be", "utf_16be", "unicodebigunmarked":
		return codec{name: "utf-16-be", kind: 'h', big: true}, nil
	case "utf_32", "utf32", "u32":
		return codec{name: "utf-32", kind: 'w', mark: true}, nil
	case "utf_32_le", "utf_32le":
		return codec{name: "utf-32-le", kind: 'w'}, nil
	case "utf_32_be", "utf_32be":
		return codec{name: "utf-32-be", kind: 'w', big: true}, nil
	}
	return codec{}, pyerr.New(pyerr.Lookup, "unknown encoding: "+name)
}

// normalCodec writes a name as CPython's registry does: letters small, other characters an underscore.
func normalCodec(name string) string {
	var b strings.Builder
	gap := false
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != '.' && !isDigit(c) && (c < 'a' || c > 'z') {
			gap = true
			continue
		}
		if gap && b.Len() > 0 {
			b.WriteByte('_')
		}
		gap = false
		b.WriteByte(c)
	}
	return b.String()
}

// wrap says of an error that is no codec's own through which codec it came, unless CPython has a short way to that codec.
func (c codec) wrap(err error, doing, encoding string) error {
	e, ok := err.(*pyerr.Error)
	if !ok || e.Type != pyerr.Type && e.Type != pyerr.Lookup {
		return err
	}
	switch normalCodec(encoding) {
	case "utf8", "utf_8", "utf16", "utf_16", "utf32", "utf_32", "ascii", "us_ascii", "latin1", "latin_1", "iso_8859_1", "iso8859_1":
		return err
	}
	return pyerr.Newf(e.Type, "%s with '%s' codec failed (%s: %s)", doing, encoding, e.Type, e.Message)
}

// reason says why a character cannot be encoded.
func (c codec) reason() string {
	switch c.kind {
	case 'a':
		return "ordinal not in range(128)"
	case 'l':
		return "ordinal not in range(256)"
	}
	return "surrogates not allowed"
}

// fits reports whether a character has a code; surrogates have none in Unicode's own encodings.
func (c codec) fits(r rune) bool {
	switch c.kind {
	case 'a':
		return r < utf8.RuneSelf
	case 'l':
		return r < 0x100
	}
	return r < 0xd800 || r > 0xdfff
}

// unit appends one unit of the encoding's width.
func (c codec) unit(b []byte, u uint32) []byte {
	switch {
	case c.kind == 'h' && c.big:
		return append(b, byte(u>>8), byte(u))
	case c.kind == 'h':
		return append(b, byte(u), byte(u>>8))
	case c.big:
		return append(b, byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
	}
	return append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
}

// append appends the code of a character that fits, or of a surrogate as if it did.
func (c codec) append(b []byte, r rune) []byte {
	switch c.kind {
	case '8':
		if r >= 0xd800 && r <= 0xdfff {
			return append(b, 0xe0|byte(r>>12), 0x80|byte(r>>6)&0xbf, 0x80|byte(r)&0xbf)
		}
		return utf8.AppendRune(b, r)
	case 'a', 'l':
		return append(b, byte(r))
	case 'h':
		if r >= 0x10000 {
			r -= 0x10000
			return c.unit(c.unit(b, 0xd800+uint32(r>>10)), 0xdc00+uint32(r&0x3ff))
		}
	}
	return c.unit(b, uint32(r))
}

// order appends the byte order mark.
func (c codec) order(b []byte) []byte {
	if !c.mark {
		return b
	}
	return c.append(b, 0xfeff)
}
