package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Text filters work on str(value): none|trim is the text "None".

// textFilterOf gives the filters that make text.
func textFilterOf(name string) nativeFunc {
	switch name {
	case "capitalize":
		return caseFilter(name, value.Capitalize)
	case "lower":
		return caseFilter(name, value.Lower)
	case "upper":
		return caseFilter(name, value.Upper)
	case "title":
		return titleFilter
	case "trim":
		return trimFilter
	case "center":
		return centerFilter
	case "string":
		return soft("soft_str", func(r *run, v value.Value) (value.Value, error) { return softStr(r, v) })
	case "safe":
		return soft("do_mark_safe", toMarkup)
	case "e", "escape":
		return soft("escape", escapeValue)
	case "forceescape":
		return soft("do_forceescape", forceEscape)
	case "striptags":
		return soft("do_striptags", func(r *run, v value.Value) (value.Value, error) {
			s, err := value.StrOf(&r.m, v)
			return value.Str(stripTags(s)), err
		})
	case "wordcount":
		return soft("do_wordcount", wordCount)
	case "pprint":
		return soft("do_pprint", prettyPrint)
	case "replace":
		return replaceFilter
	case "indent":
		return indentFilter
	case "truncate":
		return truncateFilter
	case "wordwrap":
		return wordWrapFilter
	case "format":
		return formatFilter
	case "join":
		return joinFilter
	case "tojson":
		return func(r *run, a *args) (value.Value, error) {
			p := value.Printer{Meter: &r.m}
			err := dumpJSON(&p, a)
			return value.StrOfBytes(p.Buf), err
		}
	case "urlencode":
		return soft("do_urlencode", urlEncode)
	case "urlize":
		return urlizeFilter
	case "xmlattr":
		return xmlAttrFilter
	case "filesizeformat":
		return fileSizeFilter
	}
	return nil
}

// soft makes a filter of a function of the value alone.
func soft(name string, f func(r *run, v value.Value) (value.Value, error)) nativeFunc {
	sig := newSignature(name, 1, map[string]string{"soft_str": "s", "escape": "s", "do_wordcount": "s"}[name])
	if sig.params[0] == "" {
		sig.params[0] = "value"
	}
	return func(r *run, a *args) (value.Value, error) {
		if len(a.pos) != 1 || len(a.kw) > 0 {
			if _, err := sig.bind(a); err != nil {
				return value.Value{}, err
			}
		}
		return f(r, a.pos[0])
	}
}

// softStr is markupsafe's soft_str: strings stay what they are.
func softStr(r *run, v value.Value) (value.Value, error) {
	if v.IsStr() {
		return v, nil
	}
	s, err := value.StrOf(&r.m, v)
	return value.Str(s), err
}

// escapeValue is escape: Markup stays as it is.
func escapeValue(r *run, v value.Value) (value.Value, error) {
	s, err := escaped(r, v)
	return value.Markup(s), err
}

// forceEscape escapes Markup too.
func forceEscape(r *run, v value.Value) (value.Value, error) {
	s, err := value.StrOf(&r.m, v)
	if err != nil {
		return v, err
	}
	return r.made(value.Escape(s), value.Markup(""))
}
