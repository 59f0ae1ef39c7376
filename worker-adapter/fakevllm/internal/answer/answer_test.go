package answer_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/answer"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

func TestProseIsAFunctionOfItsSeed(t *testing.T) {
	t.Parallel()
	a, b, c := answer.Seed([]uint32{1, 2}, 7), answer.Seed([]uint32{1, 2}, 7), answer.Seed([]uint32{2, 1}, 7)
	text := a.Words(60)
	require.Equal(t, text, b.Words(60))
	require.NotEqual(t, text, c.Words(60))
	require.True(t, strings.HasSuffix(text, "."))
	words := len(strings.Fields(text))
	require.Greater(t, words, 55)
	require.Less(t, words, 110)
	for _, r := range text {
		require.Less(t, r, rune(128))
	}
	require.NotEmpty(t, a.Thought())
}

func schema(t *testing.T, text string) *pyjson.Value {
	t.Helper()
	doc, err := pyjson.Parse([]byte(text))
	require.NoError(t, err)
	return &doc.Root
}

func TestFromSchema(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, schema, match string // match is a regular expression for the whole document
	}{
		{"anything", `true`, `{}`},
		{"empty schema", `{}`, `{}`},
		{
			"required only", `{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"string"}},"required":["a"]}`,
			`{"a": (true|false)}`,
		},
		{"enum", `{"enum":["C","F"]}`, `"[CF]"`},
		{"enum of numbers", `{"enum":[1,2]}`, `[12]`},
		{"const", `{"const":{"k":[1.0]}}`, `{"k":\[1.0\]}`},
		{"bounded string", `{"type":"string","maxLength":3}`, `"[a-z]{3}"`},
		{"long string", `{"type":"string","minLength":12}`, `"[a-z]{12}"`},
		{"pattern", `{"type":"string","pattern":"^[A-Z]{2}-\\d+$"}`, `"[A-Z]{2}-\d"`},
		{"format", `{"type":"string","format":"date"}`, `"2026-01-31"`},
		{"integer range", `{"type":"integer","minimum":40,"maximum":42}`, `4[0-2]`},
		{"exclusive bounds", `{"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":11}`, `10`},
		{"multiple", `{"type":"integer","multipleOf":10}`, `\d*0`},
		{"fraction as lower bound", `{"type":"number","minimum":9.5}`, `10`},
		{"list", `{"type":"array","items":{"type":"null"},"minItems":2}`, `\[null, null\]`},
		{"empty list", `{"type":"array","items":{"type":"null"}}`, `\[\]`},
		{"list by its items", `{"items":{"type":"boolean"}}`, `\[\]`},
		{"first alternative", `{"anyOf":[{"type":"null"},{"type":"string"}]}`, `null`},
		{"type list", `{"type":["null","string"]}`, `null`},
		{
			"reference", `{"$defs":{"x/y":{"type":"null"}},"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y"}},"required":["a"]}`,
			`{"a": null}`,
		},
		{"endless reference", `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, `(?s){"a": .*}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := answer.Seed([]uint32{3})
			got, err := r.FromSchema(schema(t, row.schema))
			require.NoError(t, err)
			require.True(t, json.Valid([]byte(got)), got)
			require.Regexp(t, regexp.MustCompile("^"+row.match+"$"), got)
		})
	}
	r := answer.Seed(nil)
	_, err := r.FromSchema(schema(t, `{"type":"nonsense"}`))
	require.EqualError(t, err, "Grammar error: Invalid type: nonsense")
	_, err = r.FromSchema(schema(t, `{"type":"object","properties":{"a":{"type":"nonsense"}},"required":["a"]}`))
	require.Error(t, err)
	_, err = r.FromSchema(schema(t, `{"type":"array","items":{"type":"nonsense"},"minItems":1}`))
	require.Error(t, err)
}

func TestFromRegex(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{
		`[ab]{3}`, `(yes|no)`, `\d+\.\d{2}`, `a?b*c`, `.{4}`, `x(y(z))+`, `(?i)abc`, `[^a-y]`,
	} {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()
			r := answer.Seed([]uint32{9})
			got, err := r.FromRegex(expr)
			require.NoError(t, err)
			require.Regexp(t, regexp.MustCompile("^(?s:"+expr+")$"), got)
		})
	}
	r := answer.Seed(nil)
	_, err := r.FromRegex("(")
	require.ErrorContains(t, err, "parse regex")
}

// FuzzFromSchema holds that no schema makes the generator panic, and that what it makes is JSON.
func FuzzFromSchema(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"$ref":"#/properties/a"}}}`, `{"enum":[]}`, `{"required":[1]}`,
		`{"type":"string","pattern":"["}`, `{"type":"array","minItems":-3}`, `{"type":"integer","maximum":1e300}`, `[]`, `5`,
		`{"type":"string","minLength":1e9}`, `{"anyOf":[]}`, `{"type":"string","maxLength":-1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := pyjson.Parse([]byte(text))
		if err != nil || strings.Contains(text, "NaN") || strings.Contains(text, "Infinity") {
			return
		}
		r := answer.Seed(nil)
		if got, err := r.FromSchema(&doc.Root); err == nil {
			require.True(t, json.Valid([]byte(got)), "%s: %s", text, got)
		}
	})
}
