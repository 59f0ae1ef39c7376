package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// filesizeformat counts in powers of 1,000, or of 1,024 with binary
// prefixes.

var fileSizeSignature = newSignature("do_filesizeformat", 1, "value", "binary")

// fileSizeFilter is filesizeformat(value, binary=False).
func fileSizeFilter(r *run, a *args) (value.Value, error) {
	b, err := fileSizeSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	f, err := floatOf(b[0])
	if err != nil {
		return value.Value{}, err
	}
	base, unit := 1000.0, "B"
	if b[1].Truth() {
		base, unit = 1024, "iB"
	}
	switch {
	case f == 1:
		return value.Str("1 Byte"), nil
	case f < base:
		i, err := value.TruncFloat(f)
		if err != nil {
			return value.Value{}, err
		}
		s, err := value.StrOf(&r.m, i)
		return value.Str(s + " Bytes"), err
	}
	prefixes := "kMGTPEZY"
	if b[1].Truth() {
		prefixes = "KMGTPEZY"
	}
	size := base
	for i := range len(prefixes) {
		size *= base
		if f < size || i == len(prefixes)-1 {
			return value.Str(strconv.FormatFloat(base*f/size, 'f', 1, 64) + " " + prefixes[i:i+1] + unit), nil
		}
	}
	return value.Value{}, nil
}

// quoted is the repr of a string.
func quoted(v value.Value) string {
	if v.IsBytes() {
		return string(value.AppendReprBytes(nil, v.AsStr()))
	}
	s := value.ReprString(v.AsStr())
	if v.IsMarkup() {
		return "Markup(" + s + ")"
	}
	return s
}

// floatOf is Python's float(v).
func floatOf(v value.Value) (float64, error) {
	switch {
	case v.IsUndefined():
		return 0, value.RaiseUndefined(v)
	case v.IsNumber():
		return value.ToFloat(v)
	case v.IsStr(), v.IsBytes():
		if f, ok := value.ParseFloat(v.AsStr()); ok {
			return f, nil
		}
		return 0, valueError("could not convert string to float: " + quoted(v))
	}
	return 0, typeError("float() argument must be a string or a real number, not '%s'", v.TypeName())
}
