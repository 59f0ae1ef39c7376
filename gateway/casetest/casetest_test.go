package casetest

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// casesFolder is CASES, or the cases of the corpus.
func casesFolder(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("CASES"); p != "" {
		return p
	}
	corpus := os.Getenv("KVMESH_CORPUS")
	if corpus == "" {
		corpus = filepath.Join("..", "..", "..", "shared", "corpus")
	}
	p := filepath.Join(corpus, "openai-cases")
	require.DirExists(t, p, "set KVMESH_CORPUS to the folder that holds openai-cases, or CASES to a folder of cases")
	return p
}

// TestCases plays every case through REST, and again with a real gRPC connection between the REST edge and the services.
func TestCases(t *testing.T) {
	playBoth(t, casesFolder(t))
}

// TestOwnCases plays the project's own cases in the same way.
func TestOwnCases(t *testing.T) { playBoth(t, filepath.Join("testdata", "cases")) }

func playBoth(t *testing.T, folder string) {
	t.Helper()
	cases, err := Load(folder)
	require.NoError(t, err)
	doors := []struct {
		name string
		door Local
	}{
		{"REST", Local{}},
		{"gRPC", Local{GRPC: true}},
	}
	for _, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			cases := cases
			if d.door.GRPC && os.Getenv("CASES") == "" && os.Getenv("CASES_ALL") == "" {
				cases = every(cases, 8) // make test-cases plays them all through gRPC, in whole meshes
			}
			d.door.Log = slog.New(slog.DiscardHandler)
			results := Play(t.Context(), d.door, cases, lanes, func(r Result) {
				t.Logf("%s was late among others, once more alone: %q", r.Case.ID, r.Faults)
			})
			t.Logf("%s: %s", d.name, Summary(results))
			for _, r := range results {
				if len(r.Faults) > 0 {
					t.Errorf("%s: %q", r.Case.ID, r.Faults)
				}
			}
		})
	}
}

// every is each n-th case.
func every(cases []Case, n int) []Case {
	var out []Case
	for i := 0; i < len(cases); i += n {
		out = append(out, cases[i])
	}
	return out
}

// lanes is how many cases run at once: most of a case is waiting.
const lanes = 8
