package value

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// A field is a name with attributes and items, a conversion and a
// specification.

// cutField splits s, which follows a "{", at the brace that closes it.
func cutField(s string) (field, rest string, err error) {
	if s == "" {
		return "", "", pyerr.New(pyerr.Value, "Single '{' encountered in format string")
	}
	depth, bracket := 1, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '[' && depth == 1:
			bracket = true
		case c == ']':
			bracket = false
		case c == '{' && !bracket:
			depth++
		case c == '}' && !bracket:
			if depth--; depth == 0 {
				return s[:i], s[i+1:], nil
			}
		}
	}
	if name := s[:strings.IndexAny(s+":", ":[")]; len(name) < len(s) && s[len(name)] == ':' {
		return "", "", pyerr.New(pyerr.Value, "unmatched '{' in format spec")
	}
	return "", "", pyerr.New(pyerr.Value, "expected '}' before end of string")
}

// splitField cuts name, conversion and spec; conv is 0 if none is given.
func splitField(field string) (name string, conv rune, spec string, err error) {
	at := strings.IndexAny(field, "!:")
	for open := strings.IndexByte(field, '['); open >= 0 && at > open; {
		end := strings.IndexByte(field[open:], ']')
		if end < 0 {
			break
		}
		next := open + end
		more := strings.IndexAny(field[next:], "!:")
		if more < 0 {
			at = -1
			break
		}
		at = next + more
		more = strings.IndexByte(field[next:], '[')
		if more < 0 {
			break
		}
		open = next + more
	}
	if at < 0 {
		return field, 0, "", nil
	}
	name, spec = field[:at], field[at+1:]
	if field[at] == ':' {
		return name, 0, spec, nil
	}
	conv, n := utf8.DecodeRuneInString(spec)
	if n == 0 {
		return "", 0, "", pyerr.New(pyerr.Value, "end of string while looking for conversion specifier")
	}
	spec = spec[n:]
	if spec != "" && spec[0] != ':' {
		return "", 0, "", pyerr.New(pyerr.Value, "expected ':' after conversion specifier")
	}
	return name, conv, strings.TrimPrefix(spec, ":"), nil
}

// lookup resolves "0.name[key]": the first part is an argument.
func (f *formatter) lookup(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.first(name[:end], name == "")
	for rest := name[end:]; rest != "" && err == nil; {
		if rest[0] == '.' {
			part := rest[1:]
			if end = strings.IndexAny(part, ".["); end < 0 {
				end = len(part)
			}
			if end == 0 {
				return Value{}, pyerr.New(pyerr.Value, "Empty attribute in format string")
			}
			v, err = f.fields.Attr(v, part[:end])
			rest = part[end:]
			continue
		}
		if rest[0] != '[' {
			return Value{}, pyerr.New(pyerr.Value, "Only '.' or '[' may follow ']' in format field specifier")
		}
		if end = strings.IndexByte(rest, ']'); end < 0 {
			return Value{}, pyerr.New(pyerr.Value, "Missing ']' in format string")
		}
		if end == 1 {
			return Value{}, pyerr.New(pyerr.Value, "Empty attribute in format string")
		}
		key := Str(rest[1:end])
		if i, convErr := strconv.Atoi(key.AsStr()); convErr == nil && isDigit(rest[1]) {
			key = Int(int64(i))
		}
		v, err = f.fields.Item(v, key)
		rest = rest[end+1:]
	}
	return v, err
}

// first gives the argument that a field starts from; auto means that the field
// has no name at all.
func (f *formatter) first(name string, auto bool) (Value, error) {
	if auto {
		if f.manual {
			return Value{}, pyerr.New(pyerr.Value,
				"cannot switch from manual field specification to automatic field numbering")
		}
		f.auto++
		return f.fields.Arg(f.auto - 1)
	}
	i, err := strconv.Atoi(name)
	if err != nil || !isDigit(name[0]) {
		return f.fields.Named(name)
	}
	if f.auto > 0 {
		return Value{}, pyerr.New(pyerr.Value,
			"cannot switch from manual field specification to automatic field numbering")
	}
	f.manual = true
	return f.fields.Arg(i)
}
