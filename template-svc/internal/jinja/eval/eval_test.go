package eval

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// TestSliceBounds compares with a naive walk over indices for small sequences.
func TestSliceBounds(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 8))
	part := func() value.Value {
		if rnd.IntN(4) == 0 {
			return value.None
		}
		return value.Int(int64(rnd.IntN(15) - 7))
	}
	for range 3000 {
		n := rnd.IntN(6)
		b := [3]value.Value{part(), part(), part()}
		if !b[2].IsNone() && b[2].AsInt() == 0 {
			continue
		}
		start, stop, step, err := bounds(b, n)
		require.NoError(t, err)
		var got []int
		for i := range members(start, stop, step) {
			got = append(got, start+i*step)
		}
		require.Empty(t, cmp.Diff(naiveSlice(b, n), got), "%v of %d", b, n)
	}
}

// naiveSlice lists the indices of a slice as the language reference defines it.
func naiveSlice(b [3]value.Value, n int) []int {
	step := 1
	if !b[2].IsNone() {
		step = int(b[2].AsInt())
	}
	pick := func(v value.Value, none int) int {
		if v.IsNone() {
			return none
		}
		i := int(v.AsInt())
		if i < 0 {
			i += n
		}
		return i
	}
	var out []int
	if step > 0 {
		for i := pick(b[0], 0); i < pick(b[1], n); i++ {
			if i >= 0 && i < n && (i-max(pick(b[0], 0), 0))%step == 0 {
				out = append(out, i)
			}
		}
		return out
	}
	first := min(pick(b[0], n-1), n-1)
	for i := first; i > pick(b[1], -1); i-- {
		if i >= 0 && (first-i)%-step == 0 {
			out = append(out, i)
		}
	}
	return out
}

func TestSignature(t *testing.T) {
	t.Parallel()
	sig := &signature{name: "f", required: 2, hidden: 1, params: []string{"a", "b", "c"}}
	one := newSignature("g", 1, "x")
	v := value.Int(1)
	for _, c := range []struct {
		name string
		sig  *signature
		args args
		want string
	}{
		{"all by place", sig, args{pos: []value.Value{v, v, v}}, ""},
		{"by name", sig, args{pos: []value.Value{v}, kw: []keyword{{"c", v}, {"b", v}}}, ""},
		{"none", sig, args{}, "f() missing 2 required positional arguments: 'a' and 'b'"},
		{"one missing", sig, args{pos: []value.Value{v}}, "f() missing 1 required positional argument: 'b'"},
		{"too many", sig, args{pos: []value.Value{v, v, v, v}}, "f() takes from 3 to 4 positional arguments but 5 were given"},
		{"unknown name", sig, args{pos: []value.Value{v, v}, kw: []keyword{{"z", v}}}, "f() got an unexpected keyword argument 'z'"},
		{"twice", sig, args{pos: []value.Value{v, v}, kw: []keyword{{"a", v}}}, "f() got multiple values for argument 'a'"},
		{"single parameter", one, args{pos: []value.Value{v, v}}, "g() takes 1 positional argument but 2 were given"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := c.sig.bind(&c.args)
			if c.want == "" {
				require.NoError(t, err)
				require.Len(t, b, len(c.sig.params))
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestStrftimeWeeks compares week numbers with the definition: the week of the
// year counts the first day of the week up to that date.
func TestStrftimeWeeks(t *testing.T) {
	t.Parallel()
	for year := 2018; year <= 2028; year++ {
		sundays, mondays := 0, 0
		for d := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); d.Year() == year; d = d.AddDate(0, 0, 1) {
			switch d.Weekday() {
			case time.Sunday:
				sundays++
			case time.Monday:
				mondays++
			}
			require.Equal(t, fmt.Sprintf("%02d %02d", sundays, mondays), strftime(d, "%U %W"), d)
		}
	}
}

func TestStrftime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 5, 4, 7, 9, 123456000, time.UTC)
	for _, c := range []struct{ format, want string }{
		{"%d %b %Y", "05 Mar 2026"},
		{"%-d/%-m", "5/3"},
		{"%_d|%e", " 5| 5"},
		{"%A %a %B %h", "Thursday Thu March Mar"},
		{"%H %I %p %M %S", "04 04 AM 07 09"},
		{"%j %w %u", "064 4 4"},
		{"%F %T %D %R", "2026-03-05 04:07:09 03/05/26 04:07"},
		{"%f", "123456"},
		{"%c", "Thu Mar  5 04:07:09 2026"},
		{"%%|%n|%t", "%|\n|\t"},
		{"%Z|%z", "|"},
		{"%^b %5d", "MAR 00005"},
		{"%q", "%q"},
		{"%", "%"},
		{"%y %C %G %V", "26 20 2026 10"},
	} {
		require.Equal(t, c.want, strftime(at, c.format), c.format)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		w    wrapper
		in   string
		want []string
	}{
		{"words", wrapper{10, true, true}, "the quick brown fox", []string{"the quick", "brown fox"}},
		{"hyphens", wrapper{6, true, true}, "well-known", []string{"well-", "known"}},
		{"no hyphens", wrapper{6, true, false}, "well-known", []string{"well-k", "nown"}},
		{"long word", wrapper{4, true, true}, "abcdefghij", []string{"abcd", "efgh", "ij"}},
		{"long word kept", wrapper{4, false, true}, "abcdefghij k", []string{"abcdefghij", "k"}},
		{"dashes", wrapper{4, true, true}, "ab--cd", []string{"ab--", "cd"}},
		{"nothing", wrapper{4, true, true}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Empty(t, cmp.Diff(c.want, c.w.wrap(c.in)))
		})
	}
}
