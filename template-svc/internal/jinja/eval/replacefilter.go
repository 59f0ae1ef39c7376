package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// replace and format are Python's str.replace and % on texts of any values.

var replaceSignature = &signature{
	name: "do_replace", required: 3, hidden: 1, params: []string{"s", "old", "new", "count"},
}

// replaceFilter is replace(s, old, new, count=None). Its operands are texts
// of any values; outside an autoescape block the result is a plain string.
func replaceFilter(r *run, a *args) (value.Value, error) {
	b, err := replaceSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	n := int64(-1)
	var text [3]string
	for i := range text {
		if text[i], err = value.StrOf(&r.m, b[i]); err != nil {
			return value.Value{}, err
		}
	}
	if given(b[3]) {
		if n, err = asInt(b[3], -1); err != nil {
			return value.Value{}, err
		}
	}
	markup := false
	if r.autoescape {
		markup = b[0].IsMarkup()
		if b[1].IsMarkup() || b[2].IsMarkup() && !markup {
			if !markup {
				text[0] = value.Escape(text[0])
			}
			markup = true
		}
		if markup && !b[2].IsMarkup() {
			text[2] = value.Escape(text[2])
		}
	}
	s, err := replaceText(r, text[0], text[1], text[2], n)
	return value.Str(s).WithMarkup(markup), err
}

var formatSignature = newSignature("do_format", 1, "value")

// formatFilter is format(value, *args, **kwargs): the operator %.
func formatFilter(r *run, a *args) (value.Value, error) {
	if len(a.pos) == 0 {
		_, err := formatSignature.bind(a)
		return value.Value{}, err
	}
	if len(a.pos) > 1 && len(a.kw) > 0 {
		return value.Value{}, pyerr.New(pyerr.FilterArgument,
			"can't handle positional and keyword arguments at the same time")
	}
	v, err := softStr(r, a.pos[0])
	if err != nil {
		return v, err
	}
	if len(a.kw) == 0 {
		return value.Printf(&r.m, v, value.Tuple(a.keep().pos[1:]))
	}
	d := value.NewDict(len(a.kw))
	for _, k := range a.kw {
		d.SetStr(k.name, k.value)
	}
	return value.Printf(&r.m, v, value.OfDict(d))
}
