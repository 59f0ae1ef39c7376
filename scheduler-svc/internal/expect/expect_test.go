package expect

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func at(s int) time.Time { return time.Unix(int64(1000+s), 0) }

func chain(root uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = root*1_000_000 + uint64(i)
	}
	return out
}

func TestExtendFollowsTheLongestCommonPrefix(t *testing.T) {
	t.Parallel()
	base := chain(1, 20)
	fork := append(slices.Clone(base[:12]), chain(2, 8)...)
	rows := []struct {
		name     string
		expected [][]uint64
		rest     []uint64
		want     int
	}{
		{"nothing expected", nil, base, 0},
		{"nothing asked", [][]uint64{base}, nil, 0},
		{"all of it", [][]uint64{base}, base, 20},
		{"shorter than the expectation", [][]uint64{base}, base[:7], 7},
		{"longer than the expectation", [][]uint64{base[:5]}, base, 5},
		{"a fork", [][]uint64{fork}, base, 12},
		{"the better of two", [][]uint64{base[:5], fork}, base, 12},
		{"another beginning", [][]uint64{base[1:]}, base, 0},
		{"beginning behind the confirmed hit", [][]uint64{base[8:]}, base[8:], 12},
		{"one unit", [][]uint64{base[:1]}, base[:1], 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var s Set
			for i, units := range row.expected {
				s.Insert(Expectation{Owner: uint64(i + 1), Units: units, Expires: at(9)})
			}
			require.Equal(t, row.want, s.Extend(row.rest, at(0)))
		})
	}
}

// TestExtendWholeWantsTheEnd: where only the end of a request can be hit, a part of it is worth nothing.
func TestExtendWholeWantsTheEnd(t *testing.T) {
	t.Parallel()
	base := chain(1, 20)
	fork := append(slices.Clone(base[:12]), chain(2, 8)...)
	rows := []struct {
		name     string
		expected [][]uint64
		rest     []uint64
		step     int
		want     int
	}{
		{"nothing expected", nil, base, 1, 0},
		{"nothing asked", [][]uint64{base}, nil, 1, 0},
		{"all of it", [][]uint64{base}, base, 1, 20},
		{"shorter than the expectation", [][]uint64{base}, base[:19], 1, 0},
		{"longer than the expectation", [][]uint64{base[:5]}, base, 1, 5},
		{"a fork", [][]uint64{fork}, base, 1, 0},
		{"the longer of two that fit", [][]uint64{base[:5], base[:8], fork}, base, 1, 8},
		{"whole blocks only", [][]uint64{base[:7]}, base, 4, 4},
		{"less than a block", [][]uint64{base[:3]}, base, 4, 0},
		{"another beginning", [][]uint64{base[1:]}, base, 1, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var s Set
			for i, units := range row.expected {
				s.Insert(Expectation{Owner: uint64(i + 1), Units: units, Expires: at(9)})
			}
			require.Equal(t, row.want, s.ExtendWhole(row.rest, row.step, at(0)))
			require.Zero(t, s.ExtendWhole(row.rest, row.step, at(10)), "expired")
		})
	}
}

// TestOneRequestsEndLeavesTheOthers: references are per request, not per unit.
func TestOneRequestsEndLeavesTheOthers(t *testing.T) {
	t.Parallel()
	var s Set
	base := chain(1, 10)
	s.Insert(Expectation{Owner: 1, Units: base, Expires: at(9)})
	s.Insert(Expectation{Owner: 2, Units: base[:6], Expires: at(9)})
	s.Release(1, false, at(1))
	require.Equal(t, 6, s.Extend(base, at(0)))
	s.Release(1, false, at(1))
	require.Equal(t, 6, s.Extend(base, at(0)), "a second release takes nothing away")
	s.Release(2, true, at(3))
	require.Equal(t, 6, s.Extend(base, at(0)), "an answer may overtake its events")
	require.Zero(t, s.Expire(at(3)))
	require.Equal(t, 1, s.Expire(at(4)))
	require.Zero(t, s.Extend(base, at(0)))
	require.Zero(t, s.Len())
}

func TestConfirmedUnitsAreExpectedNoMore(t *testing.T) {
	t.Parallel()
	var s Set
	base := chain(1, 10)
	s.Insert(Expectation{Owner: 1, Units: base, Expires: at(9)})
	held := map[uint64]bool{}
	for _, u := range base[:4] {
		held[u] = true
	}
	s.Confirm(func(u uint64) bool { return held[u] })
	require.Equal(t, 6, s.Extend(base[4:], at(0)), "the rest stays")
	require.Zero(t, s.Extend(base, at(0)), "an evicted head is not expected again")
	for _, u := range base {
		held[u] = true
	}
	s.Confirm(func(u uint64) bool { return held[u] })
	require.Zero(t, s.Len())
}

func TestKeepOutlivesTheRequestAndExpires(t *testing.T) {
	t.Parallel()
	var s Set
	base := chain(1, 4)
	s.Insert(Expectation{Owner: 1, Units: base, Expires: at(5), Keep: true})
	s.Release(1, true, at(1))
	require.Equal(t, 4, s.Extend(base, at(0)))
	require.Zero(t, s.Expire(at(5)))
	require.Equal(t, 1, s.Expire(at(6)))
	require.Zero(t, s.Extend(base, at(0)))
	s.Insert(Expectation{Owner: 2, Units: base, Expires: at(50), Keep: true})
	s.Release(2, false, at(1))
	require.Zero(t, s.Len(), "a failure is not kept")
}

func TestSetIsBounded(t *testing.T) {
	t.Parallel()
	var s Set
	for i := range uint64(MaxEntries + 10) {
		s.Insert(Expectation{Owner: i + 1, Units: chain(i, 2), Expires: at(9)})
	}
	require.Equal(t, MaxEntries, s.Len())
	require.Zero(t, s.Extend(chain(3, 2), at(0)), "the oldest went")
	require.Equal(t, 2, s.Extend(chain(100, 2), at(0)))
	s.Insert(Expectation{Owner: 1, Expires: at(9)})
	require.Equal(t, MaxEntries, s.Len(), "nothing to expect is no entry")
}

// TestCommonEqualsTheLoop compares halving with the obvious loop, over chains that differ from some unit on.
func TestCommonEqualsTheLoop(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		a := chain(r.Uint64N(5), 1+r.IntN(40))
		same := 1 + r.IntN(len(a))
		b := append(slices.Clone(a[:same]), chain(77, r.IntN(30))...)
		want := 0
		for want < min(len(a), len(b)) && a[want] == b[want] {
			want++
		}
		require.Equal(t, want, common(a, b))
	}
}
