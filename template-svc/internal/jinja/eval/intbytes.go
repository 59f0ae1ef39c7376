package eval

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Numbers as bytes and as hexadecimal text.

// byteOrder reads byteorder='big'; true is little.
func byteOrder(name string, v value.Value) (bool, error) {
	switch {
	case isMissing(v):
		return false, nil
	case !v.IsStr():
		return false, typeError("%s() argument 'byteorder' must be str, not %s", name, argumentType(v))
	case v.AsStr() == "little":
		return true, nil
	case v.AsStr() == "big":
		return false, nil
	}
	return false, valueError("byteorder must be either 'little' or 'big'")
}

// intArgs binds two parameters by place or name and signed by name alone.
func intArgs(name, first string, a *args) ([]value.Value, error) {
	if len(a.pos) > 2 {
		return nil, typeError("%s() takes at most 2 positional arguments (%d given)", name, len(a.pos))
	}
	return a.named(name, first, "byteorder", "signed")
}

// intToBytes is int.to_bytes(length=1, byteorder='big', *, signed=False).
func intToBytes(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := intArgs("to_bytes", "length", a)
	if err != nil {
		return self, err
	}
	length, err := asInt(b[0], 1)
	if err != nil {
		return self, err
	}
	little, err := byteOrder("to_bytes", b[1])
	if err != nil {
		return self, err
	}
	n, signed := self.AsBig(), b[2].Truth()
	switch {
	case length < 0:
		return self, valueError("length argument must be non-negative")
	case n.Sign() < 0 && !signed:
		return self, pyerr.New(pyerr.Overflow, "can't convert negative int to unsigned")
	}
	if err := r.m.Bytes(int(min(length, 1<<40))); err != nil {
		return self, err
	}
	used := n.BitLen()
	if signed {
		used++ // the sign; the lowest number has one bit less
		if n.Sign() < 0 && new(big.Int).Not(n).BitLen() < n.BitLen() {
			used--
		}
	}
	if int64(used) > 8*length && !(n.Sign() == 0 && length == 0) {
		return self, pyerr.New(pyerr.Overflow, "int too big to convert")
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*length)))
	}
	out := n.FillBytes(make([]byte, length))
	if little {
		slices.Reverse(out)
	}
	return value.Bytes(string(out)), nil
}

// intFromBytes is int.from_bytes(bytes, byteorder='big', *, signed=False); bool's gives a bool.
func intFromBytes(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := intArgs("from_bytes", "bytes", a)
	if err != nil {
		return self, err
	}
	if isMissing(b[0]) && len(a.pos) == 0 {
		return self, typeError("from_bytes() missing required argument 'bytes' (pos 1)")
	}
	little, err := byteOrder("from_bytes", b[1])
	if err != nil {
		return self, err
	}
	raw, err := r.bytesOf(b[0])
	if err != nil {
		return self, err
	}
	if err := r.m.Bits(8 * int64(len(raw))); err != nil {
		return self, err
	}
	if little {
		slices.Reverse(raw)
	}
	n := new(big.Int).SetBytes(raw)
	if b[2].Truth() && len(raw) > 0 && raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	if self.Kind() == value.KindBool {
		return value.Bool(n.Sign() != 0), nil
	}
	return value.Big(n), nil
}

// bytesOf is what Python's bytes constructor makes of an object that is no text and no number.
func (r *run) bytesOf(v value.Value) ([]byte, error) {
	if v.IsBytes() {
		return []byte(v.AsStr()), r.m.Bytes(len(v.AsStr()))
	}
	it, err := v.Iter()
	if err != nil || v.IsStr() {
		return nil, typeError("cannot convert '%s' object to bytes", v.TypeName())
	}
	var out []byte
	err = r.each(it, func(c value.Value) error {
		if c.Kind() == value.KindBig {
			return valueError("bytes must be in range(0, 256)")
		}
		n, err := asInt(c, 0)
		if err == nil && (n < 0 || n > 255) {
			err = valueError("bytes must be in range(0, 256)")
		}
		out = append(out, byte(n))
		return err
	})
	return out, err
}

// floatFromHex is float.fromhex(string).
func floatFromHex(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("float", "fromhex", 1, 1); err != nil {
		return self, err
	}
	if !a.pos[0].IsStr() {
		return self, typeError("bad argument type for built-in operation")
	}
	if err := r.m.Scan(len(a.pos[0].AsStr())); err != nil {
		return self, err
	}
	f, err := parseHexFloat(strings.Trim(a.pos[0].AsStr(), asciiSpace))
	return value.Float(f), err
}

// parseHexFloat reads sign, inf or nan, or hexadecimal digits with point and exponent, all but a digit optional.
func parseHexFloat(s string) (float64, error) {
	invalid := valueError("invalid hexadecimal floating-point string")
	sign, body := "", s
	if body != "" && (body[0] == '+' || body[0] == '-') {
		sign, body = body[:1], body[1:]
	}
	switch strings.ToLower(body) {
	case "inf", "infinity", "nan":
		f, _ := strconv.ParseFloat(sign+body, 64) // one of those it knows
		if strings.EqualFold(body, "nan") {
			f = math.NaN()
		}
		return f, nil
	}
	if len(body) > 1 && body[0] == '0' && body[1]|0x20 == 'x' {
		body = body[2:]
	}
	digits, exponent, hasExponent := body, "", false
	if at := strings.IndexAny(body, "pP"); at >= 0 {
		digits, exponent, hasExponent = body[:at], body[at+1:], true
	}
	whole, part, _ := strings.Cut(digits, ".")
	all := whole + part
	if all == "" || strings.IndexFunc(all, func(c rune) bool { return c > 'f' || !isHexByte(byte(c)) }) >= 0 {
		return 0, invalid
	}
	if !hasExponent {
		exponent = "0"
	}
	unsigned := strings.TrimPrefix(strings.TrimPrefix(exponent, "+"), "-")
	if len(exponent)-len(unsigned) > 1 || !allBytes(isDigitByte)(unsigned) {
		return 0, invalid
	}
	f, err := strconv.ParseFloat(sign+"0x"+whole+"."+part+"p"+exponent, 64)
	if err != nil {
		return 0, pyerr.New(pyerr.Overflow, "hexadecimal value too large to represent as a float")
	}
	return f, nil
}
