package eval

import (
	"unicode"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The methods of str, by name. A name is looked up when the template is
// compiled, so that a call costs no search.

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
