package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// wordwrap works line by line with the algorithm of Python's textwrap.

var wordWrapSignature = &signature{
	name: "do_wordwrap", required: 1, hidden: 1,
	params: []string{"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"},
}

// wordWrapFilter is wordwrap(s, width=79, break_long_words=True,
// wrapstring=None, break_on_hyphens=True): each line is wrapped by itself.
func wordWrapFilter(r *run, a *args) (value.Value, error) {
	b, err := wordWrapSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	sep := "\n"
	if given(b[3]) {
		if !b[3].IsStr() {
			return value.Value{}, pyerr.Newf(pyerr.Attribute, "'%s' object has no attribute 'join'", b[3].TypeName())
		}
		sep = b[3].AsStr()
	}
	if !b[0].IsStr() {
		if b[0].IsBytes() && b[0].Truth() {
			return value.Value{}, typeError("cannot use a string pattern on a bytes-like object")
		}
		if b[0].IsBytes() {
			return value.Str(""), nil
		}
		if b[0].IsUndefined() {
			return value.Value{}, value.RaiseUndefined(b[0])
		}
		return value.Value{}, errNoAttribute(b[0], "splitlines")
	}
	width, err := asInt(b[1], 79)
	if err != nil {
		if b[0].AsStr() == "" {
			return value.Str(""), nil
		}
		if !b[1].IsNumber() {
			_, err = value.Compare(&r.m, value.LessEqual, b[1], value.Int(0))
		}
		if !pyerr.Is(err, pyerr.Overflow) {
			return value.Value{}, err
		}
		width = 1 << 30 // as good as endless
	}
	w := wrapper{
		width: int(min(width, 1<<30)), breakLong: isMissing(b[2]) || b[2].Truth(),
		hyphens: isMissing(b[4]) || b[4].Truth(),
	}
	if err := r.m.Product(value.CountLines(b[0].AsStr()), cellBytes); err != nil {
		return value.Value{}, err
	}
	p := value.Printer{Meter: &r.m}
	for i, line := range value.SplitLines(b[0].AsStr(), false) {
		if err := r.m.Work(wordSteps*len(line) + 1); err != nil {
			return value.Value{}, err
		}
		if width <= 0 && line != "" {
			return value.Value{}, pyerr.Newf(pyerr.Value, "invalid width %d (must be > 0)", width)
		}
		if i > 0 {
			if err := p.Write(sep); err != nil {
				return value.Value{}, err
			}
		}
		for j, part := range w.wrap(line) {
			if j > 0 {
				if err := p.Write(sep); err != nil {
					return value.Value{}, err
				}
			}
			if err := p.Write(part); err != nil {
				return value.Value{}, err
			}
		}
	}
	return value.StrOfBytes(p.Buf), nil
}
