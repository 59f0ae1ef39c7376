package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Percent-encoding and attributes of XML, the two filters made for markup.

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
		if err == nil {
			err = r.m.Chars(len(s))
		}
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
			s := "" // bytes are quoted as they are
			if cells[i].IsBytes() {
				s = cells[i].AsStr()
			} else if s, err = value.StrOf(&r.m, cells[i]); err != nil {
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
