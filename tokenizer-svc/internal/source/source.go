// Package source finds a model's files on disk: a directory in Hugging Face layout, or a folder of the Hugging Face
// cache (models--org--name with refs and snapshots).
package source

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Directory returns the directory that holds the files of a model. path is that directory, a cache folder
// models--org--name, or a cache root that has the folder of this model. revision is a branch, tag or commit of a cache
// folder; empty means main, or the only snapshot there is.
func Directory(path, model, revision string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", path)
	}
	if isDir(filepath.Join(path, "snapshots")) {
		return snapshot(path, revision)
	}
	if folder := filepath.Join(path, CacheFolder(model)); isDir(folder) {
		return snapshot(folder, revision)
	}
	return path, nil
}

// CacheFolder is the name of a model's folder in a Hugging Face cache.
func CacheFolder(model string) string { return "models--" + strings.ReplaceAll(model, "/", "--") }

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// snapshot returns the directory of a revision in a cache folder.
func snapshot(folder, revision string) (string, error) {
	name := revision
	if name == "" {
		name = "main"
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("revision %q is no name", revision)
	}
	commit, err := os.ReadFile(filepath.Join(folder, "refs", name))
	if err == nil {
		name = strings.TrimSpace(string(commit))
	}
	if dir := filepath.Join(folder, "snapshots", name); filepath.IsLocal(name) && isDir(dir) {
		return dir, nil
	}
	if revision != "" {
		return "", fmt.Errorf("revision %q is not in the cache folder: %w", revision, fs.ErrNotExist)
	}
	return onlySnapshot(folder)
}

// onlySnapshot serves folders that were copied without refs: one snapshot leaves no doubt.
func onlySnapshot(folder string) (string, error) {
	entries, err := os.ReadDir(filepath.Join(folder, "snapshots"))
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("the cache folder has %d snapshots and no refs/main: name a revision", len(entries))
	}
	return filepath.Join(folder, "snapshots", entries[0].Name()), nil
}

// Fingerprint changes when one of the named files of dir is written, replaced, added or removed. It reads no contents.
func Fingerprint(dir string, names []string) (uint64, error) {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s\n", dir)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(sum, "%s none\n", name)
			continue
		}
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(sum, "%s %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	}
	return sum.Sum64(), nil
}
