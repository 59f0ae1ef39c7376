package jinja

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenCase is a line of a golden file: template and text, or template,
// exception type and message.
type goldenCase []string

func (c goldenCase) cell() cell {
	if len(c) == 2 {
		return cell{Raw: &c[1]}
	}
	return cell{Error: &cellError{Type: c[1], Message: c[2]}}
}

// renderGolden compiles and renders one case.
func renderGolden(source string, vars []Var) (string, error) {
	tmpl, err := Compile(source, Limits{})
	if err != nil {
		return "", err
	}
	out, err := tmpl.Render(context.Background(), nil, Env{Vars: vars, Now: pinnedNow})
	return string(out), err
}

// TestGolden compares with what Jinja2 made of the cases of
// testdata/make_golden.py. KVMESH_JINJA_GOLDEN names a folder with more of them.
func TestGolden(t *testing.T) {
	t.Parallel()
	dirs := []string{filepath.Join("testdata", "golden")}
	if more := os.Getenv("KVMESH_JINJA_GOLDEN"); more != "" {
		dirs = append(dirs, more)
	}
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "context.json"))
		require.NoError(t, err)
		vars := varsOf(t, data)
		files, err := filepath.Glob(filepath.Join(dir, "*_*.json"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				goldenFile(t, file, vars)
			})
		}
	}
}

func goldenFile(t *testing.T, file string, vars []Var) {
	var cases []goldenCase
	readJSON(t, &cases, file)
	wrong := 0
	for _, c := range cases {
		got, err := renderGolden(c[0], vars)
		diff := check(c.cell(), got, err)
		if diff == "" {
			continue
		}
		if wrong++; wrong <= 60 {
			t.Errorf("%s\n%s", c[0], diff)
		}
	}
	t.Logf("%d/%d golden cases", len(cases)-wrong, len(cases))
	require.Zero(t, wrong)
}
