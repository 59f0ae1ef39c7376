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
	// capitalize()
	case "capitalize":
		return mapped(name, value.Capitalize)
	// casefold()
	case "casefold":
		return mapped(name, value.Casefold)
	// lower()
	case "lower":
		return mapped(name, value.Lower)
	// swapcase()
	case "swapcase":
		return mapped(name, value.SwapCase)
	// title(): words start after any non-letter
	case "title":
		return mapped(name, value.Title)
	// upper()
	case "upper":
		return mapped(name, value.Upper)
	// strip(chars=None)
	case "strip", "lstrip", "rstrip":
		return stripMethod(name)
	// split(sep=None, maxsplit=-1)
	case "split", "rsplit":
		return splitMethod(name)
	// splitlines(keepends=False)
	case "splitlines":
		return splitLines
	// join(iterable)
	case "join":
		return strJoin
	// replace(old, new, count=-1)
	case "replace":
		return strReplace
	// startswith(prefix or tuple, start, end)
	case "startswith", "endswith":
		return affixMethod(name)
	// removeprefix(prefix)
	case "removeprefix", "removesuffix":
		return removeMethod(name)
	// find(sub, start, end): index raises ValueError instead of giving -1
	case "find", "rfind", "index", "rindex":
		return findMethod(name)
	// count(sub, start, end)
	case "count":
		return strCount
	// partition(sep)
	case "partition", "rpartition":
		return partitionMethod(name)
	// center(width, fillchar=' ')
	case "center", "ljust", "rjust":
		return justMethod(name)
	// zfill(width)
	case "zfill":
		return zfill
	// expandtabs(tabsize=8)
	case "expandtabs":
		return expandTabs
	// format(*args, **kwargs)
	case "format":
		return strFormat
	// format_map(mapping)
	case "format_map":
		return strFormatMap
	// translate(table)
	case "translate":
		return translate
	// encode(encoding='utf-8', errors='strict')
	case "encode":
		return strEncode
	// maketrans(x, y, z)
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
	// isalnum()
	case "isalnum":
		return all(func(r rune) bool { return unicode.IsLetter(r) || value.IsNumeric(r) })
	// isalpha()
	case "isalpha":
		return all(unicode.IsLetter)
	// isdecimal()
	case "isdecimal":
		return all(value.IsDecimal)
	// isdigit()
	case "isdigit":
		return all(value.IsDigit)
	// isnumeric()
	case "isnumeric":
		return all(value.IsNumeric)
	// isspace()
	case "isspace":
		return all(value.IsSpace)
	// isascii(): true of the empty text
	case "isascii":
		return predicate(name, func(s string) bool {
			return s == "" || value.AllRunes(s, func(r rune) bool { return r < 0x80 })
		})
	// isprintable(): true of the empty text
	case "isprintable":
		return predicate(name, func(s string) bool { return s == "" || value.AllRunes(s, unicode.IsPrint) })
	// isidentifier()
	case "isidentifier":
		return predicate(name, value.IsIdentifier)
	// islower()
	case "islower":
		return predicate(name, func(s string) bool { return value.HasCase(s, false) })
	// isupper()
	case "isupper":
		return predicate(name, func(s string) bool { return value.HasCase(s, true) })
	// istitle()
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
		if err := r.m.Chars(len(self.AsStr())); err != nil {
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
		if err := r.m.Chars(len(self.AsStr())); err != nil {
			return self, err
		}
		return value.Bool(f(self.AsStr())), nil
	}
}
