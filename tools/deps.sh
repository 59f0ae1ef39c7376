#!/usr/bin/env bash
# Says in one sentence what is missing to build kvmesh. Arguments: the tools to look for.
set -euo pipefail
missing=0
say() { echo "kvmesh: $1" >&2; missing=1; }
for tool in "$@"; do
  case "$tool" in
    go) command -v go >/dev/null || say "Go is missing: install Go $(sed -n 's/^go //p' go.work) or newer from your package manager or go.dev." ;;
    cc) command -v "${CC:-cc}" >/dev/null || say "a C compiler is missing (the tokenizer links C code): install gcc and g++ (Debian: apt-get install g++)." ;;
    cargo) command -v cargo >/dev/null || say "cargo is missing (the tokenizer library is Rust): install Rust with rustup or your package manager (Debian: apt-get install cargo)." ;;
    python3) command -v python3 >/dev/null || say "python3 is missing (it drives the official OpenAI client): install Python 3.10 or newer with venv (Debian: apt-get install python3-venv)." ;;
  esac
done
exit "$missing"
