package value

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

func TestFloatRepr(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0.0"},
		{math.Copysign(0, -1), "-0.0"},
		{1, "1.0"},
		{0.1, "0.1"},
		{1e15, "1000000000000000.0"},
		{1e16, "1e+16"},
		{1.5e16, "1.5e+16"},
		{1e-4, "0.0001"},
		{1e-5, "1e-05"},
		{1e100, "1e+100"},
		{123456789.125, "123456789.125"},
		{math.Inf(1), "inf"},
		{math.Inf(-1), "-inf"},
		{math.NaN(), "nan"},
		{5e-324, "5e-324"},
		{math.MaxFloat64, "1.7976931348623157e+308"},
	} {
		require.Equal(t, c.want, FloatRepr(c.f))
	}
}

func TestReprString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"plain", "abc", "'abc'"},
		{"single quote", "it's", `"it's"`},
		{"both quotes", `'"`, `'\'"'`},
		{"double quote", `"`, `'"'`},
		{"controls", "\x00\a\n\r\t\x7f", `'\x00\x07\n\r\t\x7f'`},
		{"backslash", `\`, `'\\'`},
		{"printable", "é日😀", "'é日😀'"},
		{"spaces", "\u00a0\u2028\u3000", `'\xa0\u2028\u3000'`},
		{"format and private", "\u200b\ue000\U000e0001", `'\u200b\ue000\U000e0001'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, ReprString(c.in))
		})
	}
	require.Equal(t, `'\xe9\u65e5\U0001f600'`, ASCIIRepr("'é日😀'"))
}

func TestCasing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		f    func(string) string
		in   string
		want string
	}{
		{"upper sharp s", Upper, "straße", "STRASSE"},
		{"upper ligature", Upper, "ﬁx", "FIX"},
		{"upper iota", Upper, "ᾳ", "ΑΙ"},
		{"lower final sigma", Lower, "ΑΣ ΣΑΣ Σ", "ας σας σ"},
		{"lower sigma before sign", Lower, "ΑΣ'", "ας'"},
		{"lower sigma in word", Lower, "ΑΣ'Α", "ασ'α"},
		{"lower dotted I", Lower, "İ", "i̇"},
		{"title", Title, "it's x1y ǆ", "It'S X1Y ǅ"},
		{"capitalize", Capitalize, "éCOLE", "École"},
		{"capitalize digraph", Capitalize, "ǆA", "ǅa"},
		{"swapcase", SwapCase, "aBß", "AbSS"},
		{"casefold", Casefold, "ẞSſ", "sssS"[:3] + "s"},
		{"casefold Cherokee", Casefold, "Ꭰꭰᏸ", "ᎠᎠᏰ"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, c.f(c.in))
		})
	}
}

func TestSplits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		got, want []string
	}{
		{"space", SplitSpace("  a \u00a0b\tc ", -1), []string{"a", "b", "c"}},
		{"space once", SplitSpace(" a  b c ", 1), []string{"a", "b c "}},
		{"space never", SplitSpace(" a b ", 0), []string{"a b "}},
		{"space of nothing", SplitSpace("  ", -1), nil},
		{"from the right", RSplitSpace(" a b  c ", 1), []string{" a b", "c"}},
		{"from the right all", RSplitSpace(" a b ", -1), []string{"a", "b"}},
		{"separator from the right", RSplit("a,b,c", ",", 1), []string{"a,b", "c"}},
		{"separator all", RSplit("a,b,c", ",", -1), []string{"a", "b", "c"}},
		{"lines", SplitLines("a\nb\r\nc\rd\ve\x1cf\u0085g\u2028h\n", false), []string{"a", "b", "c", "d", "e", "f", "g", "h"}},
		{"lines with ends", SplitLines("a\r\n\nb", true), []string{"a\r\n", "\n", "b"}},
		{"no lines", SplitLines("", false), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(c.want, c.got))
		})
	}
}

// TestSplitBounds checks the bounds that are charged before a split.
func TestSplitBounds(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	alphabet := []string{"a", " ", "\n", "\r", "\u0085", "\u2028", "\u3000", "é", "\x1c", "\t", "\v"}
	for range 500 {
		var b strings.Builder
		for range rnd.IntN(30) {
			b.WriteString(alphabet[rnd.IntN(len(alphabet))])
		}
		s := b.String()
		require.LessOrEqual(t, len(SplitLines(s, false)), CountLines(s), "%q", s)
		require.LessOrEqual(t, len(SplitSpace(s, -1)), CountSpaces(s)+1, "%q", s)
	}
}

func TestParseNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		base int
		want string
	}{
		{" 12 ", 10, "12"},
		{"-7", 10, "-7"},
		{"+1_000", 10, "1000"},
		{"1__0", 10, ""},
		{"_1", 10, ""},
		{"0x1f", 16, "31"},
		{"0x1f", 0, "31"},
		{"0b101", 0, "5"},
		{"0o17", 0, "15"},
		{"017", 0, ""},
		{"00", 0, "0"},
		{"017", 10, "17"},
		{"zz", 36, "1295"},
		{"", 10, ""},
		{"-", 10, ""},
		{"1.5", 10, ""},
		{"٣٤", 10, "34"},
		{"９", 10, "9"},
		{"𝟗", 10, "9"},
		{"99999999999999999999", 10, "99999999999999999999"},
		{"--1", 10, ""},
	} {
		v, ok, err := ParseInt(c.in, c.base)
		require.NoError(t, err)
		require.Equal(t, c.want != "", ok, c.in)
		if ok {
			require.Equal(t, c.want, repr(t, v), c.in)
		}
	}
	for in, want := range map[string]string{
		"1.5": "1.5", " -1e3 ": "-1000.0", "1_0.5": "10.5", "inf": "inf", "-Infinity": "-inf", "nan": "nan", "1_": "", "0x1p3": "", "": "", "a": "",
	} {
		f, ok := ParseFloat(in)
		require.Equal(t, want != "", ok, in)
		if ok {
			require.Equal(t, want, FloatRepr(f), in)
		}
	}
}

// TestSortAgainstModel compares with a stable sort of the standard library, of
// lengths below and above the switch of methods.
func TestSortAgainstModel(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		keys := make([]Value, rnd.IntN(150))
		for i := range keys {
			keys[i] = Int(int64(rnd.IntN(20)))
		}
		for _, reversed := range []bool{false, true} {
			want := make([]int, len(keys))
			for i := range want {
				want[i] = i
			}
			sort.SliceStable(want, func(a, b int) bool {
				if reversed {
					return keys[want[a]].AsInt() > keys[want[b]].AsInt()
				}
				return keys[want[a]].AsInt() < keys[want[b]].AsInt()
			})
			got, err := SortOrder(meter(), keys, reversed)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
		}
	}
}

// TestPowers checks the correctly rounded power against exact products.
func TestPowers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ x, y, want float64 }{
		{1e20, 7, 1e140}, {10, -3, 0.001}, {2, 0.5, math.Sqrt2}, {-2, 3, -8}, {1e20, 2.5, 1e50}, {9, 1.5, 27}, {0, 0, 1}, {2, -1074, 5e-324},
	} {
		require.Equal(t, c.want, powFloat(c.x, c.y), "%v ** %v", c.x, c.y)
	}
}
