package eval

import (
	"html"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// partitionMethod is partition or rpartition: a tuple of three.
func partitionMethod(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 1, 1); err != nil {
			return self, err
		}
		if !a.pos[0].IsStr() {
			return self, typeError("must be str, not %s", a.pos[0].TypeName())
		}
		s, sep := self.AsStr(), a.pos[0].AsStr()
		if sep == "" {
			return self, valueError("empty separator")
		}
		parts := [3]string{s, "", ""}
		if name == "partition" {
			if i := strings.Index(s, sep); i >= 0 {
				parts = [3]string{s[:i], sep, s[i+len(sep):]}
			}
		} else {
			parts = [3]string{"", "", s}
			if i := strings.LastIndex(s, sep); i >= 0 {
				parts = [3]string{s[:i], sep, s[i+len(sep):]}
			}
		}
		list, err := r.texts(parts[:], self.IsMarkup())
		if err != nil {
			return self, err
		}
		return value.Tuple(list.Cells()), r.m.Scan(len(s))
	}
}

// justified pads s with fill to width code points, left and right.
func justified(r *run, s, fill string, width int64, how string) (string, error) {
	n := width - int64(value.RuneCount(s))
	if n <= 0 {
		return s, nil
	}
	if err := r.m.Pad(n); err != nil {
		return "", err
	}
	if err := r.m.Product(int(n), len(fill)); err != nil {
		return "", err
	}
	left := n
	switch how {
	case "ljust":
		left = 0
	case "center":
		left = n/2 + n&width&1
	}
	s = strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(n-left))
	return s, r.m.Bytes(len(s))
}

// justMethod is center, ljust or rjust(width, fillchar=' ').
func justMethod(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 1, 2); err != nil {
			return self, err
		}
		width, err := asInt(a.pos[0], 0)
		if err != nil {
			return self, err
		}
		fill := " "
		if len(a.pos) > 1 {
			if !a.pos[1].IsStr() {
				return self, typeError("The fill character must be a unicode character, not %s", a.pos[1].TypeName())
			}
			fill = a.pos[1].AsStr()
			if self.IsMarkup() && !a.pos[1].IsMarkup() {
				fill = value.Escape(fill)
			}
			if value.RuneCount(fill) != 1 {
				return self, typeError("The fill character must be exactly one character long")
			}
		}
		s, err := justified(r, self.AsStr(), fill, width, name)
		return value.Str(s).WithMarkup(self.IsMarkup()), err
	}
}

// zfill is zfill(width): zeros after the sign.
func zfill(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("str", "zfill", 1, 1); err != nil {
		return self, err
	}
	width, err := asInt(a.pos[0], 0)
	if err != nil {
		return self, err
	}
	s, sign := self.AsStr(), ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	s, err = justified(r, s, "0", width-int64(len(sign)), "rjust")
	return value.Str(sign + s).WithMarkup(self.IsMarkup()), err
}

// expandTabs is expandtabs(tabsize=8), columns counted from the last line
// end.
func expandTabs(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := a.named("expandtabs", "tabsize")
	if err != nil {
		return self, err
	}
	size, err := asInt(b[0], 8)
	if err != nil {
		return self, err
	}
	if err := r.m.Pad(size); err != nil {
		return self, err
	}
	var out strings.Builder
	column := int64(0)
	for _, c := range self.AsStr() {
		if err := r.m.Step(); err != nil {
			return self, err
		}
		switch c {
		case '\t':
			if size > 0 {
				n := size - column%size
				if err := r.m.Bytes(int(n)); err != nil {
					return self, err
				}
				out.WriteString(strings.Repeat(" ", int(n)))
				column += n
			}
		case '\n', '\r':
			out.WriteRune(c)
			column = 0
		default:
			out.WriteRune(c)
			column++
		}
	}
	return r.made(out.String(), self)
}

// formatFields resolves the fields of str.format within the sandbox.
type formatFields struct {
	r *run
	a *args
	// mapping holds the names of format_map.
	mapping value.Value
}

// Arg gives a positional argument.
func (f *formatFields) Arg(i int) (value.Value, error) {
	if i >= len(f.a.pos) {
		return value.Value{}, pyerr.New(pyerr.Index, "tuple index out of range")
	}
	return f.a.pos[i], nil
}

// Named gives a keyword argument, or an entry of format_map's mapping.
func (f *formatFields) Named(name string) (value.Value, error) {
	if f.mapping.Kind() == value.KindDict {
		if v, ok := f.mapping.AsDict().GetStr(name); ok {
			return v, nil
		}
	}
	for _, k := range f.a.kw {
		if k.name == name {
			return k.value, nil
		}
	}
	return value.Value{}, pyerr.New(pyerr.Key, value.ReprString(name))
}

