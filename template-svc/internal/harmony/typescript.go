package harmony

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// toolSection writes a request's tools as types of TypeScript; empty when there are none.
func toolSection(tools value.Value) (string, error) {
	if tools.IsNone() {
		return "", nil
	}
	if tools.Kind() != value.KindList || len(tools.Cells()) == 0 {
		return "", refuse("tools must be a list that is not empty")
	}
	lines := []string{"# Tools\n\n## functions\n", "namespace functions {\n"}
	for _, tool := range tools.Cells() {
		function, _ := value.Member(tool, "function")
		name, _ := value.Member(function, "name")
		if !name.IsStr() {
			return "", refuse("a tool needs a function with a name")
		}
		description, _ := value.Member(function, "description")
		if description.IsStr() {
			lines = append(lines, comments(description.AsStr())...)
		}
		parameters, _ := value.Member(function, "parameters")
		switch parameters.Kind() {
		case value.KindNone:
			lines = append(lines, "type "+name.AsStr()+" = () => any;\n")
		case value.KindDict:
			s := schema{}
			lines = append(lines, "type "+name.AsStr()+" = (_: "+s.typeOf(parameters, "", 0)+") => any;\n")
			if s.tooDeep {
				return "", refuse("parameters are nested too deeply")
			}
		default:
			return "", refuse("parameters must be an object")
		}
	}
	return strings.Join(append(lines, "} // namespace functions"), "\n"), nil
}

// comments makes a comment of each line. Lines end as Rust's do: at \n, with one \r before it dropped.
func comments(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if cut, ended := strings.CutSuffix(line, "\n"); ended {
			line = strings.TrimSuffix(cut, "\r")
		}
		out = append(out, "// "+line)
	}
	return out
}

// maxDepth bounds the nesting of a schema; the published implementation reads JSON to this depth.
const maxDepth = 100

// schema writes a JSON schema as a type.
type schema struct{ tooDeep bool }

// typeOf gives the type of one schema. Lines that it begins itself start with indent.
func (s *schema) typeOf(v value.Value, indent string, depth int) string {
	if depth > maxDepth {
		s.tooDeep = true
		return "any"
	}
	if variants, ok := list(v, "oneOf"); ok {
		return s.variants(variants, indent, depth)
	}
	kind, _ := value.Member(v, "type")
	if kind.Kind() == value.KindList {
		if union := unionOf(kind.Cells()); union != "" {
			return union
		}
	}
	if !kind.IsStr() {
		return "any"
	}
	switch kind.AsStr() {
	case "object":
		return s.object(v, indent, depth)
	case "string":
		if words := enumOf(v); len(words) > 0 {
			return strings.Join(words, " | ")
		}
		return "string"
	case "number", "integer":
		return "number"
	case "boolean":
		return "boolean"
	case "array":
		if items, ok := value.Member(v, "items"); ok {
			return s.typeOf(items, indent, depth+1) + "[]"
		}
		return "Array<any>"
	}
	return "any"
}

// unionOf joins a list of type names.
func unionOf(kinds []value.Value) string {
	var out []string
	for _, k := range kinds {
		switch {
		case !k.IsStr():
		case k.AsStr() == "integer":
			out = append(out, "number")
		default:
			out = append(out, k.AsStr())
		}
	}
	return strings.Join(out, " | ")
}

// enumOf quotes the words of an enumeration.
func enumOf(v value.Value) []string {
	cells, _ := list(v, "enum")
	var out []string
	for _, c := range cells {
		if c.IsStr() {
			out = append(out, `"`+c.AsStr()+`"`)
		}
	}
	return out
}

// variants writes the members of a oneOf that stands for a whole type.
func (s *schema) variants(variants []value.Value, indent string, depth int) string {
	var out strings.Builder
	for _, v := range variants {
		out.WriteString("\n" + indent + " | " + s.nullable(v, indent+"   ", depth))
		var notes []string
		if d, ok := text(v, "description"); ok {
			notes = append(notes, d)
		}
		if d := defaultOf(v); d != "" {
			notes = append(notes, d)
		}
		if len(notes) > 0 {
			out.WriteString(" // " + strings.Join(notes, " "))
		}
	}
	return out.String()
}

// nullable adds null to the type of a schema that says nullable.
func (s *schema) nullable(v value.Value, indent string, depth int) string {
	out := s.typeOf(v, indent, depth+1)
	if n, _ := value.Member(v, "nullable"); n.Kind() == value.KindBool && n.Truth() && !strings.Contains(out, "null") {
		out += " | null"
	}
	return out
}

