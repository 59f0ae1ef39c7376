package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Methods of bytes count bytes and know ASCII alone.

// bytesMethods gives a method of bytes, nil if there is none of that name.
func bytesMethods(name string) methodFunc {
	switch name {
	// decode(encoding='utf-8', errors='strict')
	case "decode":
		return bytesDecode
	// hex(sep, bytes_per_sep=1)
	case "hex":
		return bytesHex
	// fromhex(string)
	case "fromhex":
		return bytesFromHex
	// lower() and the like
	case "lower", "upper", "swapcase", "capitalize", "title":
		return bytesMapped(name)
	// isalnum() and the like
	case "isalnum", "isalpha", "isascii", "isdigit", "islower", "isspace", "istitle", "isupper":
		return bytesPredicate(name)
	// startswith(prefix or tuple, start, end)
	case "startswith", "endswith":
		return bytesAffix(name)
	// find(sub or int, start, end)
	case "find", "rfind", "index", "rindex", "count":
		return bytesFind(name)
	// split(sep=None, maxsplit=-1)
	case "split", "rsplit":
		return bytesSplit(name)
	// splitlines(keepends=False)
	case "splitlines":
		return bytesSplitLines
	// strip(bytes=None)
	case "strip", "lstrip", "rstrip":
		return bytesStrip(name)
	// removeprefix(prefix)
	case "removeprefix", "removesuffix":
		return bytesRemove(name)
	// partition(sep)
	case "partition", "rpartition":
		return bytesPartition(name)
	}
	return bytesMakers(name)
}

// bytesMakers gives the methods whose results may be longer than what they start from.
func bytesMakers(name string) methodFunc {
	switch name {
	// replace(old, new, count=-1)
	case "replace":
		return bytesReplace
	// join(iterable of bytes)
	case "join":
		return bytesJoin
	// center(width, fillbyte=b' ')
	case "center", "ljust", "rjust":
		return bytesJust(name)
	// zfill(width)
	case "zfill":
		return bytesZfill
	// expandtabs(tabsize=8)
	case "expandtabs":
		return bytesExpandTabs
	// translate(table, delete=b'')
	case "translate":
		return bytesTranslate
	// maketrans(from, to)
	case "maketrans":
		return bytesMakeTrans
	}
	return nil
}

// madeBytes charges bytes that were made.
func (r *run) madeBytes(s string) (value.Value, error) { return value.Bytes(s), r.m.Bytes(len(s)) }

// asBytes is an argument that must be bytes.
func asBytes(v value.Value) (string, error) {
	if !v.IsBytes() {
		return "", typeError("a bytes-like object is required, not '%s'", v.TypeName())
	}
	return v.AsStr(), nil
}

// byteList makes a list of bytes.
func (r *run) byteList(parts []string) (value.Value, error) {
	list, err := r.texts(parts, false)
	if err != nil {
		return list, err
	}
	for i, p := range parts {
		list.Cells()[i] = value.Bytes(p)
	}
	return list, nil
}

// onBytes changes each byte of s.
func onBytes(s string, f func(i int, c byte) byte) string {
	b := []byte(s)
	for i, c := range b {
		b[i] = f(i, c)
	}
	return string(b)
}

func lowerByte(c byte) byte {
	if isUpperByte(c) {
		return c | 0x20
	}
	return c
}

func upperByte(c byte) byte {
	if isLowerByte(c) {
		return c &^ 0x20
	}
	return c
}

func isUpperByte(c byte) bool  { return c >= 'A' && c <= 'Z' }
func isLowerByte(c byte) bool  { return c >= 'a' && c <= 'z' }
func isLetterByte(c byte) bool { return isUpperByte(c) || isLowerByte(c) }
func isDigitByte(c byte) bool  { return c >= '0' && c <= '9' }
func isSpaceByte(c byte) bool  { return c == ' ' || c >= '\t' && c <= '\r' }

// bytesMapped gives the methods that change case.
func bytesMapped(name string) methodFunc {
	change := map[string]func(before, c byte) byte{
		"lower": func(_, c byte) byte { return lowerByte(c) },
		"upper": func(_, c byte) byte { return upperByte(c) },
		"swapcase": func(_, c byte) byte {
			if isLetterByte(c) {
				c ^= 0x20
			}
			return c
		},
		"title": func(before, c byte) byte {
			if isLetterByte(before) {
				return lowerByte(c)
			}
			return upperByte(c)
		},
	}[name]
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("bytes", name, 0, 0); err != nil {
			return self, err
		}
		s := self.AsStr()
		if err := r.m.Chars(len(s)); err != nil {
			return self, err
		}
		return r.madeBytes(onBytes(s, func(i int, c byte) byte {
			switch {
			case name == "capitalize" && i == 0:
				return upperByte(c)
			case name == "capitalize":
				return lowerByte(c)
			case i == 0:
				return change(0, c)
			}
			return change(s[i-1], c)
		}))
	}
}

// bytesPredicate gives the is… methods.
func bytesPredicate(name string) methodFunc {
	tests := map[string]func(string) bool{
		"isalnum": allBytes(func(c byte) bool { return isLetterByte(c) || isDigitByte(c) }),
		"isalpha": allBytes(isLetterByte),
		"isdigit": allBytes(isDigitByte),
		"isspace": allBytes(isSpaceByte),
		"isascii": func(s string) bool { return s == "" || allBytes(func(c byte) bool { return c < 0x80 })(s) },
		"islower": func(s string) bool {
			return strings.IndexFunc(s, isASCIIUpper) < 0 && strings.IndexFunc(s, isASCIILower) >= 0
		},
		"isupper": func(s string) bool {
			return strings.IndexFunc(s, isASCIILower) < 0 && strings.IndexFunc(s, isASCIIUpper) >= 0
		},
		"istitle": titledBytes,
	}
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("bytes", name, 0, 0); err != nil {
			return self, err
		}
		if err := r.m.Chars(len(self.AsStr())); err != nil {
			return self, err
		}
		return value.Bool(tests[name](self.AsStr())), nil
	}
}

func isASCIIUpper(r rune) bool { return r >= 'A' && r <= 'Z' }
func isASCIILower(r rune) bool { return r >= 'a' && r <= 'z' }

// allBytes is the test that there is a byte and each passes.
func allBytes(pass func(byte) bool) func(string) bool {
	return func(s string) bool {
		for i := range len(s) {
			if !pass(s[i]) {
				return false
			}
		}
		return s != ""
	}
}

// titledBytes is bytes.istitle.
func titledBytes(s string) bool {
	cased, inWord := false, false
	for i := range len(s) {
		c := s[i]
		if isUpperByte(c) && inWord || isLowerByte(c) && !inWord {
			return false
		}
		inWord = isLetterByte(c)
		cased = cased || inWord
	}
	return cased
}

// sliceBytes cuts bytes; with step 1 the result shares memory.
func sliceBytes(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	s := v.AsStr()
	start, stop, step, err := bounds(b, len(s))
	if err != nil {
		return v, err
	}
	n := members(start, stop, step)
	if step == 1 && n > 0 {
		return value.Bytes(s[start : start+n]), nil
	}
	if err := r.m.Bytes(n); err != nil {
		return v, err
	}
	out := make([]byte, n)
	for i := range out {
		out[i] = s[start+i*step]
	}
	return value.Bytes(string(out)), nil
}
