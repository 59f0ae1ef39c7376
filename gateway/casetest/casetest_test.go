package casetest

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
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
			d.door.Log = slog.New(slog.DiscardHandler)
			results := play(t, d.door, cases)
			t.Logf("%s: %s", d.name, Summary(results))
		})
	}
}

// play runs the cases that count goroutines alone and the others a few at a time. A case that only missed a time limit
// of its own among the others is run once more alone, and named.
func play(t *testing.T, door Door, cases []Case) []Result {
	t.Helper()
	results := make([]Result, len(cases))
	var again sync.Mutex
	var slow []int
	alone := false
	one := func(i int) {
		results[i] = Run(context.Background(), door, &cases[i])
		if results[i].OnlyLate() && !alone {
			again.Lock()
			defer again.Unlock()
			slow = append(slow, i)
			return
		}
		if len(results[i].Faults) > 0 {
			t.Errorf("%s: %q", cases[i].ID, results[i].Faults)
		}
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range next {
				one(i)
			}
		})
	}
	for i := range cases {
		if !slices.Contains(cases[i].Expect.After, "no_leak") {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	alone = true
	for _, i := range slow {
		t.Logf("%s was late among others, once more alone: %q", cases[i].ID, results[i].Faults)
		one(i)
	}
	for i := range cases {
		if slices.Contains(cases[i].Expect.After, "no_leak") {
			one(i)
		}
	}
	return results
}