// Attr is attribute access of the sandbox.
func (f *formatFields) Attr(v value.Value, name string) (value.Value, error) { return getAttr(v, name) }

// Item is item access of the sandbox.
func (f *formatFields) Item(v, key value.Value) (value.Value, error) { return getItem(f.r, v, key) }

// strFormat is str.format(...) within the sandbox.
func strFormat(r *run, self value.Value, a *args) (value.Value, error) {
	return value.Format(&r.m, self, &formatFields{r: r, a: a})
}

// strFormatMap is str.format_map(mapping) within the sandbox.
func strFormatMap(r *run, self value.Value, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return self, typeError("format_map() takes no keyword arguments")
	}
	if len(a.pos) != 1 {
		return self, typeError("format_map() takes exactly one argument (%d given)", len(a.pos))
	}
	return value.Format(&r.m, self, &formatFields{r: r, a: &args{}, mapping: a.pos[0]})
}

// translate is translate(table): a mapping from code points to texts, code
// points or None.
func translate(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("str", "translate", 1, 1); err != nil {
		return self, err
	}
	p := value.Printer{Meter: &r.m}
	for _, c := range self.AsStr() {
		if err := r.m.Step(); err != nil {
			return self, err
		}
		v, ok, err := subscript(a.pos[0], value.Int(int64(c)))
		switch {
		case err != nil:
			return self, err
		case !ok:
			err = p.Write(string(c))
		case v.IsStr():
			err = p.Write(v.AsStr())
		case v.Kind() == value.KindInt && v.AsInt() >= 0 && v.AsInt() <= utf8.MaxRune:
			err = p.Write(string(rune(v.AsInt())))
		case !v.IsNone():
			err = typeError("character mapping must return integer, None or str")
		}
		if err != nil {
			return self, err
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(self.IsMarkup()), nil
}

// makeTrans is str.maketrans: a dict, or two or three texts.
func makeTrans(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("str", "maketrans", 1, 3); err != nil {
		return self, err
	}
	d := value.NewDict(8)
	if len(a.pos) == 1 {
		if a.pos[0].Kind() != value.KindDict {
			return self, typeError("if you give only one argument to maketrans it must be a dict")
		}
		for _, e := range a.pos[0].AsDict().Entries() {
			key := e.Key
			if key.IsStr() {
				if value.RuneCount(key.AsStr()) != 1 {
					return self, valueError("string keys in translate table must be of length 1")
				}
				c, _ := utf8.DecodeRuneInString(key.AsStr())
				key = value.Int(int64(c))
			}
			if err := d.Set(key, e.Val); err != nil {
				return self, err
			}
		}
		return value.OfDict(d), r.m.Product(d.Len(), 2*cellBytes)
	}
	for i, v := range a.pos {
		if !v.IsStr() {
			return self, typeError("maketrans() argument %d must be str, not %s", i+1, v.TypeName())
		}
	}
	from, to := []rune(a.pos[0].AsStr()), []rune(a.pos[1].AsStr())
	if len(from) != len(to) {
		return self, valueError("the first two maketrans arguments must have equal length")
	}
	for i := range from {
		_ = d.Set(value.Int(int64(from[i])), value.Int(int64(to[i])))
	}
	for _, c := range a.at(2).Text() {
		_ = d.Set(value.Int(int64(c)), value.None)
	}
	return value.OfDict(d), r.m.Product(d.Len(), 2*cellBytes)
}

// markupMethods gives what Markup has beyond str.
func markupMethods(name string) methodFunc {
	switch name {
	case "escape":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			if err := a.arity("Markup", name, 1, 1); err != nil {
				return self, err
			}
			s, err := escaped(r, a.pos[0])
			return value.Markup(s), err
		}
	case "striptags":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			return value.Str(stripTags(self.AsStr())), r.m.Bytes(len(self.AsStr()))
		}
	case "unescape":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			return value.Str(html.UnescapeString(self.AsStr())), r.m.Bytes(len(self.AsStr()))
		}
	}
	return nil
}

// stripTags takes out tags and comments, joins whitespace and resolves
// entities.
func stripTags(s string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '<')
		if open < 0 {
			break
		}
		end, n := strings.IndexByte(s[open:], '>'), 1
		if strings.HasPrefix(s[open:], "<!--") {
			end, n = strings.Index(s[open+4:], "-->"), 4+3
		}
		if end < 0 {
			break
		}
		b.WriteString(s[:open])
		s = s[open+end+n:]
	}
	b.WriteString(s)
	return html.UnescapeString(strings.Join(value.SplitSpace(b.String(), -1), " "))
}
