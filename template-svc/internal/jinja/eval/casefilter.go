package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The filters that change letters or edges of a text take any value and
// work on its text; Markup stays Markup.

// caseFilter makes a filter of a case mapping; Markup stays Markup.
func caseFilter(name string, f func(string) string) nativeFunc {
	sig := newSignature("do_"+name, 1, "s")
	return func(r *run, a *args) (value.Value, error) {
		b, err := sig.bind(a)
		if err != nil {
			return value.Value{}, err
		}
		v, err := softStr(r, b[0])
		if err != nil {
			return v, err
		}
		if err := r.m.Chars(len(v.AsStr())); err != nil {
			return v, err
		}
		return r.made(f(v.AsStr()), v)
	}
}

var titleSignature = newSignature("do_title", 1, "s")

// titleFilter capitalises what follows whitespace and -({[<, and lowers the rest.
func titleFilter(r *run, a *args) (value.Value, error) {
	b, err := titleSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	s, err := value.StrOf(&r.m, b[0])
	if err != nil {
		return value.Value{}, err
	}
	if err := r.m.Chars(len(s)); err != nil {
		return value.Value{}, err
	}
	var out strings.Builder
	isBreak := func(c rune) bool { return value.IsSpace(c) || strings.ContainsRune("-({[<", c) }
	for s != "" {
		end := strings.IndexFunc(s, isBreak)
		if end < 0 {
			end = len(s)
		}
		if word := s[:end]; word != "" {
			n := value.Offset(word, 1)
			out.WriteString(value.Upper(word[:n]))
			out.WriteString(value.Lower(word[n:]))
		}
		s = s[end:]
		end = strings.IndexFunc(s, func(c rune) bool { return !isBreak(c) })
		if end < 0 {
			end = len(s)
		}
		out.WriteString(s[:end])
		s = s[end:]
	}
	return r.made(out.String(), value.Str(""))
}

var trimSignature = newSignature("do_trim", 1, "value", "chars")

// trimFilter is trim(value, chars=None).
func trimFilter(r *run, a *args) (value.Value, error) {
	b, err := trimSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	v, err := softStr(r, b[0])
	if err != nil {
		return v, err
	}
	return strip(r, v, b[1], "strip")
}

var centerSignature = newSignature("do_center", 1, "value", "width")

// centerFilter is center(value, width=80).
func centerFilter(r *run, a *args) (value.Value, error) {
	b, err := centerSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	v, err := softStr(r, b[0])
	if err != nil {
		return v, err
	}
	width, err := asInt(b[1], 80)
	if err != nil {
		return v, err
	}
	s, err := justified(r, v.AsStr(), " ", width, "center")
	return value.Str(s).WithMarkup(v.IsMarkup()), err
}

// wordCount counts runs of word characters.
func wordCount(r *run, v value.Value) (value.Value, error) {
	s, err := value.StrOf(&r.m, v)
	if err != nil {
		return v, err
	}
	if err := r.m.Chars(len(s)); err != nil {
		return v, err
	}
	n := int64(0)
	in := false
	for _, c := range s {
		word := value.IsWord(c)
		if word && !in {
			n++
		}
		in = word
	}
	return value.Int(n), nil
}
