#!/usr/bin/env bash
# Runs benchmarks and prints their figures; stored ones are in bench/. Arguments: modules, or none for all of them.
# CPU time is what counts here: each benchmark interleaves its arms and reports minima itself where it compares.
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(services/kit template-svc tokenizer-svc scheduler-svc worker-adapter gateway)
for part in "${parts[@]}"; do
  printf '== %s\n' "$part"
  (cd "$part" && go test -run '^$' -bench . -benchmem -count "${BENCHCOUNT:-1}" ./... | grep -vE '^(ok|PASS|\?|goos|goarch|pkg)')
done
