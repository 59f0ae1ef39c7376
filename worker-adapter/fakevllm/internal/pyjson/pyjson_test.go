package pyjson_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// The messages and positions are those of Python 3.12's json.loads for the same text.
func TestSyntaxErrorsArePythons(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, text, msg string
		pos             int
	}{
		{"empty", "", "Expecting value", 0},
		{"open object", `{"a": 1`, "Expecting ',' delimiter", 7},
		{"open list", `[1, 2`, "Expecting ',' delimiter", 5},
		{"missing element", `[1, ]`, "Expecting value", 4},
		{"brace for bracket", `{"messages": [}`, "Expecting value", 14},
		{"no colon", `{"a" 1}`, "Expecting ':' delimiter", 5},
		{"no key", `{1: 2}`, "Expecting property name enclosed in double quotes", 1},
		{"comma before the end", `{"a": 1,}`, "Expecting property name enclosed in double quotes", 8},
		{"open string", `{"a": "b`, "Unterminated string starting at", 6},
		{"open escape", `"a\`, "Unterminated string starting at", 0},
		{"unknown escape", `"a\x"`, `Invalid \escape`, 2},
		{"short unicode escape", `"\u12"`, `Invalid \uXXXX escape`, 2},
		{"control character", "\"a\nb\"", "Invalid control character at", 2},
		{"control character behind an escape", "\"\\ta\nb\"", "Invalid control character at", 4},
		{"second document", `{} {}`, "Extra data", 3},
		{"word", `nope`, "Expecting value", 0},
		{"sign alone", `-`, "Expecting value", 0},
		{"number with two points", `1.2.3`, "Extra data", 3},
		{"leading zero", `01`, "Extra data", 1},
		{"characters, not bytes", `{"ä": "ö" x}`, "Expecting ',' delimiter", 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := pyjson.Parse([]byte(row.text))
			var syntax *pyjson.SyntaxError
			require.True(t, errors.As(err, &syntax), "%v", err)
			require.Equal(t, row.msg, syntax.Msg)
			require.Equal(t, row.pos, syntax.Pos)
			require.Contains(t, syntax.Error(), row.msg)
		})
	}
}

func parse(t *testing.T, text string) *pyjson.Doc {
	t.Helper()
	doc, err := pyjson.Parse([]byte(text))
	require.NoError(t, err)
	return doc
}

func TestValues(t *testing.T) {
	t.Parallel()
	root := &parse(t, ` {"s": "a\"\\\/\b\f\n\r\té😀", "i": -12, "f": 1.5e2, "t": true, "n": null,
		"l": [1, "x", 2], "ids": [7, 8], "e": [], "a": 1, "a": 2, "big": 99999999999999999999} `).Root
	require.Equal(t, "a\"\\/\b\f\n\r\té😀", root.Get("s").Str)
	require.EqualValues(t, -12, root.Get("i").Int)
	require.InDelta(t, 150, root.Get("f").Float, 0)
	require.Equal(t, "1.5e2", string(root.Get("f").Raw))
	require.True(t, root.Get("t").Bool)
	require.True(t, root.Get("n").IsNull())
	require.True(t, root.Get("absent").IsNull())
	require.EqualValues(t, 2, root.Get("a").Int, "the last of equal keys wins")
	require.Equal(t, 10, root.Len(), "distinct keys")
	require.EqualValues(t, math.MaxInt64, root.Get("big").Int)

	list := root.Get("l")
	require.Equal(t, 3, list.Len())
	require.False(t, list.AllInts())
	first, second := list.At(0), list.At(1)
	require.EqualValues(t, 1, first.Int)
	require.Equal(t, "x", second.Str)
	ids := root.Get("ids")
	require.True(t, ids.AllInts())
	require.Equal(t, []int64{7, 8}, ids.Ints)
	eight := ids.At(1)
	require.EqualValues(t, 8, eight.Int)
	require.True(t, root.Get("e").AllInts())
	require.Zero(t, root.Get("e").Len())
}

func TestPythonsExtraWords(t *testing.T) {
	t.Parallel()
	list := &parse(t, `[NaN, Infinity, -Infinity]`).Root
	nan, inf, neg := list.At(0), list.At(1), list.At(2)
	require.True(t, math.IsNaN(nan.Float))
	require.True(t, math.IsInf(inf.Float, 1))
	require.True(t, math.IsInf(neg.Float, -1))
	for _, text := range []string{`"\ud83d x"`, `"\ude00"`, `"\ud83dA"`} {
		doc := parse(t, text)
		require.True(t, doc.LoneSurrogate, text)
		require.Contains(t, doc.Root.Str, "\uFFFD")
	}
	require.False(t, parse(t, `"\ud83d\ude00"`).LoneSurrogate)
}

func TestDescribeAndRepr(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ text, want string }{
		{`[1, 2]`, "<list of 2 items>"},
		{`{"a": 1, "b": 2}`, "<dict of 2 items>"},
		{`"x"`, "x"},
		{`5`, "5"},
		{`1.0`, "1.0"},
		{`true`, "True"},
		{`false`, "False"},
		{`null`, "None"},
		{`1e22`, "1e+22"},
		{`0.00001`, "1e-05"},
		{`NaN`, "nan"},
		{`Infinity`, "inf"},
		{`-Infinity`, "-inf"},
	} {
		t.Run(row.text, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, parse(t, row.text).Root.Describe())
		})
	}
	for _, row := range []struct{ text, want string }{
		{"plain", "'plain'"},
		{"it's", `"it's"`},
		{`it's "so"`, `'it\'s "so"'`},
		{"a\\b", `'a\\b'`},
		{"line\nfeed\ttab\rreturn", `'line\nfeed\ttab\rreturn'`},
		{"\x01\x7f", `'\x01\x7f'`},
		{"é", "'é'"},
	} {
		require.Equal(t, row.want, pyjson.Repr(row.text))
	}
}

// FuzzParse holds the parser against encoding/json: what that takes, this takes with the same meaning.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5,"x",null,true]}`, `"\ud83d\ude00"`, `[]`, `-0.5e-3`, `{"a":{"a":{}}}`, `[1,2,3,"4"]`, "", "[", `{"a":`,
		`NaN`, `"\u0000"`, strings.Repeat("[", 600),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) { // callers check that first
			return
		}
		doc, err := pyjson.Parse([]byte(text))
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if json.Valid([]byte(text)) && d.Decode(&want) == nil && strings.Count(text, "[")+strings.Count(text, "{") < 400 {
			require.NoError(t, err)
			require.NoError(t, same(want, &doc.Root))
			return
		}
		var syntax *pyjson.SyntaxError
		if err != nil {
			require.True(t, errors.As(err, &syntax))
			require.LessOrEqual(t, syntax.Pos, len([]rune(text)))
		}
	})
}

var errDiffers = errors.New("values differ")

func same(want any, got *pyjson.Value) error {
	switch w := want.(type) {
	case map[string]any:
		if got.Kind != pyjson.Dict || got.Len() != len(w) {
			return errDiffers
		}
		for k, v := range w {
			if err := same(v, got.Get(k)); err != nil {
				return err
			}
		}
	case []any:
		if got.Kind != pyjson.List || got.Len() != len(w) {
			return errDiffers
		}
		for i := range w {
			item := got.At(i)
			if err := same(w[i], &item); err != nil {
				return err
			}
		}
	case string:
		if got.Kind != pyjson.String || got.Str != w {
			return errDiffers
		}
	case json.Number:
		if f, err := w.Float64(); err == nil && got.Float != f {
			return errDiffers
		}
	case bool:
		if got.Kind != pyjson.Bool || got.Bool != w {
			return errDiffers
		}
	case nil:
		if got.Kind != pyjson.Null {
			return errDiffers
		}
	}
	return nil
}
