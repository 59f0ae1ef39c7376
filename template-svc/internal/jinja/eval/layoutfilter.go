package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

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
	lines := value.SplitLines(s, false)
	if err := r.m.Product(len(lines), len(indention)); err != nil {
		return value.Value{}, err
	}
	if err := r.m.Work(len(lines)); err != nil {
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
	case value.KindTuple:
		return typeError(`can only concatenate tuple (not "str") to tuple`)
	}
	return typeError("unsupported operand type(s) for +=: '%s' and 'str'", v.TypeName())
}

var truncateSignature = &signature{
	name: "do_truncate", required: 1, hidden: 1,
	params: []string{"s", "length", "killwords", "end", "leeway"},
}

// defaultLeeway is how much longer than length a text may be uncut.
const defaultLeeway = 5

// truncateFilter is truncate(s, length=255, killwords=False, end='...',
// leeway=5): texts up to length + leeway stay whole; lengths count code
// points.
func truncateFilter(r *run, a *args) (value.Value, error) {
	b, err := truncateSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	length, err := asInt(b[1], 255)
	if err != nil {
		return value.Value{}, err
	}
	end := "..."
	if !isMissing(b[3]) {
		if !b[3].IsStr() {
			return value.Value{}, typeError("object of type '%s' has no len()", b[3].TypeName())
		}
		end = b[3].AsStr()
	}
	leeway := int64(defaultLeeway)
	if given(b[4]) {
		if leeway, err = asInt(b[4], defaultLeeway); err != nil {
			return value.Value{}, err
		}
	}
	cut := length - int64(value.RuneCount(end))
	if cut < 0 {
		return value.Value{}, pyerr.Newf("AssertionError", "expected length >= %d, got %d", value.RuneCount(end), length)
	}
	if leeway < 0 {
		return value.Value{}, pyerr.Newf("AssertionError", "expected leeway >= 0, got %d", leeway)
	}
	n, err := b[0].Len()
	if err != nil {
		return value.Value{}, err
	}
	if int64(n) <= length+leeway {
		return b[0], nil
	}
	if !b[0].IsStr() {
		v, err := sliceOf(r, b[0], [3]value.Value{value.None, value.Int(cut), value.None})
		if err == nil {
			err = errNoAttribute(v, "rsplit")
		}
		return value.Value{}, err
	}
	s := b[0].AsStr()
	s = s[:value.Offset(s, int(cut))]
	if !b[2].Truth() {
		if i := strings.LastIndexByte(s, ' '); i >= 0 {
			s = s[:i]
		}
	}
	if b[0].IsMarkup() && !b[3].IsMarkup() {
		end = value.Escape(end)
	}
	return r.made(s+end, b[0])
}

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
	width, err := asInt(b[1], 79)
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
		if b[0].IsUndefined() {
			return value.Value{}, value.RaiseUndefined(b[0])
		}
		return value.Value{}, errNoAttribute(b[0], "splitlines")
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
		if err := r.m.Work(len(line) + 1); err != nil {
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

var xmlAttrSignature = &signature{
	name: "do_xmlattr", required: 1, hidden: 1,
	params: []string{"d", "autospace"},
}

// xmlAttrFilter is xmlattr(d, autospace=True): the entries as attributes,
// None and undefined left out, values escaped.
func xmlAttrFilter(r *run, a *args) (value.Value, error) {
	b, err := xmlAttrSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if b[0].Kind() != value.KindDict {
		if b[0].IsUndefined() {
			return value.Value{}, value.RaiseUndefined(b[0])
		}
		return value.Value{}, errNoAttribute(b[0], "items")
	}
	var parts []string
	for _, e := range b[0].AsDict().Entries() {
		if e.Val.IsNone() || e.Val.IsUndefined() {
			continue
		}
		if !e.Key.IsStr() {
			return value.Value{}, typeError("expected string or bytes-like object, got '%s'", e.Key.TypeName())
		}
		if strings.ContainsAny(e.Key.AsStr(), " \t\n\r\f\v/>=") {
			return value.Value{}, valueError("Invalid character in attribute name: " + value.ReprString(e.Key.AsStr()))
		}
		key, err := escaped(r, e.Key)
		if err != nil {
			return value.Value{}, err
		}
		val, err := escaped(r, e.Val)
		if err != nil {
			return value.Value{}, err
		}
		if err := r.cell(); err != nil {
			return value.Value{}, err
		}
		parts = append(parts, key+`="`+val+`"`)
	}
	s := strings.Join(parts, " ")
	if s != "" && (isMissing(b[1]) || b[1].Truth()) {
		s = " " + s
	}
	return r.made(s, value.Str("").WithMarkup(r.autoescape))
}

// urlQuote percent-encodes what is not unreserved or in safe.
func urlQuote(s, safe string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_.-~", c) >= 0,
			strings.IndexByte(safe, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		}
	}
	return b.String()
}

// urlEncode is urlencode: a text percent-encoded with "/" kept, or pairs
// joined as a query string.
func urlEncode(r *run, v value.Value) (value.Value, error) {
	if v.IsStr() || !v.CanIter() {
		s, err := value.StrOf(&r.m, v)
		if err != nil {
			return v, err
		}
		return r.made(urlQuote(s, "/"), value.Str(""))
	}
	if v.Kind() == value.KindDict {
		v = value.OfObject(&dictView{name: "items", dict: v.AsDict()})
	}
	p := value.Printer{Meter: &r.m}
	first := true
	err := iterate(r, v, func(pair value.Value) error {
		cells, err := unpackCells(pair, 2)
		if err != nil {
			return err
		}
		for i, sep := range []string{"&", "="} {
			s, err := value.StrOf(&r.m, cells[i])
			if err != nil {
				return err
			}
			if first {
				first, sep = false, ""
			}
			if err := p.Write(sep + strings.ReplaceAll(urlQuote(s, ""), "%20", "+")); err != nil {
				return err
			}
		}
		return nil
	})
	return value.StrOfBytes(p.Buf), err
}
