package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

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
		if err := r.m.Scan(len(v.AsStr())); err != nil {
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
	text := out.String()
	if err := r.m.Scan(len(text)); err != nil {
		return value.Value{}, err
	}
	return r.made(text, value.Str(""))
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

// wordCount counts runs of word characters.
func wordCount(r *run, v value.Value) (value.Value, error) {
	s, err := value.StrOf(&r.m, v)
	if err != nil {
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
	return value.Int(n), r.m.Scan(len(s))
}

var replaceSignature = newSignature("do_replace", 3, "s", "old", "new", "count")

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

var joinSignature = newSignature("sync_do_join", 1, "value", "d", "attribute")

// joinFilter is join(value, d=”, attribute=None).
func joinFilter(r *run, a *args) (value.Value, error) {
	b, err := joinSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if isMissing(b[1]) {
		b[1] = value.Str("")
	}
	path := newAttrPath(b[2])
	it, err := b[0].Iter()
	if err != nil {
		return value.Value{}, err
	}
	if r.autoescape {
		return joinEscaped(r, it, b[1], &path)
	}
	d, err := value.StrOf(&r.m, b[1])
	if err != nil {
		return value.Value{}, err
	}
	p := value.Printer{Meter: &r.m}
	first := true
	err = r.each(it, func(v value.Value) error {
		v, err := path.get(r, v)
		if err != nil {
			return err
		}
		if !first {
			if err := p.Write(d); err != nil {
				return err
			}
		}
		first = false
		return appendStr(&p, v)
	})
	return value.StrOfBytes(p.Buf), err
}

// appendStr appends str(v), which may run template code, to what p holds.
func appendStr(p *value.Printer, v value.Value) error {
	if v.IsStr() {
		return p.Write(v.AsStr())
	}
	return p.Str(v)
}

// joinEscaped is join within an autoescape block: Markup if any part is.
func joinEscaped(r *run, it value.Iterator, sep value.Value, path *attrPath) (value.Value, error) {
	var parts []value.Value
	markup := sep.IsMarkup()
	err := r.each(it, func(v value.Value) error {
		v, err := path.get(r, v)
		if err != nil {
			return err
		}
		markup = markup || v.IsMarkup()
		parts = append(parts, v)
		return r.m.Bytes(cellBytes)
	})
	if err != nil {
		return value.Value{}, err
	}
	text := func(v value.Value) (string, error) {
		if markup {
			return escaped(r, v)
		}
		return value.StrOf(&r.m, v)
	}
	p := value.Printer{Meter: &r.m}
	d, err := text(sep)
	if err != nil {
		return value.Value{}, err
	}
	for i, v := range parts {
		s, err := text(v)
		if err == nil && i > 0 {
			err = p.Write(d)
		}
		if err == nil {
			err = p.Write(s)
		}
		if err != nil {
			return value.Value{}, err
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(markup), nil
}

var tojsonSignature = newSignature("_compile_jinja_template.<locals>.tojson", 1,
	"x", "ensure_ascii", "indent", "separators", "sort_keys")

// dumpJSON is the environment's tojson.
func dumpJSON(p *value.Printer, a *args) error {
	style := value.DefaultJSONStyle()
	if len(a.pos) == 1 && len(a.kw) == 0 {
		return p.JSON(a.pos[0], &style)
	}
	b, err := tojsonSignature.bind(a)
	if err != nil {
		return err
	}
	style.ASCII = b[1].Truth()
	style.SortKeys = b[4].Truth()
	if given(b[2]) {
		style.Indented = true
		style.ItemSep = ","
		if style.Indent, err = indentText(p.Meter, b[2]); err != nil {
			return err
		}
	}
	if given(b[3]) {
		cells, err := separators(b[3])
		if err != nil {
			return err
		}
		style.ItemSep, style.KeySep = cells[0].Text(), cells[1].Text()
	}
	return p.JSON(b[0], &style)
}

// separators unpacks (item, key).
func separators(v value.Value) ([]value.Value, error) {
	cells, err := unpackCells(v, 2)
	if err != nil {
		return nil, err
	}
	for i, c := range cells {
		if !c.IsStr() {
			return nil, typeError("make_encoder() argument %d must be str, not %s", 6-i, c.TypeName())
		}
	}
	return cells, nil
}

// indentText is one level of indentation: a text or a number of blanks.
func indentText(m *limit.Meter, v value.Value) (string, error) {
	if v.IsStr() {
		return v.AsStr(), m.Pad(int64(len(v.AsStr())))
	}
	n, err := asInt(v, 0)
	if err != nil {
		return "", typeError("can't multiply sequence by non-int of type '%s'", v.TypeName())
	}
	if err := m.Pad(n); err != nil {
		return "", err
	}
	return strings.Repeat(" ", int(max(n, 0))), nil
}
