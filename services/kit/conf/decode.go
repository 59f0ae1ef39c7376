package conf

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode reads a mapping into a target, key by key, so that every fault has its path and none hides another.
func (l *loader) decode(path string, n *yaml.Node, t target) {
	n = resolved(n)
	if n.Tag == "!!null" {
		return
	}
	if n.Kind != yaml.MappingNode {
		l.faults.Add(path, "must be a mapping of keys%s", line(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		at := join(path, key.Value)
		f, known := t.find(key.Value)
		switch {
		case seen[key.Value]:
			l.faults.Add(at, "is written twice%s", line(key))
		case known:
			l.decodeField(at, value, f)
		case path == "" && l.ignore[key.Value]:
		default:
			l.unknown(at, key, t)
		}
		seen[key.Value] = true
	}
}

// unknown reports a key that no field has, with the nearest name at its level.
func (l *loader) unknown(at string, key *yaml.Node, t target) {
	hint := ""
	if name, ok := nearest(key.Value, t.keys()); ok {
		hint = fmt.Sprintf("; did you mean %q?", name)
		parent, _ := strings.CutSuffix(at, key.Value)
		l.meant = append(l.meant, parent+name)
	}
	l.faults.Add(at, "unknown key%s%s", line(key), hint)
}

// decodeField sends a value to where its type is read: structs key by key, lists and mappings element by element, all
// else as a leaf. An explicit null resets what a lower layer set.
func (l *loader) decodeField(at string, n *yaml.Node, f field) {
	n = resolved(n)
	switch {
	case f.inner:
		l.decode(at, n, fieldsOf(f.value))
	case n.Tag == "!!null":
		f.value.SetZero()
	case f.value.Kind() == reflect.Pointer && hasKeys(f.value.Type().Elem()):
		f.value.Set(reflect.New(f.value.Type().Elem()))
		l.decode(at, n, fieldsOf(f.value.Elem()))
	case f.value.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		l.decodeList(at, n, f)
	case f.value.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		l.decodeMap(at, n, f)
	default:
		l.decodeLeaf(at, n, f)
	}
}

// decodeList replaces the list as a whole: layers do not merge lists.
func (l *loader) decodeList(at string, n *yaml.Node, f field) {
	list := reflect.MakeSlice(f.value.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		l.decodeField(fmt.Sprintf("%s[%d]", at, i), item, elementField(f, list.Index(i)))
	}
	f.value.Set(list)
}

// decodeMap replaces the mapping as a whole within one layer; overrides have been merged into the tree before.
func (l *loader) decodeMap(at string, n *yaml.Node, f field) {
	t := f.value.Type()
	m := reflect.MakeMapWithSize(t, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, item := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		l.decodeLeaf(at, n.Content[i], field{value: key})
		if m.MapIndex(key).IsValid() {
			l.faults.Add(join(at, n.Content[i].Value), "is written twice%s", line(n.Content[i]))
		}
		l.decodeField(join(at, n.Content[i].Value), n.Content[i+1], elementField(f, item))
		m.SetMapIndex(key, item)
	}
	f.value.Set(m)
}

// elementField is a list's or mapping's element; it inherits how the whole is redacted.
func elementField(f field, v reflect.Value) field {
	return field{value: v, inner: hasKeys(v.Type()), redact: f.redact}
}

// decodeLeaf reads one value. The YAML library's own message repeats the value, which may be a secret: say what is due
// instead. A type that reads itself from text explains itself better, unless it is secret.
func (l *loader) decodeLeaf(at string, n *yaml.Node, f field) {
	text, ok := f.value.Addr().Interface().(encoding.TextUnmarshaler)
	if ok && n.Kind == yaml.ScalarNode && f.redact == "" {
		if err := text.UnmarshalText([]byte(n.Value)); err != nil {
			l.faults.Add(at, "%v%s", err, line(n))
		}
		return
	}
	if err := n.Decode(f.value.Addr().Interface()); err != nil {
		l.faults.Add(at, "is not a %s%s", typeName(f.value.Type()), line(n))
	}
}

// resolved follows an alias. An alias to its own anchor ends with the Go type, whose depth is finite.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// line says where in the file; values from the environment and --set have no line.
func line(n *yaml.Node) string {
	if n.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d)", n.Line)
}

// join builds paths as --set takes them.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
