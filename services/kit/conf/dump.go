package conf

import (
	"bytes"
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// hidden stands in dumps for a secret that is set.
const hidden = "(redacted)"

// Dump writes sections as YAML with secrets replaced, for the log at start and the config command.
func Dump(sections ...Section) ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range sections {
		t, err := structTarget(s.Into)
		if err != nil {
			return nil, fmt.Errorf("section %s: %w", s.Key, err)
		}
		root.Content = append(root.Content, textNode(s.Key), dumpStruct(t))
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		return nil, fmt.Errorf("dump configuration: %w", err)
	}
	return out.Bytes(), enc.Close()
}

// dumpStruct keeps the order of the fields, which is the order of the reference page.
func dumpStruct(t target) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, f := range t.fields {
		n.Content = append(n.Content, textNode(f.key), dumpField(f))
	}
	return n
}

// dumpField hides secrets before it looks at anything else, so that a secret list shows not even its length.
func dumpField(f field) *yaml.Node {
	v := f.value
	switch {
	case f.redact == "true" && !v.IsZero():
		return textNode(hidden)
	case f.inner:
		return dumpStruct(fieldsOf(v))
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return dumpField(elementField(f, v.Elem()))
	case v.Kind() == reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, dumpField(elementField(f, v.Index(i))))
		}
		return n
	case v.Kind() == reflect.Map:
		return dumpMap(f)
	}
	return dumpLeaf(f)
}

// dumpMap sorts: two dumps of one configuration are equal.
func dumpMap(f field) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	keys := f.value.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, k := range keys {
		item := reflect.New(f.value.Type().Elem()).Elem() // values in a map cannot be addressed
		item.Set(f.value.MapIndex(k))
		n.Content = append(n.Content, textNode(fmt.Sprint(k)), dumpField(elementField(f, item)))
	}
	return n
}

func dumpLeaf(f field) *yaml.Node {
	v := f.value
	if f.redact == "url" && v.Kind() == reflect.String {
		return textNode(redactURLs(v.String()))
	}
	n := new(yaml.Node)
	if err := n.Encode(plainValue(v)); err != nil {
		return textNode(fmt.Sprint(v))
	}
	return n
}

// plainValue spells values the way they are read: durations and types that marshal themselves as text.
func plainValue(v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String()
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		if text, err := m.MarshalText(); err == nil {
			return string(text)
		}
	}
	return v.Interface()
}

// textNode quotes what YAML would read as another type.
func textNode(s string) *yaml.Node {
	n := new(yaml.Node)
	n.SetString(s)
	return n
}

// redactURLs hides the user part in a list of URLs.
func redactURLs(s string) string {
	list := strings.Split(s, ",")
	for i, one := range list {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			list[i] = hidden
			continue
		}
		if u.User != nil {
			u.User = nil
			list[i] = strings.Replace(u.String(), "//", "//"+hidden+"@", 1)
		}
	}
	return strings.Join(list, ",")
}

// Reference writes the page of all keys: a table per section with type, default, environment variable and meaning.
// Defaults are what SetDefaults leaves in a new value.
func Reference(sections ...Section) (string, error) {
	var out strings.Builder
	for _, s := range sections {
		v := reflect.New(reflect.TypeOf(s.Into).Elem())
		if d, ok := v.Interface().(interface{ SetDefaults() }); ok {
			d.SetDefaults()
		}
		t, err := structTarget(v.Interface())
		if err != nil {
			return "", fmt.Errorf("section %s: %w", s.Key, err)
		}
		fmt.Fprintf(&out, "## %s\n\n| key | type | default | environment | meaning |\n", s.Key)
		out.WriteString("| --- | --- | --- | --- | --- |\n")
		referenceRows(&out, s.Key, t)
		out.WriteString("\n")
	}
	return out.String(), nil
}

// referenceRows flattens inner structs: a row is what --set and the environment can set.
func referenceRows(out *strings.Builder, path string, t target) {
	for _, f := range t.fields {
		at := join(path, f.key)
		if f.inner {
			referenceRows(out, at, fieldsOf(f.value))
			continue
		}
		def := ""
		if !f.value.IsZero() {
			def = "`" + fmt.Sprint(plainValue(f.value)) + "`"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | `%s` | %s |\n", at, typeName(f.value.Type()), def, EnvName(at), f.doc)
	}
}
