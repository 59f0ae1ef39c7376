package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Joining and replacing are charged for their results before they are made.

// strJoin is join(iterable): TypeError for members that are no strings;
// Markup escapes instead.
func strJoin(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("str", "join", 1, 1); err != nil {
		return self, err
	}
	if !a.pos[0].CanIter() && !self.IsMarkup() {
		return self, typeError("can only join an iterable")
	}
	it, err := a.pos[0].Iter()
	if err != nil {
		return self, err
	}
	p := value.Printer{Meter: &r.m}
	n := 0
	err = r.each(it, func(v value.Value) error {
		if !v.IsStr() && !self.IsMarkup() {
			return typeError("sequence item %d: expected str instance, %s found", n, v.TypeName())
		}
		if n++; n > 1 {
			if err := p.Write(self.AsStr()); err != nil {
				return err
			}
		}
		if self.IsMarkup() {
			s, err := escaped(r, v)
			if err != nil {
				return err
			}
			return p.Write(s)
		}
		return p.Write(v.AsStr())
	})
	return value.StrOfBytes(p.Buf).WithMarkup(self.IsMarkup()), err
}

// escaped is markupsafe.escape(v) as a Go string.
func escaped(r *run, v value.Value) (string, error) {
	s, err := value.StrOf(&r.m, v)
	if err != nil || v.IsMarkup() {
		return s, err
	}
	if err := r.m.Scan(len(s)); err != nil {
		return "", err
	}
	s = value.Escape(s)
	return s, r.m.Bytes(len(s))
}

// strReplace is replace(old, new, count=-1).
func strReplace(r *run, self value.Value, a *args) (value.Value, error) {
	if len(a.kw) > 0 || len(a.pos) < 2 || len(a.pos) > 3 {
		if err := a.arity("str", "replace", 2, 3); err != nil {
			return self, err
		}
	}
	for i, v := range a.pos[:2] {
		if !v.IsStr() && (i == 0 || !self.IsMarkup()) {
			return self, typeError("replace() argument %d must be str, not %s", i+1, argumentType(v))
		}
	}
	n, err := asInt(a.at(2), -1)
	if err != nil {
		return self, err
	}
	next := a.pos[1].AsStr()
	if self.IsMarkup() {
		if next, err = escaped(r, a.pos[1]); err != nil {
			return self, err
		}
	}
	s, err := replaceText(r, self.AsStr(), a.pos[0].AsStr(), next, n)
	return value.Str(s).WithMarkup(self.IsMarkup()), err
}

// replaceText is str.replace, charged for its result before it is made.
func replaceText(r *run, s, old, next string, limit int64) (string, error) {
	if err := r.m.Scan(len(s)); err != nil {
		return "", err
	}
	n := int64(strings.Count(s, old))
	if limit >= 0 {
		n = min(n, limit)
	}
	if err := r.m.Product(int(n), len(next)); err != nil {
		return "", err
	}
	if err := r.m.Bytes(len(s)); err != nil {
		return "", err
	}
	return strings.Replace(s, old, next, int(n)), nil
}
