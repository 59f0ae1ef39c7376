#!/usr/bin/env bash
# Everything that can be checked without running the product. Each check says what to do when it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
modules=$(go work edit -json | sed -n 's/.*"DiskPath": "\(.*\)".*/\1/p')
sources() { git ls-files -co --exclude-standard -- '*.go' | grep -v -e '^proto/gen/' -e '/testdata/'; }
step() { printf '== %s\n' "$1"; }
fail() { echo "lint: $1" >&2; exit 1; }

step "format"
bad=$(sources | sed 's|^|../|' | GOWORK=off xargs go -C tools tool gofumpt -l)
[ -z "$bad" ] || fail "run 'make fmt'; not formatted: $bad"

step "budgets: no file over 600 lines, few lines over 120 columns, no init()"
sources | xargs wc -l | awk '$2 != "total" && $1 > 600 { print "  " $2 ": " $1 " lines"; bad = 1 } END { exit bad }' \
  || fail "split these files by noun"
sources | xargs awk 'length > 120 { long++ } END { exit long * 100 > NR }' || fail "break lines: over 1 % have more than 120 columns"
! sources | xargs grep -nE '^func init\(\)' || fail "init() is not used here: pass dependencies in"

step "go and toolchain lines agree"
for m in $modules; do
  [ "$(sed -n 's/^go //p' "$m/go.mod")" = "$(sed -n 's/^go //p' go.work)" ] || fail "$m/go.mod and go.work name different Go versions"
done

step "generated code is current"
tools/proto-deps.sh
before=$(find proto/gen docs/configuration.md -type f -exec sha256sum {} + | sort -k2 | sha256sum)
tools/generate.sh
after=$(find proto/gen docs/configuration.md -type f -exec sha256sum {} + | sort -k2 | sha256sum)
[ "$before" = "$after" ] || fail "proto/gen or docs/configuration.md was not current; it is now: commit it"

step "contracts break nothing that was released"
release=$(git tag --list 'proto/v*' --sort=-v:refname | head -n 1)
if [ -z "$release" ]; then
  echo "nothing was released yet: there is no tag proto/v*"
else
  old=$(mktemp -d)
  trap 'rm -rf "$old"' EXIT
  git archive "$release" buf.yaml proto | tar -x -C "$old"
  cp -r third_party "$old/"
  bin/buf breaking --against "$old" || fail "this breaks callers of $release: add, do not change"
fi

step "each module alone: tidy and build"
for m in $modules; do
  case "$m" in ./tokenizer-svc | ./services/meshd) cgo=1 ;; *) cgo=0 ;; esac
  (cd "$m" && GOWORK=off go mod tidy -diff >/dev/null) || fail "run 'GOWORK=off go mod tidy' in $m"
  (cd "$m" && GOWORK=off CGO_ENABLED=$cgo go build ./...) || fail "$m does not build alone"
done

step "golangci-lint"
GOWORK=off go -C tools/lint build -o ../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
root=$PWD
for m in $modules; do
  (cd "$m" && "$root/bin/golangci-lint" run --allow-parallel-runners ./...) || fail "linters found faults in $m"
done
