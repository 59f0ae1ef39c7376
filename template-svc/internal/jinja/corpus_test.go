package jinja

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// corpusDir finds the corpus: KVMESH_CORPUS or the folder beside the
// repository.
func corpusDir(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("KVMESH_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpus")
	}
	_, err := os.Stat(filepath.Join(dir, "oracle", "index.json"))
	require.NoError(tb, err, "the corpus is missing: set KVMESH_CORPUS to its folder")
	return dir
}

func readJSON(tb testing.TB, into any, path ...string) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(data, into), path)
}

// cellError is a failed cell.
type cellError struct{ Type, Message string }

// cell is what Python gives for one template and scenario.
type cell struct {
	Raw   *string
	Error *cellError
}

type cellFile struct {
	File, Source string
	Cells        map[string]cell
}

// scenarioVars gives the variables of every scenario.
func scenarioVars(tb testing.TB, dir string) map[string][]Var {
	tb.Helper()
	var file struct {
		Scenarios map[string]struct{ Context json.RawMessage }
	}
	readJSON(tb, &file, dir, "oracle", "scenarios.json")
	out := map[string][]Var{}
	for name, s := range file.Scenarios {
		out[name] = varsOf(tb, s.Context)
	}
	return out
}

func varsOf(tb testing.TB, object []byte) []Var {
	tb.Helper()
	v, err := value.FromJSON(object)
	require.NoError(tb, err)
	var vars []Var
	for _, e := range v.AsDict().Entries() {
		vars = append(vars, Var{Name: e.Key.AsStr(), Value: e.Val})
	}
	return vars
}

// pinnedNow is the clock the oracle was made with.
func pinnedNow() time.Time { return time.Date(2026, 3, 5, 14, 7, 9, 0, time.UTC) }

func cellFiles(tb testing.TB, dir string) []cellFile {
	tb.Helper()
	var index []struct {
		CellFile string `json:"cell_file"`
	}
	readJSON(tb, &index, dir, "oracle", "index.json")
	files := make([]cellFile, len(index))
	for i := range index {
		readJSON(tb, &files[i], dir, "oracle", index[i].CellFile)
	}
	return files
}

// difference shows the first place where two texts part.
func difference(want, got string) string {
	i := 0
	for i < len(want) && i < len(got) && want[i] == got[i] {
		i++
	}
	show := func(s string) string { return s[max(0, i-60):min(len(s), i+60)] }
	return "want …" + show(want) + "…\n got …" + show(got) + "…"
}

// check compares one render with its cell; "" if they are equal.
func check(want cell, got string, err error) string {
	if err == nil {
		switch {
		case want.Raw == nil:
			return "want " + want.Error.Type + ": " + want.Error.Message + ", got text"
		case *want.Raw != got:
			return difference(*want.Raw, got)
		}
		return ""
	}
	e, ok := err.(*Error)
	switch {
	case !ok:
		return "got " + err.Error()
	case want.Error == nil:
		return "want text, got " + e.Error()
	case want.Error.Type != e.Type || want.Error.Message != e.Message:
		return "want " + want.Error.Type + ": " + want.Error.Message + ", got " + e.Error()
	}
	return ""
}

func TestCorpus(t *testing.T) {
	t.Parallel()
	dir := corpusDir(t)
	vars := scenarioVars(t, dir)
	total, equal, shown := 0, 0, 0
	for _, file := range cellFiles(t, dir) {
		tmpl, err := Compile(file.Source, Limits{})
		total += len(file.Cells)
		if err != nil {
			t.Errorf("%s: %v", file.File, err)
			continue
		}
		wrong := 0
		for name, want := range file.Cells {
			out, err := tmpl.Render(context.Background(), nil, Env{Vars: vars[name], Now: pinnedNow})
			if diff := check(want, string(out), err); diff != "" {
				if wrong++; wrong == 1 && shown < 40 {
					shown++
					t.Errorf("%s / %s:\n%s", file.File, name, diff)
				}
			}
		}
		equal += len(file.Cells) - wrong
	}
	t.Logf("%d/%d cells", equal, total)
	require.Equal(t, 17204, total, "the corpus changed")
	require.Equal(t, total, equal)
}

func TestCorpusAST(t *testing.T) {
	t.Parallel()
	dir := corpusDir(t)
	var meta []struct {
		File       string
		Undeclared []string
		Old        string `json:"content_format"`
		New        string `json:"content_format_0_32"`
	}
	readJSON(t, &meta, dir, "oracle", "meta.json")
	good := 0
	for _, m := range meta {
		source, err := os.ReadFile(filepath.Join(dir, "templates", filepath.FromSlash(m.File)))
		require.NoError(t, err)
		tmpl, err := Compile(string(source), Limits{})
		require.NoError(t, err, m.File)
		got := append([]string{}, tmpl.Undeclared()...)
		ok := len(got) == len(m.Undeclared)
		for i := range got {
			ok = ok && got[i] == m.Undeclared[i]
		}
		if !ok {
			t.Errorf("%s: undeclared\nwant %q\n got %q", m.File, m.Undeclared, got)
		}
		if tmpl.ContentFormat() != m.New || tmpl.ContentFormatOld() != m.Old {
			t.Errorf("%s: format want %s (old %s), got %s (old %s)", m.File, m.New, m.Old,
				tmpl.ContentFormat(), tmpl.ContentFormatOld())
			ok = false
		}
		if ok {
			good++
		}
	}
	t.Logf("%d/%d AST", good, len(meta))
	require.Len(t, meta, 391)
	require.Equal(t, len(meta), good)
}
