package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const depth = 100

// read walks a document with Skip alone.
func read(doc string) error {
	r, err := NewReader([]byte(doc), depth)
	if err != nil {
		return err
	}
	if _, err := r.Skip(); err != nil {
		return err
	}
	return r.End()
}

// walk visits every value with the callbacks and rebuilds the document's scalars and names.
func walk(r *Reader, doc []byte, out *bytes.Buffer) error {
	switch r.Peek() {
	case Object:
		_, err := r.Object(func(n Name) error {
			out.WriteString(n.Text() + ":")
			return walk(r, doc, out)
		})
		return err
	case Array:
		_, err := r.Array(func(int) error { return walk(r, doc, out) })
		return err
	default:
		v, err := r.Skip()
		if err == nil {
			out.Write(v.Text(doc))
			out.WriteByte(',')
		}
		return err
	}
}

func TestSkip(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, doc string
		err       error
	}{
		{"object", `{"a":[1,2.5e-3,{"b":null}],"c":"d"}`, nil},
		{"blanks", " \t\r\n{ \"a\" : [ ] , \"b\" : { } } \n", nil},
		{"minus zero", `-0`, nil},
		{"leading zero", `01`, ErrTrailing},
		{"plus", `+1`, ErrSyntax},
		{"bare fraction", `1.`, ErrSyntax},
		{"bare exponent", `1e`, ErrSyntax},
		{"long integer", `123456789012345678901234567890`, nil},
		{"escapes", `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, nil},
		{"lone surrogate", `"\ud83d"`, nil},
		{"bad escape", `"\x"`, ErrSyntax},
		{"short unicode escape", `"\u12"`, ErrSyntax},
		{"control character", "\"a\nb\"", ErrSyntax},
		{"long string with a control at the end", `"` + strings.Repeat("x", 40) + "\x01" + `"`, ErrSyntax},
		{"open string", `"abc`, ErrSyntax},
		{"trailing comma", `[1,]`, ErrSyntax},
		{"missing colon", `{"a" 1}`, ErrSyntax},
		{"name is no string", `{1:2}`, ErrSyntax},
		{"wrong closer", `[1}`, ErrSyntax},
		{"trailing text", `{} {}`, ErrTrailing},
		{"nothing", ``, ErrSyntax},
		{"word", `nul`, ErrSyntax},
		{"not UTF-8", "\"\xe9\"", ErrUTF8},
		{"as deep as allowed", strings.Repeat("[", depth) + strings.Repeat("]", depth), nil},
		{"one deeper", strings.Repeat("[", depth+1) + strings.Repeat("]", depth+1), ErrDepth},
		{"deep objects", strings.Repeat(`{"a":`, depth+1) + "1" + strings.Repeat("}", depth+1), ErrDepth},
		{"very deep", strings.Repeat("[", 1000000), ErrDepth},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, read(row.doc), row.err)
		})
	}
}

func TestCallbacksCountDepth(t *testing.T) {
	t.Parallel()
	doc := []byte(strings.Repeat("[", 6) + strings.Repeat("]", 6))
	r, err := NewReader(doc, 5)
	require.NoError(t, err)
	require.ErrorIs(t, walk(r, doc, &bytes.Buffer{}), ErrDepth)
	// Skip inside a callback counts the callbacks around it.
	r, err = NewReader(doc, 5)
	require.NoError(t, err)
	_, err = r.Array(func(int) error { _, err := r.Skip(); return err })
	require.ErrorIs(t, err, ErrDepth)
}

