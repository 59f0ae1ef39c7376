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
    python3) command -v python3 >/dev/null || say "python3 is missing (it drives the official clients): install Python 3.10 or newer with venv (Debian: apt-get install python3-venv)." ;;
    node) { command -v node && node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)'; } >/dev/null || say "node is missing or older than 20 (it drives the official JavaScript client): install Node.js 20 or newer (Debian: apt-get install nodejs)." ;;
    npm) command -v npm >/dev/null || say "npm is missing (it installs the official JavaScript client): install npm (Debian: apt-get install npm)." ;;
  esac
done
exit "$missing"
