package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Methods that lay out text count code points and bound their padding.

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
	s = padded(s, fill, n, width, how)
	return s, r.m.Bytes(len(s))
}

// padded puts n fills around s; of an odd number center puts the one more where CPython does.
func padded(s, fill string, n, width int64, how string) string {
	left := n
	switch how {
	case "ljust":
		left = 0
	case "center":
		left = n/2 + n&width&1
	}
	return strings.Repeat(fill, int(left)) + s + strings.Repeat(fill, int(n-left))
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
