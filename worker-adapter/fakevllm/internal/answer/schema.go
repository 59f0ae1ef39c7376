package answer

import (
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// maxSchemaDepth bounds recursion through $ref.
const maxSchemaDepth = 24

// FromSchema returns a small JSON document that satisfies a JSON schema: required properties only, the first allowed
// alternative, the shortest strings and lists. The error has the text of vLLM's grammar compiler where one is known.
func (r *Rand) FromSchema(schema *pyjson.Value) (string, error) {
	g := generator{rand: r, root: schema}
	return g.value(schema, 0)
}

type generator struct {
	rand *Rand
	root *pyjson.Value
}

// value returns a document for one schema. Booleans as schemas allow everything; depth bounds references to
// themselves.
func (g *generator) value(s *pyjson.Value, depth int) (string, error) {
	if depth > maxSchemaDepth {
		return "null", nil
	}
	if s.Kind != pyjson.Dict {
		return `{}`, nil // true and {} allow anything
	}
	if c := s.Get("const"); c.Kind != pyjson.Missing {
		return string(c.Raw), nil
	}
	if e := s.Get("enum"); e.Len() > 0 && e.Kind == pyjson.List {
		v := e.At(g.rand.Below(e.Len()))
		return raw(&v), nil
	}
	if ref := s.Get("$ref"); ref.Kind == pyjson.String {
		return g.value(g.resolve(ref.Str), depth+1)
	}
	for _, key := range [...]string{"anyOf", "oneOf", "allOf"} {
		if l := s.Get(key); l.Kind == pyjson.List && l.Len() > 0 {
			first := l.At(0)
			return g.value(&first, depth+1)
		}
	}
	switch kind := typeOf(s); kind {
	case "object":
		return g.object(s, depth)
	case "array":
		return g.array(s, depth)
	case "string":
		return quote(g.text(s)), nil
	case "integer", "number":
		return g.number(s), nil
	case "boolean":
		return strconv.FormatBool(g.rand.Below(2) == 1), nil
	case "null":
		return "null", nil
	default:
		return "", fmt.Errorf("Grammar error: Invalid type: %s", kind) //nolint:staticcheck // vLLM's own words
	}
}

// quote writes a JSON string.
func quote(s string) string { return string(pyjson.AppendString(nil, s)) }

// raw returns a value's own spelling, so that numbers keep theirs.
func raw(v *pyjson.Value) string {
	if v.Kind == pyjson.Int && v.Raw == nil {
		return strconv.FormatInt(v.Int, 10)
	}
	return string(v.Raw)
}

// typeOf returns the schema's type, the first of several; a schema without one is a list if it has items, else an
// object.
func typeOf(s *pyjson.Value) string {
	t := s.Get("type")
	if t.Kind == pyjson.List && t.Len() > 0 {
		first := t.At(0)
		t = &first
	}
	switch {
	case t.Kind == pyjson.String:
		return t.Str
	case s.Get("items").Kind != pyjson.Missing:
		return "array"
	}
	return "object"
}

// resolve follows "#/a/b" inside the schema; anything else allows everything.
func (g *generator) resolve(ref string) *pyjson.Value {
	at := g.root
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return &pyjson.Value{}
	}
	for part := range strings.SplitSeq(path, "/") {
		at = at.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
	}
	return at
}

// object writes the required properties only, in the order in which they are required.
func (g *generator) object(s *pyjson.Value, depth int) (string, error) {
	var b strings.Builder
	b.WriteByte('{')
	required, props := s.Get("required"), s.Get("properties")
	for i := range required.Len() {
		name := required.At(i)
		v, err := g.value(props.Get(name.Str), depth+1)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(name.Str) + ": " + v)
	}
	b.WriteByte('}')
	return b.String(), nil
}

// array writes as few items as are allowed.
func (g *generator) array(s *pyjson.Value, depth int) (string, error) {
	items := make([]string, 0, 1)
	for range min(max(0, s.Get("minItems").Int), 64) {
		v, err := g.value(s.Get("items"), depth+1)
		if err != nil {
			return "", err
		}
		items = append(items, v)
	}
	return "[" + strings.Join(items, ", ") + "]", nil
}

// number returns a small integer within the bounds; it serves "number" as well as "integer".
func (g *generator) number(s *pyjson.Value) string {
	n := int64(1 + g.rand.Below(9))
	if low := s.Get("minimum"); low.Kind != pyjson.Missing {
		n = max(n, int64(low.Float))
		if float64(n) < low.Float {
			n++
		}
	}
	if low := s.Get("exclusiveMinimum"); low.Kind != pyjson.Missing && float64(n) <= low.Float {
		n = int64(low.Float) + 1
	}
	if high := s.Get("maximum"); high.Kind != pyjson.Missing && float64(n) > high.Float {
		n = int64(high.Float)
	}
	if high := s.Get("exclusiveMaximum"); high.Kind != pyjson.Missing && float64(n) >= high.Float {
		n = int64(high.Float) - 1
	}
	if m := s.Get("multipleOf"); m.Int > 0 {
		n = (n + m.Int - 1) / m.Int * m.Int
	}
	return strconv.FormatInt(n, 10)
}

// text obeys pattern, format and lengths, the first of them that is given and understood.
func (g *generator) text(s *pyjson.Value) string {
	if p := s.Get("pattern"); p.Kind == pyjson.String {
		if t, err := g.rand.FromRegex(p.Str); err == nil {
			return t
		}
	}
	formats := map[string]string{
		"date": "2026-01-31", "time": "12:00:00Z", "date-time": "2026-01-31T12:00:00Z", "email": "a@example.org",
		"uri": "https://example.org/", "uuid": "00000000-0000-4000-8000-000000000000", "ipv4": "192.0.2.1",
		"ipv6": "2001:db8::1", "hostname": "example.org",
	}
	if t, ok := formats[s.Get("format").Str]; ok {
		return t
	}
	words := [...]string{"alpha", "birch", "cedar", "delta", "ember", "fjord", "grove", "haven"}
	t := words[g.rand.Below(len(words))]
	if low := s.Get("minLength").Int; low > int64(len(t)) {
		t += strings.Repeat("x", int(min(low, 4096))-len(t))
	}
	if high := s.Get("maxLength"); high.Kind == pyjson.Int && high.Int >= 0 && high.Int < int64(len(t)) {
		t = t[:high.Int]
	}
	return t
}

// FromRegex returns a short string that matches the expression (RE2 syntax).
func (r *Rand) FromRegex(expr string) (string, error) {
	re, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return "", fmt.Errorf("parse regex: %w", err)
	}
	var b strings.Builder
	r.regex(&b, re.Simplify())
	return b.String(), nil
}

// regex writes the shortest match of a parsed expression; assertions of place match nothing and are left out.
func (r *Rand) regex(b *strings.Builder, re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		i := 2 * r.Below(len(re.Rune)/2)
		lo, hi := re.Rune[i], re.Rune[i+1]
		b.WriteRune(lo + rune(r.Below(int(hi-lo)+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte(byte('a' + r.Below(26)))
	case syntax.OpCapture, syntax.OpPlus:
		r.regex(b, re.Sub[0])
	case syntax.OpRepeat:
		for range re.Min {
			r.regex(b, re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			r.regex(b, sub)
		}
	case syntax.OpAlternate:
		r.regex(b, re.Sub[r.Below(len(re.Sub))])
	}
}
