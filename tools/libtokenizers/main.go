// Command libtokenizers builds the static archive that tokenizer-svc links and points cgo at it.
//
// The archive holds daulet/tokenizers' own Rust source (read from the Go module cache), kvmesh's entry points and
// fastokens; its manifest is tokenizer-svc/native. It is built once per content key (compiler version, manifest, lock
// file, sources) into the user's cache, where every checkout of the machine finds it again, and
// tokenizer-svc/internal/hf/ldflags.go, which git ignores, names that folder. The go command does not look inside
// archives: only a changed folder name makes it link again, so the key is part of the path.
//
// From the repository root:
//
//	GOWORK=off go -C tools run ./libtokenizers
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// binding is the Go module whose Rust source is compiled.
const binding = "github.com/daulet/tokenizers"

func main() {
	cache := flag.String("cache", os.Getenv("KVMESH_NATIVE_CACHE"), "folder for built archives (default: the user's cache)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *cache, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "libtokenizers:", err)
		stop()
		os.Exit(1)
	}
}

// run makes sure that the archive for this checkout exists and that ldflags.go names it.
func run(ctx context.Context, cache string, out io.Writer) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the user's cache folder (set KVMESH_NATIVE_CACHE): %w", err)
		}
		cache = filepath.Join(base, "kvmesh", "libtokenizers")
	}
	tools, err := findTools()
	if err != nil {
		return err
	}
	svc := filepath.Join(root, "tokenizer-svc")
	source, err := bindingDir(ctx, svc)
	if err != nil {
		return err
	}
	in := inputs{native: filepath.Join(svc, "native"), binding: source}
	key, err := in.key(tools.version)
	if err != nil {
		return err
	}
	dir := filepath.Join(cache, key)
	if err := ensure(ctx, dir, in, out); err != nil {
		return err
	}
	return writeFlags(filepath.Join(svc, "internal", "hf", "ldflags.go"), dir)
}

// ensure builds the archive into dir unless it is there. Two runs at once wait for one another.
func ensure(ctx context.Context, dir string, in inputs, out io.Writer) error {
	archive := filepath.Join(dir, "libtokenizers.a")
	if exists(archive) {
		fmt.Fprintln(out, "libtokenizers: up to date")
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if exists(archive) {
		return nil
	}
	fmt.Fprintln(out, "libtokenizers: building once for this machine, 2 to 4 minutes")
	start := time.Now()
	built, cleanup, err := in.build(ctx, dir+".build", out)
	if err != nil {
		return err
	}
	defer cleanup()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the archive's folder: %w", err)
	}
	if err := os.Rename(built, archive); err != nil {
		return fmt.Errorf("put the archive in place: %w", err)
	}
	fmt.Fprintf(out, "libtokenizers: built in %s\n", time.Since(start).Round(time.Second))
	return nil
}

// findRoot returns the nearest folder above the working directory that holds go.work.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if exists(filepath.Join(dir, "go.work")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.work above the working directory: run this inside the repository")
		}
		dir = parent
	}
}

// exists reports whether there is anything at path.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
