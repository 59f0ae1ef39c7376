package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Looking for parts of bytes, which may be named by an int, and cutting there.

// byteSpan cuts s to the bytes between two optional bounds; ok is false if the start lies beyond the end.
func byteSpan(s string, start, end value.Value) (part string, first int, ok bool, err error) {
	i, err := sliceIndex(start, 0, len(s))
	if err != nil {
		return "", 0, false, err
	}
	j, err := sliceIndex(end, len(s), len(s))
	if start.IsInt() && start.Kind() != value.KindBig && start.AsInt() > int64(len(s)) {
		i = len(s) + 1
	}
	j = min(j, len(s))
	if err != nil || i > j {
		return "", i, false, err
	}
	return s[i:j], i, true, nil
}

// bytesAffix is startswith or endswith(affix or tuple, start, end).
func bytesAffix(name string) methodFunc {
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
			return self, affixArity(name, a)
		}
		part, _, ok, err := byteSpan(self.AsStr(), a.at(1), a.at(2))
		if err != nil {
			return self, err
		}
		list := []value.Value{a.pos[0]}
		if a.pos[0].Kind() == value.KindTuple {
			list = a.pos[0].Cells()
		} else if !a.pos[0].IsBytes() {
			return self, typeError("%s first arg must be bytes or a tuple of bytes, not %s", name, a.pos[0].TypeName())
		}
		for _, x := range list {
			affix, err := asBytes(x)
			if err != nil {
				return self, err
			}
			if err := r.m.Step(); err != nil {
				return self, err
			}
			if ok && has(part, affix) {
				return value.True, nil
			}
		}
		return value.False, nil
	}
}

// bytesFind is find, rfind, index, rindex or count(sub or int, start, end).
func bytesFind(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if len(a.kw) > 0 || len(a.pos) < 1 || len(a.pos) > 3 {
			return self, affixArity(name, a)
		}
		part, first, ok, err := byteSpan(self.AsStr(), a.at(1), a.at(2))
		if err != nil {
			return self, err
		}
		sub, err := bytesSub(a.pos[0])
		if err != nil {
			return self, err
		}
		if err := r.m.Scan(len(part)); err != nil {
			return self, err
		}
		if name == "count" {
			if !ok {
				return value.Int(0), nil
			}
			if sub == "" {
				return value.Int(int64(len(part) + 1)), nil
			}
			return value.Int(int64(strings.Count(part, sub))), nil
		}
		i := -1
		if ok && name[0] == 'r' {
			i = strings.LastIndex(part, sub)
		} else if ok {
			i = strings.Index(part, sub)
		}
		switch {
		case i >= 0:
			return value.Int(int64(first + i)), nil
		case strings.HasSuffix(name, "index"):
			return self, pyerr.New(pyerr.Value, "subsection not found")
		}
		return value.Int(-1), nil
	}
}

// bytesSub is what a search looks for.
func bytesSub(v value.Value) (string, error) {
	switch {
	case v.IsBytes():
		return v.AsStr(), nil
	case v.Kind() == value.KindBig || v.IsInt() && uint64(v.AsInt()) > 255:
		return "", valueError("byte must be in range(0, 256)")
	case v.IsInt():
		return string([]byte{byte(v.AsInt())}), nil
	}
	return "", typeError("argument should be integer or bytes-like object, not '%s'", v.TypeName())
}

// bytesSplit is split or rsplit(sep=None, maxsplit=-1).
func bytesSplit(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		b, err := a.named(name, "sep", "maxsplit")
		if err != nil {
			return self, err
		}
		n, err := asInt(b[1], -1)
		if err != nil {
			return self, err
		}
		s, right, limit := self.AsStr(), name == "rsplit", int(max(min(n, int64(len(self.AsStr()))), -1))
		if err := r.m.Product(len(s)+1, cellBytes); err != nil {
			return self, err
		}
		if isMissing(b[0]) || b[0].IsNone() {
			return r.byteList(splitSpaceBytes(s, limit, right))
		}
		sep, err := asBytes(b[0])
		switch {
		case err != nil:
			return self, err
		case sep == "":
			return self, valueError("empty separator")
		case right:
			return r.byteList(value.RSplit(s, sep, limit))
		case limit >= 0:
			limit++
		}
		return r.byteList(strings.SplitN(s, sep, limit))
	}
}

