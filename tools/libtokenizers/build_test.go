package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeCargo puts a cargo, rustc and cc of shell scripts before all others. The fake cargo writes an archive that names
// its inputs and counts its runs in a file.
func fakeCargo(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	for name, body := range map[string]string{"cargo": script, "rustc": "echo rustc 1.95.0", "cc": "true"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

const goodCargo = `mkdir -p "$CARGO_TARGET_DIR/release"
echo "$@ from $DAULET_TOKENIZERS_DIR" > "$CARGO_TARGET_DIR/release/libtokenizers.a"
echo run >> "$FAKE_CARGO_RUNS"`

// checkout makes the inputs of an archive.
func checkout(t *testing.T) inputs {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"native/Cargo.toml": "[package]", "native/Cargo.lock": "version = 4", "native/src/lib.rs": "mod a;", "native/src/a.rs": "",
		"binding/src/lib.rs": "// theirs",
	} {
		write(t, filepath.Join(root, name), content)
	}
	return inputs{native: filepath.Join(root, "native"), binding: filepath.Join(root, "binding")}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func key(t *testing.T, in inputs, compiler string) string {
	t.Helper()
	k, err := in.key(compiler)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestKeyChangesWithEachInput(t *testing.T) {
	in := checkout(t)
	seen := map[string]string{key(t, in, "rustc 1"): "nothing"}
	note := func(what, k string) {
		if before, ok := seen[k]; ok {
			t.Errorf("%s gives the key of %s", what, before)
		}
		seen[k] = what
	}
	note("compiler", key(t, in, "rustc 2"))
	for _, file := range []string{"Cargo.toml", "Cargo.lock", "src/lib.rs", "src/a.rs", "src/new.rs"} {
		write(t, filepath.Join(in.native, file), "changed "+file)
		note(file, key(t, in, "rustc 1"))
	}
	write(t, filepath.Join(in.binding, "src", "lib.rs"), "changed")
	note("binding", key(t, in, "rustc 1"))
	if key(t, in, "rustc 1") != key(t, in, "rustc 1") {
		t.Error("the key is not stable")
	}
	if err := os.Remove(filepath.Join(in.native, "Cargo.lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := in.key("rustc 1"); err == nil {
		t.Error("a missing input has a key")
	}
}

func TestEnsureBuildsOnce(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	t.Setenv("FAKE_CARGO_RUNS", runs)
	fakeCargo(t, goodCargo)
	in := checkout(t)
	dir := filepath.Join(t.TempDir(), "cache", "k1")
	var out bytes.Buffer
	for range 3 {
		if err := ensure(context.Background(), dir, in, &out); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(read(t, runs), "run"); got != 1 {
		t.Errorf("cargo ran %d times", got)
	}
	want := "build --release --locked from " + in.binding + "\n"
	if got := read(t, filepath.Join(dir, "libtokenizers.a")); got != want {
		t.Errorf("archive %q, want %q", got, want)
	}
	if _, err := os.Stat(dir + ".build"); err == nil {
		t.Error("the build folder was left")
	}
	if !strings.Contains(out.String(), "building once") || !strings.Contains(out.String(), "up to date") {
		t.Errorf("progress %q", out.String())
	}
}

func TestEnsureAtOnce(t *testing.T) {
	runs := filepath.Join(t.TempDir(), "runs")
	t.Setenv("FAKE_CARGO_RUNS", runs)
	fakeCargo(t, goodCargo)
	in, dir := checkout(t), filepath.Join(t.TempDir(), "k1")
	results := make(chan error, 4)
	for range cap(results) {
		go func() { results <- ensure(context.Background(), dir, in, &bytes.Buffer{}) }()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if got := strings.Count(read(t, runs), "run"); got != 1 {
		t.Errorf("cargo ran %d times", got)
	}
}

func TestFailedBuildLeavesNoArchive(t *testing.T) {
	fakeCargo(t, "echo no such crate >&2; exit 101")
	in, dir := checkout(t), filepath.Join(t.TempDir(), "k1")
	var out bytes.Buffer
	err := ensure(context.Background(), dir, in, &out)
	if err == nil || !strings.Contains(err.Error(), "tokenizer-svc/native") {
		t.Errorf("error %v", err)
	}
	if !strings.Contains(out.String(), "no such crate") {
		t.Error("cargo's own words are lost")
	}
	if exists(filepath.Join(dir, "libtokenizers.a")) {
		t.Error("an archive is there")
	}
}

func TestMissingToolsAreNamedAtOnce(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	_, err := findTools()
	for _, tool := range []string{"cargo is missing", "C compiler is missing"} {
		if err == nil || !strings.Contains(err.Error(), tool) {
			t.Errorf("error %v does not say %q", err, tool)
		}
	}
}

func TestWriteFlags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hf", "ldflags.go")
	if err := writeFlags(path, "/some where/k1"); err != nil {
		t.Fatal(err)
	}
	text := read(t, path)
	for _, part := range []string{"//go:build cgo && !nohf", `// #cgo LDFLAGS: "-L/some where/k1"`, "DO NOT EDIT", "package hf"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFlags(path, "/some where/k1"); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !before.ModTime().Equal(after.ModTime()) {
		t.Error("an equal file was written again")
	}
	if err := writeFlags(path, `/a"b`); err == nil {
		t.Error("a quote in the path was taken")
	}
}

func TestFindRoot(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "go.work"), "")
	write(t, filepath.Join(root, "a", "b", "x"), "")
	t.Chdir(filepath.Join(root, "a", "b"))
	got, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	if got != want && got != root {
		t.Errorf("root %q, want %q", got, root)
	}
	t.Chdir(t.TempDir())
	if _, err := findRoot(); err == nil {
		t.Error("a root outside of any checkout")
	}
}
