package steady_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/steady"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// TestLooks plays stamps, one letter each. "x>y" is a look at x with y found after the reading, if there is one. The
// outcome of each look is "." (nothing is read), "+" (read) or "!" (read and thrown away).
func TestLooks(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		looks []string
		want  string
	}{
		{"the first look reads", []string{"a>a"}, "+"},
		{"an empty stamp is one too", []string{">", ">"}, "+."},
		{"what is read is not read again", []string{"a>a", "a>a", "a>a"}, "+.."},
		{"a new stamp is read when it is seen twice", []string{"a>a", "b>b", "b>b", "b>b"}, "+.+."},
		{"one that changes at every look is never read", []string{"a>a", "b>b", "c>c", "d>d", "e>e"}, "+...."},
		{"half a file and the rest", []string{"a>a", "b>b", "c>c", "c>c"}, "+..+"},
		{"there and back is no change", []string{"a>a", "b>b", "a>a", "a>a", "b>b", "b>b"}, "+....+"},
		{"changed while it was read", []string{"a>a", "b>b", "b>c", "c>c", "c>c"}, "+.!+."},
		{"changed again while it was read again", []string{"a>a", "b>b", "b>c", "c>d", "e>e", "e>e"}, "+.!!.+"},
		{"changed back while it was read", []string{"a>a", "b>b", "b>a", "a>a", "a>a"}, "+.!.."},
		{"the first reading is thrown away too", []string{"a>b", "b>b", "b>b"}, "!+."},
		{"the first is thrown away, and then it is written on", []string{"a>b", "c>c", "c>c"}, "!.+"},
		{"thrown away, then as it was", []string{"a>b", "a>a", "a>a"}, "!.+"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var files steady.Files
			got := ""
			for _, look := range row.looks {
				before, after, _ := strings.Cut(look, ">")
				switch {
				case !files.Look(before):
					got += "."
				case files.Took(after):
					got += "+"
				default:
					got += "!"
				}
			}
			require.Equal(t, row.want, got)
		})
	}
}

// TestNothingHalfWrittenIsTaken lets a writer go on for up to four steps at a time, with pauses of two looks or more
// between files: no half-written state is ever taken, and each finished one is.
func TestNothingHalfWrittenIsTaken(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var files steady.Files
		version, half, taken := 0, false, -1
		stamp := func() string { return fmt.Sprint(version) }
		look := func(writing bool) {
			if !files.Look(stamp()) {
				return
			}
			began, broken := version, half
			if writing && rng.IntN(2) == 0 {
				version++
			}
			if files.Took(stamp()) {
				require.False(t, broken, "seed %d: half a file was taken", seed)
				taken = began
			}
		}
		look(false)
		for range 20 {
			half = true
			for range rng.IntN(4) + 1 { // the writer never pauses for a whole interval
				version++
				look(true)
			}
			half = false
			version++
			for range 3 + rng.IntN(3) {
				look(false)
			}
			require.Equal(t, version, taken, "seed %d: a finished file was not taken", seed)
		}
	}
}
