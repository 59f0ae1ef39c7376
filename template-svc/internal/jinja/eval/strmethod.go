package eval

import (
	"strings"
	"unicode"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// strMethods gives a method of str, nil if there is none of that name.
func strMethods(name string) methodFunc {
	switch name {
	case "capitalize":
		return mapped(name, value.Capitalize)
	case "casefold":
		return mapped(name, value.Casefold)
	case "lower":
		return mapped(name, value.Lower)
	case "swapcase":
		return mapped(name, value.SwapCase)
	case "title":
		return mapped(name, value.Title)
	case "upper":
		return mapped(name, value.Upper)
	case "strip", "lstrip", "rstrip":
		return stripMethod(name)
	case "split", "rsplit":
		return splitMethod(name)
	case "splitlines":
		return splitLines
	case "join":
		return strJoin
	case "replace":
		return strReplace
	case "startswith", "endswith":
		return affixMethod(name)
	case "removeprefix", "removesuffix":
		return removeMethod(name)
	case "find", "rfind", "index", "rindex":
		return findMethod(name)
	case "count":
		return strCount
	case "partition", "rpartition":
		return partitionMethod(name)
	case "center", "ljust", "rjust":
		return justMethod(name)
	case "zfill":
		return zfill
	case "expandtabs":
		return expandTabs
	case "format":
		return strFormat
	case "format_map":
		return strFormatMap
	case "translate":
		return translate
	case "maketrans":
		return makeTrans
	}
	return strTests(name)
}

// strTests gives the is… methods of str.
func strTests(name string) methodFunc {
	all := func(pass func(rune) bool) methodFunc {
		return predicate(name, func(s string) bool { return value.AllRunes(s, pass) })
	}
	switch name {
	case "isalnum":
		return all(func(r rune) bool { return unicode.IsLetter(r) || value.IsNumeric(r) })
	case "isalpha":
		return all(unicode.IsLetter)
	case "isdecimal":
		return all(value.IsDecimal)
	case "isdigit":
		return all(value.IsDigit)
	case "isnumeric":
		return all(value.IsNumeric)
	case "isspace":
		return all(value.IsSpace)
	case "isascii":
		return predicate(name, func(s string) bool {
			return s == "" || value.AllRunes(s, func(r rune) bool { return r < 0x80 })
		})
	case "isprintable":
		return predicate(name, func(s string) bool { return s == "" || value.AllRunes(s, unicode.IsPrint) })
	case "isidentifier":
		return predicate(name, value.IsIdentifier)
	case "islower":
		return predicate(name, func(s string) bool { return value.HasCase(s, false) })
	case "isupper":
		return predicate(name, func(s string) bool { return value.HasCase(s, true) })
	case "istitle":
		return predicate(name, value.IsTitleCased)
	}
	return nil
}

// mapped makes a method without arguments of a function on text.
func mapped(name string, f func(string) string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 0, 0); err != nil {
			return self, err
		}
		if err := r.m.Scan(len(self.AsStr())); err != nil {
			return self, err
		}
		return r.made(f(self.AsStr()), self)
	}
}

// predicate makes a method without arguments of a test of a text.
func predicate(name string, f func(string) bool) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 0, 0); err != nil {
			return self, err
		}
		return value.Bool(f(self.AsStr())), r.m.Scan(len(self.AsStr()))
	}
}

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
	if err := r.m.Scan(len(self.AsStr())); err != nil {
		return self, err
	}
	if err := r.m.Product(value.CountLines(self.AsStr()), cellBytes); err != nil {
		return self, err
	}
	return r.texts(value.SplitLines(self.AsStr(), b[0].Truth()), self.IsMarkup())
}

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
			return self, typeError("replace() argument %d must be str, not %s", i+1, v.TypeName())
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

// affixes checks the first argument of startswith and endswith.
func affixes(name string, v value.Value) ([]value.Value, error) {
	if v.IsStr() {
		return []value.Value{v}, nil
	}
	if v.Kind() != value.KindTuple {
		return nil, typeError("%s first arg must be str or a tuple of str, not %s", name, v.TypeName())
	}
	for _, c := range v.Cells() {
		if !c.IsStr() {
			return nil, typeError("tuple for %s must only contain str, not %s", name, c.TypeName())
		}
	}
	return v.Cells(), nil
}

// affixMethod is startswith or endswith(affix or tuple, start, end).
func affixMethod(name string) methodFunc {
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if len(a.pos) == 1 && len(a.kw) == 0 && a.pos[0].IsStr() {
			return value.Bool(has(self.AsStr(), a.pos[0].AsStr())), nil
		}
		if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
			return self, affixArity(name, a)
		}
		list, err := affixes(name, a.pos[0])
		if err != nil {
			return self, err
		}
		part, _, ok, err := span(r, self.AsStr(), a.at(1), a.at(2))
		if !ok || err != nil {
			return value.False, err
		}
		for _, x := range list {
			if err := r.m.Step(); err != nil {
				return self, err
			}
			if has(part, x.AsStr()) {
				return value.True, nil
			}
		}
		return value.False, nil
	}
}

// affixArity is the error of the wrong number of arguments.
func affixArity(name string, a *args) error {
	switch {
	case len(a.kw) > 0:
		return typeError("str.%s() takes no keyword arguments", name)
	case len(a.pos) < 1:
		return typeError("%s() takes at least 1 argument (%d given)", name, len(a.pos))
	}
	return typeError("%s() takes at most 3 arguments (%d given)", name, len(a.pos))
}

// removeMethod is removeprefix or removesuffix(affix).
func removeMethod(name string) methodFunc {
	return func(_ *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("str", name, 1, 1); err != nil {
			return self, err
		}
		if !a.pos[0].IsStr() {
			return self, typeError("%s() argument must be str, not %s", name, a.pos[0].TypeName())
		}
		s := self.AsStr()
		if name == "removeprefix" {
			s = strings.TrimPrefix(s, a.pos[0].AsStr())
		} else {
			s = strings.TrimSuffix(s, a.pos[0].AsStr())
		}
		return value.Str(s).WithMarkup(self.IsMarkup()), nil
	}
}

// findMethod is find, rfind, index or rindex(sub, start, end), in code
// points.
func findMethod(name string) methodFunc {
	find := strings.Index
	if name[0] == 'r' {
		find = strings.LastIndex
	}
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
			return self, affixArity(name, a)
		}
		if !a.pos[0].IsStr() {
			return self, typeError("must be str, not %s", a.pos[0].TypeName())
		}
		part, first, ok, err := span(r, self.AsStr(), a.at(1), a.at(2))
		if err != nil {
			return self, err
		}
		i := -1
		if ok {
			i = find(part, a.pos[0].AsStr())
		}
		if i < 0 {
			if strings.HasSuffix(name, "index") {
				return self, pyerr.New(pyerr.Value, "substring not found")
			}
			return value.Int(-1), nil
		}
		return value.Int(int64(first + value.RuneCount(part[:i]))), r.m.Scan(len(part))
	}
}

// strCount is count(sub, start, end), without overlaps.
func strCount(r *run, self value.Value, a *args) (value.Value, error) {
	if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
		return self, affixArity("count", a)
	}
	if !a.pos[0].IsStr() {
		return self, typeError("must be str, not %s", a.pos[0].TypeName())
	}
	part, _, ok, err := span(r, self.AsStr(), a.at(1), a.at(2))
	if !ok || err != nil {
		return value.Int(0), err
	}
	return value.Int(int64(strings.Count(part, a.pos[0].AsStr()))), r.m.Scan(len(part))
}