// splitSpaceBytes cuts at runs of ASCII whitespace, at most limit times unless that is negative.
func splitSpaceBytes(s string, limit int, right bool) []string {
	var out []string
	for ; ; limit-- {
		at := 0
		if right {
			s = stripBytes(s, asciiSpace, "rstrip")
			at = strings.LastIndexAny(s, asciiSpace)
		} else {
			s = stripBytes(s, asciiSpace, "lstrip")
			at = strings.IndexAny(s, asciiSpace)
		}
		if s == "" {
			break
		}
		if at < 0 || limit == 0 {
			out = append(out, s)
			break
		}
		if right {
			out, s = append(out, s[at+1:]), s[:at]
		} else {
			out, s = append(out, s[:at]), s[at:]
		}
	}
	if right {
		for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
			out[i], out[j] = out[j], out[i]
		}
	}
	return out
}

// asciiSpace is the whitespace of bytes.
const asciiSpace = " \t\n\v\f\r"

// stripBytes strips the bytes of set.
func stripBytes(s, set, side string) string {
	for side != "rstrip" && s != "" && strings.IndexByte(set, s[0]) >= 0 {
		s = s[1:]
	}
	for side != "lstrip" && s != "" && strings.IndexByte(set, s[len(s)-1]) >= 0 {
		s = s[:len(s)-1]
	}
	return s
}

// bytesStrip is strip, lstrip or rstrip(bytes=None).
func bytesStrip(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("bytes", name, 0, 1); err != nil {
			return self, err
		}
		set, err := asciiSpace, error(nil)
		if len(a.pos) > 0 && !a.pos[0].IsNone() {
			if set, err = asBytes(a.pos[0]); err != nil {
				return self, err
			}
		}
		if err := r.m.Work(len(set) * len(self.AsStr()) / 256); err != nil {
			return self, err
		}
		return value.Bytes(stripBytes(self.AsStr(), set, name)), nil
	}
}

// bytesSplitLines is splitlines(keepends=False): lines end at \n, \r and \r\n alone.
func bytesSplitLines(r *run, self value.Value, a *args) (value.Value, error) {
	b, err := a.named("splitlines", "keepends")
	if err != nil {
		return self, err
	}
	s := self.AsStr()
	keep, err := asInt(b[0], 0)
	if err != nil {
		return self, err
	}
	if err := r.m.Product(len(s)+1, cellBytes); err != nil {
		return self, err
	}
	var out []string
	for s != "" {
		end := strings.IndexAny(s, "\r\n")
		next := end + 1
		switch {
		case end < 0:
			end, next = len(s), len(s)
		case strings.HasPrefix(s[end:], "\r\n"):
			next++
		}
		if keep != 0 {
			end = next
		}
		out = append(out, s[:end])
		s = s[next:]
	}
	return r.byteList(out)
}

// bytesRemove is removeprefix or removesuffix(affix).
func bytesRemove(name string) methodFunc {
	return func(_ *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("bytes", name, 1, 1); err != nil {
			return self, err
		}
		affix, err := asBytes(a.pos[0])
		if err != nil {
			return self, err
		}
		if name == "removeprefix" {
			return value.Bytes(strings.TrimPrefix(self.AsStr(), affix)), nil
		}
		return value.Bytes(strings.TrimSuffix(self.AsStr(), affix)), nil
	}
}

// bytesPartition is partition or rpartition(sep): a tuple of three.
func bytesPartition(name string) methodFunc {
	return func(r *run, self value.Value, a *args) (value.Value, error) {
		if err := a.arity("bytes", name, 1, 1); err != nil {
			return self, err
		}
		sep, err := asBytes(a.pos[0])
		if err == nil && sep == "" {
			err = valueError("empty separator")
		}
		if err != nil {
			return self, err
		}
		s := self.AsStr()
		parts := []string{s, "", ""}
		at := strings.Index(s, sep)
		if name == "rpartition" {
			parts, at = []string{"", "", s}, strings.LastIndex(s, sep)
		}
		if at >= 0 {
			parts = []string{s[:at], sep, s[at+len(sep):]}
		}
		list, err := r.byteList(parts)
		if err != nil {
			return self, err
		}
		return value.Tuple(list.Cells()), r.m.Scan(len(s))
	}
}
