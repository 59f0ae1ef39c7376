package conf

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// target is what a mapping is read into: a struct's fields, or the sections of a file.
type target struct {
	value  reflect.Value // the struct; zero for sections
	fields []field
}

// field is one key.
type field struct {
	key    string
	value  reflect.Value
	inner  bool // a struct with keys of its own
	doc    string
	redact string
}

// part is a struct that has defaults and validation of its own.
type part struct {
	key   string
	value reflect.Value
}

// parts are the structs to finish: the root itself, or each section.
func (t target) parts() []part {
	if t.value.IsValid() {
		return []part{{value: t.value}}
	}
	list := make([]part, len(t.fields))
	for i, f := range t.fields {
		list[i] = part{f.key, f.value}
	}
	return list
}

// structTarget checks what a caller passed; the message is for the programmer.
func structTarget(into any) (target, error) {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return target{}, fmt.Errorf("configuration is read into a pointer to a struct, not %T", into)
	}
	return fieldsOf(v.Elem()), nil
}

// fieldsOf lists a struct's keys; inlined structs count as its own.
func fieldsOf(v reflect.Value) target {
	t := target{value: v}
	for i := range v.NumField() {
		sf := v.Type().Field(i)
		key, opts, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if !sf.IsExported() || key == "-" {
			continue
		}
		if strings.Contains(opts, "inline") {
			t.fields = append(t.fields, fieldsOf(v.Field(i)).fields...)
			continue
		}
		if key == "" {
			key = strings.ToLower(sf.Name)
		}
		t.fields = append(t.fields, field{
			key: key, value: v.Field(i), inner: hasKeys(sf.Type), doc: sf.Tag.Get("doc"), redact: sf.Tag.Get("redact"),
		})
	}
	return t
}

func (t target) find(key string) (field, bool) {
	for _, f := range t.fields {
		if f.key == key {
			return f, true
		}
	}
	return field{}, false
}

// duplicate finds a key that two fields claim, which inlining makes possible.
func (t target) duplicate() (string, bool) {
	seen := map[string]bool{}
	for _, f := range t.fields {
		if seen[f.key] {
			return f.key, true
		}
		seen[f.key] = true
		if f.inner {
			if key, twice := fieldsOf(f.value).duplicate(); twice {
				return join(f.key, key), true
			}
		}
	}
	return "", false
}

func (t target) keys() []string {
	keys := make([]string, len(t.fields))
	for i, f := range t.fields {
		keys[i] = f.key
	}
	return keys
}

// hasKeys tells structs that are read key by key from those that read themselves from text.
func hasKeys(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return false
	}
	p := reflect.PointerTo(t)
	return !p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) &&
		!p.Implements(reflect.TypeFor[yaml.Unmarshaler]())
}

// typeName is what an error and the reference page call a type.
func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration (300ms, 5s, 2h)"
	case t == reflect.TypeFor[Bytes]():
		return "size (64MiB)"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number, not negative"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Slice, reflect.Array:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "mapping to " + typeName(t.Elem())
	case reflect.Struct:
		return "mapping"
	default:
		return "text"
	}
}

// nearest is the name closest to key by edit distance, if it is near enough to be what was meant.
func nearest(key string, names []string) (string, bool) {
	best, bestDistance := "", len(key)/2+1
	for _, n := range names {
		if d := distance(key, n); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best, best != ""
}

// distance is Levenshtein's, over bytes, with one row.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
