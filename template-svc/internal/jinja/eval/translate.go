package eval

import (
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// translate maps code points; its table is a dict, made by hand or by
// maketrans.

// translate is translate(table): a mapping from code points to texts, code
// points or None.
func translate(r *run, self value.Value, a *args) (value.Value, error) {
	if err := a.arity("str", "translate", 1, 1); err != nil {
		return self, err
	}
	p := value.Printer{Meter: &r.m}
	switch a.pos[0].Kind() {
	case value.KindNone, value.KindBool, value.KindInt, value.KindBig, value.KindFloat:
		if self.AsStr() != "" {
			return self, typeError("'%s' object is not subscriptable", a.pos[0].TypeName())
		}
	}
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
	for i, v := range a.pos[1:] {
		if !v.IsStr() {
			return self, typeError("maketrans() argument %d must be str, not %s", i+2, argumentType(v))
		}
	}
	if !a.pos[0].IsStr() {
		return self, typeError("first maketrans argument must be a string if there is a second argument")
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
