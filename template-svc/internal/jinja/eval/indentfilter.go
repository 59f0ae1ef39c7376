package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// indent adds a newline, splits at every Python line end and joins with
// "\n", so that other line ends become newlines.

var indentSignature = newSignature("do_indent", 1, "s", "width", "first", "blank")

// indentFilter is indent(s, width=4, first=False, blank=False): every line
// but the first, and empty lines only if blank; width may be a text. Lines
// end where str.splitlines says.
func indentFilter(r *run, a *args) (value.Value, error) {
	b, err := indentSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	indention := "    "
	if !isMissing(b[1]) {
		if indention, err = indentText(&r.m, b[1]); err != nil {
			return value.Value{}, err
		}
	}
	if !b[0].IsStr() {
		return value.Value{}, errIndent(b[0])
	}
	s := b[0].AsStr() + "\n"
	markup := b[0].IsMarkup()
	if markup && b[1].IsStr() && !b[1].IsMarkup() {
		indention = b[1].AsStr()
	}
	if err := r.m.Product(value.CountLines(s), cellBytes); err != nil {
		return value.Value{}, err
	}
	if err := r.m.Scan(len(s)); err != nil {
		return value.Value{}, err
	}
	lines := value.SplitLines(s, false)
	if err := r.m.Product(len(lines), len(indention)); err != nil {
		return value.Value{}, err
	}
	if err := r.m.Work(wordSteps * len(lines)); err != nil {
		return value.Value{}, err
	}
	var out strings.Builder
	if b[2].Truth() {
		out.WriteString(indention)
	}
	for i, line := range lines {
		if i > 0 {
			out.WriteByte('\n')
			if line != "" || b[3].Truth() {
				out.WriteString(indention)
			}
		}
		out.WriteString(line)
	}
	return r.made(out.String(), value.Str("").WithMarkup(markup))
}

// errIndent is what s += "\n" or s.splitlines() raise for what is no string.
func errIndent(v value.Value) error {
	switch v.Kind() {
	case value.KindUndefined:
		return value.RaiseUndefined(v)
	case value.KindList:
		return pyerr.New(pyerr.Attribute, "'list' object has no attribute 'splitlines'")
	case value.KindBytes:
		return typeError("can't concat str to bytes")
	case value.KindTuple:
		return typeError(`can only concatenate tuple (not "str") to tuple`)
	}
	return typeError("unsupported operand type(s) for +=: '%s' and 'str'", v.TypeName())
}
