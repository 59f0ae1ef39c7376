package eval

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Between text and bytes: encodings and hexadecimal digits.

// codecArgs reads encoding='utf-8' and errors='strict'.
func codecArgs(name string, a *args) (encoding, errors string, err error) {
	b, err := a.named(name, "encoding", "errors")
	if err != nil {
		return "", "", err
	}
	out := [2]string{"utf-8", "strict"}
	for i, v := range b {
		switch {
		case isMissing(v):
		case !v.IsStr():
			return "", "", typeError("%s() argument '%s' must be str, not %s", name, [...]string{"encoding", "errors"}[i], argumentType(v))
		case strings.IndexByte(v.AsStr(), 0) >= 0:
			return "", "", valueError("embedded null character")
		default:
			out[i] = v.AsStr()
		}
	}
	return out[0], out[1], nil
}

// strEncode is str.encode.
func strEncode(r *run, self value.Value, a *args) (value.Value, error) {
	encoding, errors, err := codecArgs("encode", a)
	if err != nil {
		return self, err
	}
	return value.Encode(&r.m, self.AsStr(), encoding, errors)
}

// bytesDecode is bytes.decode.
func bytesDecode(r *run, self value.Value, a *args) (value.Value, error) {
	encoding, errors, err := codecArgs("decode", a)
	if err != nil {
		return self, err
	}
	return value.Decode(&r.m, self.AsStr(), encoding, errors)
}

// bytesHex is bytes.hex(sep, bytes_per_sep=1): groups are counted from the right, from the left if negative.
func bytesHex(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := a.named("hex", "sep", "bytes_per_sep")
	if err != nil {
		return self, err
	}
	group, err := asInt(b[1], 1)
	if pyerr.Is(err, pyerr.Overflow) || group != int64(int32(group)) {
		err = pyerr.New(pyerr.Overflow, "Python int too large to convert to C int")
	}
	if err != nil {
		return self, err
	}
	s := self.AsStr()
	sep := ""
	if !isMissing(b[0]) {
		if sep, err = hexSeparator(b[0]); err != nil {
			return self, err
		}
	}
	if err := r.m.Product(len(s), 3); err != nil {
		return self, err
	}
	if sep == "" || group == 0 {
		return value.Str(hex.EncodeToString([]byte(s))), nil
	}
	var out strings.Builder
	for i := range len(s) {
		place := int64(i)
		if group > 0 {
			place = int64(len(s) - i)
		}
		if i > 0 && place%group == 0 {
			out.WriteString(sep)
		}
		out.WriteString(hex.EncodeToString([]byte{s[i]}))
	}
	return value.Str(out.String()), nil
}

// hexSeparator is one ASCII character.
func hexSeparator(v value.Value) (string, error) {
	n, err := v.Len()
	switch {
	case err != nil:
		return "", err
	case n != 1:
		return "", valueError("sep must be length 1.")
	case !v.IsStr() && !v.IsBytes():
		return "", typeError("sep must be str or bytes.")
	case v.AsStr()[0] >= 0x80:
		return "", valueError("sep must be ASCII.")
	}
	return v.AsStr(), nil
}

// bytesFromHex is bytes.fromhex(string): pairs of digits, with blanks between them.
func bytesFromHex(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("bytes", "fromhex", 1, 1); err != nil {
		return self, err
	}
	if !a.pos[0].IsStr() {
		return self, typeError("fromhex() argument must be str, not %s", argumentType(a.pos[0]))
	}
	s := a.pos[0].AsStr()
	if err := r.m.Bytes(len(s)); err != nil {
		return self, err
	}
	var out []byte
	for i := 0; i < len(s); {
		if isSpaceByte(s[i]) {
			i++
			continue
		}
		for k := range 2 {
			if i+k == len(s) || !isHexByte(s[i+k]) {
				at := value.RuneCount(s[:i+k])
				return self, valueError("non-hexadecimal number found in fromhex() arg at position " + strconv.Itoa(at))
			}
		}
		c, _ := strconv.ParseUint(s[i:i+2], 16, 8) // two digits, as just seen
		out = append(out, byte(c))
		i += 2
	}
	return value.Bytes(string(out)), nil
}

func isHexByte(c byte) bool { return isDigitByte(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }
