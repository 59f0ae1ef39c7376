// Package cases plays the executable cases of OpenAI behaviour against whole meshes: real adapters, scheduler, template
// and tokenizer service stand between the client and the cases' scripted workers.
package cases

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway/casetest"
)

// sampleOf is the share of cases that a plain test run plays at each door: one of so many. CASES_ALL=1 plays all.
const sampleOf = 16

// load is the cases of the corpus and the project's own, or those of CASES.
func load(t *testing.T, repo string) []casetest.Case {
	t.Helper()
	if p := os.Getenv("CASES"); p != "" {
		cases, err := casetest.Load(p)
		require.NoError(t, err)
		return cases
	}
	corpus := os.Getenv("KVMESH_CORPUS")
	if corpus == "" {
		corpus = filepath.Join(repo, "..", "shared", "corpus")
	}
	folder := filepath.Join(corpus, "openai-cases")
	require.DirExists(t, folder, "set KVMESH_CORPUS to the folder that holds openai-cases, or CASES to a folder of cases")
	cases, err := casetest.Load(folder)
	require.NoError(t, err)
	own, err := casetest.Load(filepath.Join(repo, "gateway", "casetest", "testdata", "cases"))
	require.NoError(t, err)
	return append(cases, own...)
}

// TestCases plays the cases through REST and through gRPC, in one process and in separate ones.
func TestCases(t *testing.T) {
	repo, err := repository()
	require.NoError(t, err)
	cases := load(t, repo)
	p := &ports{}
	doors := []struct {
		name  string
		open  func(t *testing.T) casetest.Door
		lanes int
	}{
		{"REST, one process", func(*testing.T) casetest.Door { return one{repo, p, false} }, lanesOne},
		{"gRPC, one process", func(*testing.T) casetest.Door { return one{repo, p, true} }, lanesOne},
		{"REST, separate processes", func(t *testing.T) casetest.Door { return processes(t, repo, p, cases, false) }, lanesMany},
		{"gRPC, separate processes", func(t *testing.T) casetest.Door { return processes(t, repo, p, cases, true) }, lanesMany},
	}
	for i, d := range doors {
		t.Run(d.name, func(t *testing.T) {
			chosen := cases
			if os.Getenv("CASES_ALL") == "" && os.Getenv("CASES") == "" {
				chosen = sample(cases, i)
			}
			results := casetest.Play(t.Context(), d.open(t), chosen, d.lanes, func(r casetest.Result) {
				t.Logf("%s was late among others, once more alone: %q", r.Case.ID, r.Faults)
			})
			t.Logf("%s: %s", d.name, casetest.Summary(results))
			for _, r := range results {
				require.Empty(t, r.Faults, r.Case.ID)
			}
		})
	}
}

// lanesOne is how many meshes of one process run at once: a start waits more than it computes.
const lanesOne = 8

// lanesMany is how many meshes of processes run at once.
const lanesMany = 4

// processes starts the processes that stay for all cases of a door.
func processes(t *testing.T, repo string, p *ports, cases []casetest.Case, grpc bool) casetest.Door {
	t.Helper()
	m := &many{repo: repo, bin: os.Getenv("KVMESH_BIN"), dir: t.TempDir(), ports: p}
	require.NotEmpty(t, m.bin, "set KVMESH_BIN to the folder that `make build` fills")
	seen := map[string]bool{}
	for i := range cases {
		for _, name := range cases[i].Worker.AllModels() {
			if !seen[name] {
				seen[name] = true
				m.models = append(m.models, name)
			}
		}
	}
	t.Cleanup(func() { require.NoError(t, m.stop()) })
	require.NoError(t, startMany(t.Context(), m, lanesMany), m.lastLines)
	return manyDoor{m, grpc}
}

// sample is every sampleOf-th case from the i-th on. Cases that state times are left to full runs: a plain run shares its
// machine with every other test.
func sample(cases []casetest.Case, i int) []casetest.Case {
	var out []casetest.Case
	for n := i % sampleOf; n < len(cases); n += sampleOf {
		if c := &cases[n]; !c.Timed() && !slices.Contains(c.Expect.After, "no_leak") {
			out = append(out, *c)
		}
	}
	return out
}