// object writes an object's properties, a line each.
func (s *schema) object(v value.Value, indent string, depth int) string {
	var out strings.Builder
	if d, ok := text(v, "description"); ok {
		out.WriteString(indent + "// " + d + "\n")
	}
	out.WriteString("{\n")
	required := map[string]bool{}
	names, _ := list(v, "required")
	for _, n := range names {
		if n.IsStr() {
			required[n.AsStr()] = true
		}
	}
	properties, _ := value.Member(v, "properties")
	if properties.Kind() == value.KindDict {
		for _, e := range properties.AsDict().Entries() {
			p := property{name: e.Key.AsStr(), schema: e.Val, optional: !required[e.Key.AsStr()]}
			s.property(&out, p, indent, depth)
		}
	}
	out.WriteString(indent + "}")
	return out.String()
}

// property is one member of an object.
type property struct {
	name     string
	schema   value.Value
	optional bool
}

// head is the name as it is written before the type.
func (p property) head() string {
	if p.optional {
		return p.name + "?: "
	}
	return p.name + ": "
}

// property writes comments, name and type.
func (s *schema) property(out *strings.Builder, p property, indent string, depth int) {
	if title, ok := text(p.schema, "title"); ok {
		out.WriteString(indent + "// " + title + "\n" + indent + "//\n")
	}
	variants, oneOf := list(p.schema, "oneOf")
	_, anyOneOf := value.Member(p.schema, "oneOf")
	if d, ok := text(p.schema, "description"); ok && !anyOneOf {
		out.WriteString(indent + "// " + d + "\n")
	}
	if examples, ok := list(p.schema, "examples"); ok && len(examples) > 0 {
		out.WriteString(indent + "// Examples:\n")
		for _, e := range examples {
			if e.IsStr() {
				out.WriteString(indent + `// - "` + e.AsStr() + "\"\n")
			}
		}
	}
	if oneOf {
		s.choices(out, p, choice{variants, indent, depth})
		return
	}
	out.WriteString(indent + p.head() + s.nullable(p.schema, indent+"    ", depth) + ",")
	if d := defaultOf(p.schema); d != "" {
		out.WriteString(" // " + d)
	}
	out.WriteString("\n")
}

// choice is a property's oneOf.
type choice struct {
	variants []value.Value
	indent   string
	depth    int
}

// choices writes a property with a oneOf, a line for each variant. A variant's description is left out where the
// property's own stands for it: that of the first, and those that are equal.
func (s *schema) choices(out *strings.Builder, p property, c choice) {
	own, described := text(p.schema, "description")
	if described && !firstSays(c.variants, own) {
		out.WriteString(c.indent + "// " + own + "\n")
	}
	if d := defaultOf(p.schema); d != "" {
		out.WriteString(c.indent + "// " + d + "\n")
	}
	out.WriteString(c.indent + strings.TrimSuffix(p.head(), " ") + "\n")
	for i, v := range c.variants {
		out.WriteString(c.indent + " | " + s.nullable(v, c.indent+"   ", c.depth))
		var notes []string
		if d, ok := text(v, "description"); ok && (!described || (i > 0 && d != own)) {
			notes = append(notes, d)
		}
		if d := defaultOf(v); d != "" {
			notes = append(notes, d)
		}
		if len(notes) > 0 {
			out.WriteString(" // " + strings.Join(notes, " "))
		}
		out.WriteString("\n")
	}
	out.WriteString(c.indent + ",\n")
}

// firstSays reports whether the first variant has this description.
func firstSays(variants []value.Value, description string) bool {
	if len(variants) == 0 {
		return false
	}
	d, ok := text(variants[0], "description")
	return ok && d == description
}

// defaultOf is the comment that names a schema's default; text is quoted unless it is one of an enumeration.
func defaultOf(v value.Value) string {
	d, ok := value.Member(v, "default")
	if !ok {
		return ""
	}
	if cells, ok := list(v, "enum"); ok && len(cells) > 0 && d.IsStr() {
		return "default: " + d.AsStr()
	}
	if d.IsStr() {
		return `default: "` + d.AsStr() + `"`
	}
	return "default: " + jsonOf(d)
}

// text gives a member that is text.
func text(v value.Value, key string) (string, bool) {
	got, ok := value.Member(v, key)
	if !ok || !got.IsStr() {
		return "", false
	}
	return got.AsStr(), true
}

// list gives a member that is a list.
func list(v value.Value, key string) ([]value.Value, bool) {
	got, ok := value.Member(v, key)
	if !ok || got.Kind() != value.KindList {
		return nil, false
	}
	return got.Cells(), true
}
