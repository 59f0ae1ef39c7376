package conf

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// expand replaces ${NAME} in all text values.
func (l *loader) expand(path string, n *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			l.expand(join(path, n.Content[i].Value), n.Content[i+1])
		}
	case yaml.SequenceNode, yaml.DocumentNode:
		for _, item := range n.Content {
			l.expand(path, item)
		}
	case yaml.ScalarNode:
		if strings.Contains(n.Value, "$") && !l.ignored(path) {
			l.expandValue(path, n)
		}
	case yaml.AliasNode: // its anchor is expanded where it stands
	}
}

// ignored tells values of other processes' sections: their variables need not be set here.
func (l *loader) ignored(path string) bool {
	top, _, _ := strings.Cut(path, ".")
	return l.ignore[top]
}

// expandValue replaces in one scalar. A plain (unquoted) one gets its type from what stands there then.
func (l *loader) expandValue(path string, n *yaml.Node) {
	var out strings.Builder
	rest := n.Value
	for {
		before, after, found := strings.Cut(rest, "$")
		out.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteByte('$')
			rest = after[1:]
		case strings.HasPrefix(after, "{") && strings.Contains(after, "}"):
			var ref string
			ref, rest, _ = strings.Cut(after[1:], "}")
			out.WriteString(l.variable(path, ref))
		default:
			out.WriteByte('$')
			rest = after
		}
	}
	n.Value = out.String()
	if n.Style == 0 {
		n.Tag = ""
	}
}

// variable is the value of one ${…}; the fault names the variable, never a value.
func (l *loader) variable(path, ref string) string {
	name, fallback, hasFallback := strings.Cut(ref, ":-")
	if v, ok := l.env[name]; ok {
		return v
	}
	if !hasFallback {
		l.faults.Add(path, "the environment variable %s is not set", name)
	}
	return fallback
}

// overlayEnv sets keys whose environment variable exists. Variables that name no key are left alone: they may be
// another program's.
func (l *loader) overlayEnv(root *yaml.Node, t target) { l.overlayEnvAt(root, t, nil) }

// overlayEnvAt asks for each key instead of reading the environment name by name: "_" separates keys and is also part
// of them, so a name alone does not tell its path.
func (l *loader) overlayEnvAt(root *yaml.Node, t target, path []string) {
	for _, f := range t.fields {
		at := append(path[:len(path):len(path)], f.key)
		if f.inner {
			l.overlayEnvAt(root, fieldsOf(f.value), at)
			continue
		}
		if v, ok := l.env[EnvName(strings.Join(at, "."))]; ok {
			l.put(root, at, parseValue(v, f))
		}
	}
}

// EnvName is the environment variable that sets the key at path.
func EnvName(path string) string {
	return EnvPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

// overlaySets applies a.b=c in order.
func (l *loader) overlaySets(root *yaml.Node, t target, sets []string) {
	for _, set := range sets {
		path, value, ok := strings.Cut(set, "=")
		if !ok || path == "" {
			l.faults.list = append(l.faults.list, Fault{
				Path: path, Message: "write --set section.key=value", Origin: fromSet,
			})
			continue
		}
		if f, keys, ok := l.lookUp(t, strings.Split(path, ".")); ok {
			l.put(root, keys, parseValue(value, f))
		}
	}
}

// lookUp finds the field at keys and returns the keys as the tree has them: below a mapping of plain values all that is
// left is one name, so that names may have dots ("alias.gpt-4.1").
func (l *loader) lookUp(t target, keys []string) (field, []string, bool) {
	var f field
	for i := 0; i < len(keys); i++ {
		var known bool
		if f, known = t.find(keys[i]); !known {
			if i > 0 || !l.ignore[keys[i]] {
				l.unknown(strings.Join(keys[:i+1], "."), &yaml.Node{Value: keys[i]}, t)
			}
			return f, nil, false
		}
		last := len(keys) - 1
		if f.value.Kind() == reflect.Map && i < last {
			f = elementField(f, reflect.New(f.value.Type().Elem()).Elem())
			i++
			if !f.inner {
				return f, append(keys[:i:i], strings.Join(keys[i:], ".")), true
			}
		}
		if i < last && !f.inner {
			l.faults.Add(strings.Join(keys, "."), "%s has no keys of its own", keys[i])
			return f, nil, false
		}
		if f.inner {
			t = fieldsOf(f.value)
		}
	}
	return f, keys, true
}

// parseValue reads an override. For text it is taken as it stands ("1e5", "no" and "{x" stay text); else it is YAML.
func parseValue(s string, f field) *yaml.Node {
	plain := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if f.value.Kind() == reflect.String {
		return plain
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(s), &doc); err != nil || len(doc.Content) == 0 {
		return plain
	}
	dropLines(doc.Content[0])
	return doc.Content[0]
}

// dropLines forgets positions inside an override; they would point into the file.
func dropLines(n *yaml.Node) {
	n.Line = 0
	for _, c := range n.Content {
		dropLines(c)
	}
}

// put sets a value in the tree and makes the mappings on the way.
func (l *loader) put(n *yaml.Node, keys []string, value *yaml.Node) {
	n = resolved(n)
	if n.Kind != yaml.MappingNode {
		*n = yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != keys[0] {
			continue
		}
		if len(keys) == 1 {
			n.Content[i+1] = value
		} else {
			l.put(n.Content[i+1], keys[1:], value)
		}
		return
	}
	if len(keys) > 1 {
		inner := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		l.put(inner, keys[1:], value)
		value = inner
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: keys[0]}, value)
}
