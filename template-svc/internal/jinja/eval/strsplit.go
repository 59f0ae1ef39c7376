package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Splitting charges its parts before it makes them: a text of separators
// has as many parts as bytes.

// stripText strips the characters of set, whitespace if set is not given.
func stripText(s, set, side string, given bool) string {
	left, right := side != "rstrip", side != "lstrip"
	if !given {
		if left {
			s = value.LStrip(s)
		}
		if right {
			s = value.RStrip(s)
		}
		return s
	}
	if left {
		s = strings.TrimLeft(s, set)
	}
	if right {
		s = strings.TrimRight(s, set)
	}
	return s
}

// stripMethod is strip, lstrip or rstrip(chars=None).
func stripMethod(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 0, 1); err != nil {
			return self, err
		}
		return strip(r, self, a.at(0), name)
	}
}

// strip strips a set of characters, whitespace if chars is None or not
// given.
func strip(r *run, self, chars value.Value, name string) (value.Value, error) {
	given := !chars.IsNone() && !isMissing(chars)
	if given && !chars.IsStr() {
		return self, typeError("%s arg must be None or str", name)
	}
	set := ""
	if given {
		set = chars.AsStr()
		if err := r.m.Work(len(set) * len(self.AsStr()) / 256); err != nil {
			return self, err
		}
	}
	s := stripText(self.AsStr(), set, name, given)
	return value.Str(s).WithMarkup(self.IsMarkup()), r.m.Scan(len(self.AsStr()))
}

// splitMethod is split or rsplit(sep=None, maxsplit=-1).
func splitMethod(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		sep, limit := value.None, value.Value{}
		if len(a.kw) == 0 && len(a.pos) == 1 {
			sep = a.pos[0]
		} else if len(a.pos)+len(a.kw) > 0 {
			b, err := a.named(name, "sep", "maxsplit")
			if err != nil {
				return self, err
			}
			if sep, limit = b[0], b[1]; isMissing(sep) {
				sep = value.None
			}
		}
		n, err := asInt(limit, -1)
		if err != nil {
			return self, err
		}
		return split(r, self, sep, int(n), name == "rsplit")
	}
}

// split cuts at sep, or at runs of whitespace without leading and trailing
// empty parts; ValueError for an empty sep.
func split(r *run, self, sep value.Value, limit int, right bool) (value.Value, error) {
	s := self.AsStr()
	if err := r.m.Scan(len(s)); err != nil {
		return self, err
	}
	if sep.IsNone() {
		if err := r.m.Product(value.CountSpaces(s), cellBytes); err != nil {
			return self, err
		}
		if right {
			return r.texts(value.RSplitSpace(s, limit), self.IsMarkup())
		}
		return r.texts(value.SplitSpace(s, limit), self.IsMarkup())
	}
	if !sep.IsStr() {
		return self, typeError("must be str or None, not %s", sep.TypeName())
	}
	d := sep.AsStr()
	if d == "" {
		return self, valueError("empty separator")
	}
	if err := r.m.Product(strings.Count(s, d), cellBytes); err != nil {
		return self, err
	}
	if right {
		return r.texts(value.RSplit(s, d, limit), self.IsMarkup())
	}
	if limit >= 0 {
		limit++
	}
	return r.texts(strings.SplitN(s, d, limit), self.IsMarkup())
}

// splitLines is splitlines(keepends=False).
func splitLines(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := a.named("splitlines", "keepends")
	if err != nil {
		return self, err
	}
	keep, err := asInt(b[0], 0)
	if err != nil {
		return self, err
	}
	if err := r.m.Chars(len(self.AsStr())); err != nil {
		return self, err
	}
	if err := r.m.Product(value.CountLines(self.AsStr()), cellBytes); err != nil {
		return self, err
	}
	return r.texts(value.SplitLines(self.AsStr(), keep != 0), self.IsMarkup())
}
