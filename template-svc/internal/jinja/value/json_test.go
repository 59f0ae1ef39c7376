package value

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// meter gives a meter with the default limits.
func meter() *limit.Meter {
	m := limit.NewMeter(context.Background(), limit.Default())
	return &m
}

// repr is the repr of a value that has one.
func repr(t *testing.T, v Value) string {
	t.Helper()
	s, err := ReprOf(meter(), v)
	require.NoError(t, err)
	return s
}

func TestFromJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"order is kept", `{"b": 1, "a": 2}`, "{'b': 1, 'a': 2}"},
		{"repeated key keeps place, takes last value", `{"a": 1, "b": 2, "a": 3}`, "{'a': 3, 'b': 2}"},
		{
			"repeated key among many", `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"b":0}`,
			"{'a': 1, 'b': 0, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9, 'j': 10}",
		},
		{"ints and floats apart", `[1, 1.0, -0, -0.0, 1e5, 1E+16]`, "[1, 1.0, 0, -0.0, 100000.0, 1e+16]"},
		{"int of any size", `123456789012345678901234567890`, "123456789012345678901234567890"},
		{"smallest and largest 64 bits", `[-9223372036854775808, 9223372036854775808]`, "[-9223372036854775808, 9223372036854775808]"},
		{"float out of range", `[1e400, -1e400, 1e-400]`, "[inf, -inf, 0.0]"},
		{"Python's words", `[NaN, Infinity, -Infinity]`, "[nan, inf, -inf]"},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9"`, `'"\\/\x08\x0c\n\r\té'`},
		{
			"escapes far apart", `["` + strings.Repeat("x", 21) + `\n` + strings.Repeat("y", 9) + `\"", "plain", "\t", "z\\"]`,
			"['" + strings.Repeat("x", 21) + `\n` + strings.Repeat("y", 9) + `"', 'plain', '\t', 'z\\']`,
		},
		{"surrogate pair", `"\ud83d\ude00"`, "'😀'"},
		{"lone surrogates", `["\ud83d", "\ude00x", "\ud83d\u0041"]`, `['\ud83d', '\ude00x', '\ud83dA']`},
		{"empty containers", "[ [ ] , { } ]", "[[], {}]"},
		{"constants", "[true,false,null]", "[True, False, None]"},
		{"space around", " \n\t\r1 ", "1"},
		{"invalid UTF-8", "\"a\xffb\"", "'a\ufffdb'"},
		{"empty key", `{"": 1}`, "{'': 1}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, err := FromJSON([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, repr(t, v))
			var r JSONReader
			for range 3 {
				shared, err := r.Shared([]byte(c.in))
				require.NoError(t, err)
				require.Equal(t, c.want, repr(t, shared))
				r.Forget()
			}
		})
	}
}

func TestFromJSONFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "value expected at byte 0"},
		{"leading zero", "01", "value expected at byte 0"},
		{"bare minus", "-", "value expected at byte 0"},
		{"point without digits", "1.", "extra data at byte 1"},
		{"exponent without digits", "1e", "extra data at byte 1"},
		{"word", "nul", "value expected at byte 0"},
		{"open string", `"abc`, "unterminated string"},
		{"open escape", `"abc\`, "unterminated string"},
		{"control character", "\"a\nb\"", "control character"},
		{"control after escape", "\"\\n\n\"", "control character"},
		{"bad escape", `"\q"`, "bad escape"},
		{"short unicode", `"\u12"`, `bad \u escape`},
		{"trailing comma", "[1,]", "value expected at byte 3"},
		{"missing comma", "[1 2]", "',' or ']' expected"},
		{"open array", "[1", "',' or ']' expected"},
		{"open object", `{"a": 1`, "',' or '}' expected"},
		{"key is no string", "{1: 2}", "string key expected"},
		{"no colon", `{"a" 1}`, "':' expected"},
		{"extra data", "1 2", "extra data at byte 2"},
		{"too many digits", strings.Repeat("9", 4301), "more than 4300 digits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := FromJSON([]byte(c.in))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "abc", "the message quotes the input")
		})
	}
}

func TestJSONDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		depth int
		ok    bool
	}{{"at the limit", 500, true}, {"beyond", 501, false}, {"far beyond", 100000, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := FromJSON([]byte(strings.Repeat("[", c.depth) + strings.Repeat("]", c.depth)))
			if c.ok {
				require.NoError(t, err)
				return
			}
			var passed *limit.Error
			require.ErrorAs(t, err, &passed)
			require.Equal(t, limit.JSONDepth, passed.Kind)
		})
	}
}

func TestDumpJSON(t *testing.T) {
	t.Parallel()
	in := `{"b": [1, 2.5, {}], "a": "é\u2028\u0001\"/", "c": []}`
	indented := DefaultJSONStyle()
	indented.Indented, indented.Indent, indented.ItemSep = true, "  ", ","
	plain, ascii, sorted := DefaultJSONStyle(), DefaultJSONStyle(), DefaultJSONStyle()
	ascii.ASCII = true
	sorted.SortKeys, sorted.ItemSep, sorted.KeySep = true, ",", ":"
	for _, c := range []struct {
		name  string
		style JSONStyle
		want  string
	}{
		{"default", plain, "{\"b\": [1, 2.5, {}], \"a\": \"é\u2028\\u0001\\\"/\", \"c\": []}"},
		{"ascii", ascii, `{"b": [1, 2.5, {}], "a": "\u00e9\u2028\u0001\"/", "c": []}`},
		{"sorted and tight", sorted, "{\"a\":\"é\u2028\\u0001\\\"/\",\"b\":[1,2.5,{}],\"c\":[]}"},
		{"indented", indented, "{\n  \"b\": [\n    1,\n    2.5,\n    {}\n  ],\n  \"a\": \"é\u2028\\u0001\\\"/\",\n  \"c\": []\n}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v, err := FromJSON([]byte(in))
			require.NoError(t, err)
			p := Printer{Meter: meter()}
			require.NoError(t, p.JSON(v, &c.style))
			require.Equal(t, c.want, string(p.Buf))
		})
	}
}

// TestPlainPrefix compares with a look at each byte, for every byte at every place of a step.
func TestPlainPrefix(t *testing.T) {
	t.Parallel()
	naive := func(s string) int {
		n := strings.IndexFunc(s, func(r rune) bool { return r == '"' || r == '\\' || r < 0x20 })
		if n < 0 {
			return len(s)
		}
		return n
	}
	for c := range 128 {
		for at := range 19 {
			s := strings.Repeat("~", at) + string(rune(c)) + "!\x01" + strings.Repeat("a", 9)
			require.Equal(t, naive(s), plainPrefix(s), "%q", s)
		}
	}
	require.Equal(t, 24, plainPrefix(strings.Repeat("é", 12)))
}
