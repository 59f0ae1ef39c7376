package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// toolchain is what a build needs besides Go.
type toolchain struct{ version string }

// findTools checks for cargo and a C compiler and reads the compiler's version. Every missing tool is named at once.
func findTools() (toolchain, error) {
	var missing []error
	if _, err := exec.LookPath("cargo"); err != nil {
		missing = append(missing, errors.New("cargo is missing: install Rust 1.85 or newer (Debian: rustup)"))
	}
	if !anyTool(os.Getenv("CC"), "cc", "gcc", "clang") {
		missing = append(missing, errors.New("a C compiler is missing: install gcc or clang (Debian: build-essential)"))
	}
	if err := errors.Join(missing...); err != nil {
		return toolchain{}, err
	}
	version, err := exec.Command("rustc", "-vV").Output()
	if err != nil {
		return toolchain{}, fmt.Errorf("ask rustc for its version: %w", err)
	}
	return toolchain{version: string(version) + os.Getenv("RUSTFLAGS")}, nil
}

// anyTool reports whether one of the programs is on the path.
func anyTool(names ...string) bool {
	for _, name := range names {
		if name == "" {
			continue
		}
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}

// bindingDir returns the folder of the binding's source in the module cache, downloading it first.
func bindingDir(ctx context.Context, module string) (string, error) {
	if out, err := goCommand(ctx, module, "mod", "download", binding); err != nil {
		return "", fmt.Errorf("download %s: %w\n%s", binding, err, out)
	}
	out, err := goCommand(ctx, module, "list", "-m", "-f", "{{.Dir}}", binding)
	if err != nil {
		return "", fmt.Errorf("find the source of %s: %w\n%s", binding, err, out)
	}
	dir := strings.TrimSpace(out)
	if dir == "" {
		return "", fmt.Errorf("the go command knows no source folder of %s (a vendored tree has none)", binding)
	}
	return dir, nil
}

// goCommand runs go in the module alone: the workspace's other modules need not resolve for this.
func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stderr.String(), err
	}
	return stdout.String(), nil
}

// inputs are the folders whose content decides what the archive holds.
type inputs struct{ native, binding string }

// files lists the inputs in a fixed order.
func (in inputs) files() ([]string, error) {
	sources, err := filepath.Glob(filepath.Join(in.native, "src", "*.rs"))
	if err != nil {
		return nil, err
	}
	slices.Sort(sources)
	files := []string{filepath.Join(in.native, "Cargo.toml"), filepath.Join(in.native, "Cargo.lock")}
	return append(append(files, sources...), filepath.Join(in.binding, "src", "lib.rs")), nil
}

// key names the archive: equal keys mean equal compiler and equal inputs.
func (in inputs) key(compiler string) (string, error) {
	files, err := in.files()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%d %s", len(compiler), compiler)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read an input of the archive: %w", err)
		}
		fmt.Fprintf(sum, "%s %d ", filepath.Base(file), len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// build compiles the archive below target and returns its path and a function that removes target.
func (in inputs) build(ctx context.Context, target string, out io.Writer) (string, func(), error) {
	cmd := exec.CommandContext(ctx, "cargo", "build", "--release", "--locked")
	cmd.Dir = in.native
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CARGO_BUILD_TARGET=") })
	cmd.Env = append(env, "DAULET_TOKENIZERS_DIR="+in.binding, "CARGO_TARGET_DIR="+target)
	cmd.Stdout, cmd.Stderr = out, out
	// Cargo passes an interrupt on to its compilers; a kill would leave them running.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return "", nil, fmt.Errorf("cargo build in tokenizer-svc/native: %w", err)
	}
	return filepath.Join(target, "release", "libtokenizers.a"), func() { _ = os.RemoveAll(target) }, nil
}

// lock takes the file's lock, waiting for its holder.
func lock(path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the build lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("take the build lock: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// writeFlags writes the Go file that tells cgo where the archive lies, unless it says so already.
func writeFlags(path, dir string) error {
	if strings.ContainsAny(dir, "\"'\\\n") {
		return fmt.Errorf("cgo refuses the quote or backslash in the cache folder %q: set KVMESH_NATIVE_CACHE", dir)
	}
	text := fmt.Sprintf("//go:build cgo && !nohf\n\n// Code generated by libtokenizers. DO NOT EDIT.\n\npackage hf\n\n"+
		"// #cgo LDFLAGS: \"-L%s\"\nimport \"C\"\n", dir)
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the binding's folder: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write cgo's flags: %w", err)
	}
	return nil
}
