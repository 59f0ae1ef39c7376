package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Text filters work on str(value): none|trim is the text "None".

// textFilterOf gives the filters that make text.
func textFilterOf(name string) nativeFunc {
	switch name {
	// capitalize(s): upper first letter, the rest lower
	case "capitalize":
		return caseFilter(name, value.Capitalize)
	// lower(s)
	case "lower":
		return caseFilter(name, value.Lower)
	// upper(s)
	case "upper":
		return caseFilter(name, value.Upper)
	// title(s): words start at whitespace and -({[<
	case "title":
		return titleFilter
	// trim(value, chars=None)
	case "trim":
		return trimFilter
	// center(value, width=80)
	case "center":
		return centerFilter
	// string(value): Markup stays Markup
	case "string":
		return soft("soft_str", func(r *run, v value.Value) (value.Value, error) { return softStr(r, v) })
	// safe(value): the text as Markup
	case "safe":
		return soft("do_mark_safe", toMarkup)
	case "e", "escape":
		return soft("escape", escapeValue)
	// forceescape(value)
	case "forceescape":
		return soft("do_forceescape", forceEscape)
	// striptags(value)
	case "striptags":
		return soft("do_striptags", func(r *run, v value.Value) (value.Value, error) {
			s, err := value.StrOf(&r.m, v)
			if err == nil {
				err = r.m.Chars(len(s))
			}
			if err != nil {
				return v, err
			}
			return r.made(stripTags(s), value.Str(""))
		})
	// wordcount(s)
	case "wordcount":
		return soft("do_wordcount", wordCount)
	// pprint(value)
	case "pprint":
		return soft("do_pprint", prettyPrint)
	// replace(s, old, new, count=None)
	case "replace":
		return replaceFilter
	// indent(s, width=4, first=False, blank=False)
	case "indent":
		return indentFilter
	// truncate(s, length=255, killwords=False, end='...', leeway=5)
	case "truncate":
		return truncateFilter
	// wordwrap(s, width=79, break_long_words=True, wrapstring=None, break_on_hyphens=True)
	case "wordwrap":
		return wordWrapFilter
	// format(value, *args, **kwargs)
	case "format":
		return formatFilter
	// join(value, d='', attribute=None)
	case "join":
		return joinFilter
	// tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
	case "tojson":
		return func(r *run, a *args) (value.Value, error) {
			p := value.Printer{Meter: &r.m}
			err := dumpJSON(&p, a)
			return value.StrOfBytes(p.Buf), err
		}
	}
	return webFilterOf(name)
}

// webFilterOf gives the filters made for markup and addresses.
func webFilterOf(name string) nativeFunc {
	switch name {
	// urlencode(value)
	case "urlencode":
		return soft("do_urlencode", urlEncode)
	// urlize(value, trim_url_limit=None, nofollow=False, target=None, rel=None, extra_schemes=None)
	case "urlize":
		return urlizeFilter
	// xmlattr(d, autospace=True)
	case "xmlattr":
		return xmlAttrFilter
	// filesizeformat(value, binary=False)
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
	if err := r.m.Scan(len(s)); err != nil {
		return v, err
	}
	return r.made(value.Escape(s), value.Markup(""))
}
