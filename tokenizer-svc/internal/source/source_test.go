package source_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/source"
)

// tree makes files (path: content) and folders (path with a final slash) below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if name[len(name)-1] == '/' {
			require.NoError(t, os.MkdirAll(path, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return root
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	const folder = "models--org--m/"
	rows := []struct {
		name           string
		files          map[string]string
		path, revision string
		want, fails    string
	}{
		{name: "plain directory", files: map[string]string{"m/tokenizer.json": "{}"}, path: "m", want: "m"},
		{
			name: "refs/main", path: folder, want: folder + "snapshots/abc",
			files: map[string]string{folder + "refs/main": "abc\n", folder + "snapshots/abc/": "", folder + "snapshots/def/": ""},
		},
		{
			name: "named branch", path: folder, revision: "dev", want: folder + "snapshots/def",
			files: map[string]string{folder + "refs/dev": "def", folder + "snapshots/abc/": "", folder + "snapshots/def/": ""},
		},
		{
			name: "commit", path: folder, revision: "def", want: folder + "snapshots/def",
			files: map[string]string{folder + "snapshots/abc/": "", folder + "snapshots/def/": ""},
		},
		{name: "only snapshot", path: folder, want: folder + "snapshots/abc", files: map[string]string{folder + "snapshots/abc/": ""}},
		{name: "cache root", path: ".", want: folder + "snapshots/abc", files: map[string]string{folder + "snapshots/abc/": ""}},
		{
			name: "several snapshots and no ref", path: folder, fails: "2 snapshots",
			files: map[string]string{folder + "snapshots/abc/": "", folder + "snapshots/def/": ""},
		},
		{name: "unknown revision", path: folder, revision: "v9", fails: "v9", files: map[string]string{folder + "snapshots/abc/": ""}},
		{name: "revision out of the folder", path: folder, revision: "../../x", fails: "no name", files: map[string]string{folder + "snapshots/abc/": ""}},
		{
			name: "ref out of the folder", path: folder, revision: "main", fails: "not in the cache folder",
			files: map[string]string{folder + "refs/main": "../..", folder + "snapshots/abc/": ""},
		},
		{name: "nothing there", path: "none", fails: "no such file", files: map[string]string{"m/": ""}},
		{name: "a file", path: "m", fails: "not a directory", files: map[string]string{"m": "x"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			root := tree(t, row.files)
			got, err := source.Directory(filepath.Join(root, row.path), "org/m", row.revision)
			if row.fails != "" {
				require.ErrorContains(t, err, row.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, filepath.Join(root, row.want), got)
		})
	}
}

func TestFingerprintChangesWithTheFiles(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"tokenizer.json": "{}"})
	names := []string{"tokenizer.json", "config.json"}
	print := func() uint64 {
		sum, err := source.Fingerprint(root, names)
		require.NoError(t, err)
		return sum
	}
	first := print()
	require.Equal(t, first, print())
	require.NoError(t, os.WriteFile(filepath.Join(root, "other"), nil, 0o600))
	require.Equal(t, first, print(), "a file that does not count")
	require.NoError(t, os.WriteFile(filepath.Join(root, "config.json"), nil, 0o600))
	second := print()
	require.NotEqual(t, first, second, "a file was added")
	past := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(filepath.Join(root, "tokenizer.json"), past, past))
	third := print()
	require.NotEqual(t, second, third, "a file was written again")
	require.NoError(t, os.Remove(filepath.Join(root, "config.json")))
	require.NotEqual(t, third, print(), "a file was removed")
}