func TestNameIsExact(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"model":1,"Model":2,"mod\u0065l":3,"":4}`)
	r, err := NewReader(doc, depth)
	require.NoError(t, err)
	var hits []string
	_, err = r.Object(func(n Name) error {
		v, err := r.Skip()
		if n.Is("model") {
			hits = append(hits, string(v.Text(doc)))
		}
		return err
	})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "3"}, hits)
}

func TestStringOf(t *testing.T) {
	t.Parallel()
	rows := []string{`"plain"`, `"\"\\\/\b\f\n\r\t"`, `"\u00e9\u6f22"`, `"\ud83e\udd8a fox"`, `"\ud83e"`, `"\ud83ex"`, `"\udd8a\ud83e"`, `""`}
	for _, doc := range rows {
		var want string
		require.NoError(t, json.Unmarshal([]byte(doc), &want))
		require.Equal(t, want, StringOf([]byte(doc), Value{Kind: String, End: len(doc)}), doc)
	}
	require.Empty(t, StringOf([]byte("12"), Value{Kind: Number, End: 2}))
}

func TestIntOf(t *testing.T) {
	t.Parallel()
	rows := []struct {
		doc  string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"-7", -7, true},
		{"1e2", 100, true},
		{"2.0", 2, true},
		{"2.5", 0, false},
		{"9007199254740993", 9007199254740993, true},
		{"123456789012345678901234567890", 0, false},
	}
	for _, row := range rows {
		n, ok := IntOf([]byte(row.doc), Value{Kind: Number, End: len(row.doc)})
		require.Equal(t, row.ok, ok, row.doc)
		require.Equal(t, row.want, n, row.doc)
	}
	_, ok := IntOf([]byte(`"1"`), Value{Kind: String, End: 3})
	require.False(t, ok)
}

func TestSplice(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"a":1,"b":22,"c":3}`)
	rows := []struct {
		name  string
		edits []Edit
		want  string
	}{
		{"none", nil, `{"a":1,"b":22,"c":3}`},
		{"replace", []Edit{{Start: 11, End: 13, Text: []byte(`"x"`)}}, `{"a":1,"b":"x","c":3}`},
		{"remove", []Edit{{Start: 6, End: 13}}, `{"a":1,"c":3}`},
		{"any order", []Edit{{Start: 18, End: 19, Text: []byte("9")}, {Start: 5, End: 6, Text: []byte("8")}}, `{"a":8,"b":22,"c":9}`},
		{"two insertions at one place", []Edit{{Start: 19, End: 19, Text: []byte(",1")}, {Start: 19, End: 19, Text: []byte(",2")}}, `{"a":1,"b":22,"c":3,1,2}`},
		{"at the ends", []Edit{{Start: 0, End: 1, Text: []byte("<")}, {Start: 19, End: 20, Text: []byte(">")}}, `<"a":1,"b":22,"c":3>`},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			segments := Splice(doc, row.edits)
			require.Equal(t, row.want, string(Join(segments)))
			require.Equal(t, len(row.want), Len(segments))
		})
	}
}

func TestAddMember(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ doc, want string }{
		{`{}`, `{"n":1}`}, {`{ }`, `{ "n":1}`}, {`{"a":2}`, `{"a":2,"n":1}`}, {"{\"a\":2 \n}", "{\"a\":2 \n,\"n\":1}"},
	} {
		r, err := NewReader([]byte(row.doc), depth)
		require.NoError(t, err)
		empty := true
		v, err := r.Object(func(Name) error { empty = false; _, err := r.Skip(); return err })
		require.NoError(t, err)
		got := Join(Splice([]byte(row.doc), []Edit{AddMember(v, empty, []byte(`"n":1`))}))
		require.Equal(t, row.want, string(got))
		require.True(t, json.Valid(got))
	}
}

func FuzzReaderAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2,{"b":"\u00e9"}],"c":null}`, `[[[]]]`, `"\ud83d\ude00"`, `-1.5e+10`, `{"a":1,"a":2}`, `tru`, `"\`, `[1,]`, `{"x"}`,
		strings.Repeat(`{"k":[`, 20) + strings.Repeat(`]}`, 20), `"aaaaaaaaaaaaaaaaaaaaaaa\"bbbb"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if !utf8.Valid(doc) || len(doc) > 1<<16 {
			return
		}
		r, err := NewReader(doc, 9000)
		require.NoError(t, err)
		_, err = r.Skip()
		if err == nil {
			err = r.End()
		}
		require.Equal(t, json.Valid(doc), err == nil, "%q: %v", doc, err)
		if err != nil {
			return
		}
		// Walking with callbacks sees the same document, and splicing every value by itself changes nothing.
		var out bytes.Buffer
		require.NoError(t, r.Reset(doc, 9000))
		require.NoError(t, walk(r, doc, &out))
		require.NoError(t, r.End())
	})
}

func FuzzQuoteRoundTrip(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\n\r\t\x00\x1f", "é漢🦊", `{"a":"\n"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		quoted := Quote(s)
		var back string
		require.NoError(t, json.Unmarshal(quoted, &back))
		require.Equal(t, s, back)
		require.Equal(t, s, StringOf(quoted, Value{Kind: String, End: len(quoted)}))
	})
}

func BenchmarkSkip(b *testing.B) {
	doc := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("The quick brown fox. ", 1500) + `"}]}`)
	b.SetBytes(int64(len(doc)))
	b.Run("reader", func(b *testing.B) {
		for b.Loop() {
			r := Reader{}
			_ = r.Reset(doc, depth)
			_, _ = r.Skip()
		}
	})
	b.Run("encoding/json.Valid", func(b *testing.B) {
		for b.Loop() {
			json.Valid(doc)
		}
	})
}
