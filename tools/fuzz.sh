#!/usr/bin/env bash
# Runs every fuzz target of the workspace for a while each, then compares the two tokenizer engines on random texts.
# Argument: the time per target (60s). Go takes a minute to make one found input smaller, in which it tries no other: ten
# steps do. KVMESH_RANDOM_TEXTS is the number of texts for each of five tokenizers.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-60s}
count=0
while IFS=: read -r file target; do
  dir=$(dirname "$file")
  printf '== %s %s (%s)\n' "$dir" "$target" "$time"
  (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 10x .)
  count=$((count + 1))
done < <(git ls-files -co --exclude-standard -- '*_test.go' | xargs grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')
printf '%d fuzz targets clean\n' "$count"

texts=${KVMESH_RANDOM_TEXTS:-30000}
printf '== tokenizer engines on %d random texts each\n' "$texts"
(cd tokenizer-svc && KVMESH_RANDOM_TEXTS=$texts go test -count=1 -timeout 60m -run '^TestEnginesAgree$' -v ./internal/hf |
  grep -E 'random texts|^(ok|FAIL|---)')
