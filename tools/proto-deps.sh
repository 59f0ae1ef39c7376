#!/usr/bin/env bash
# Puts the third-party .proto files that our contracts import into third_party/proto (git-ignored): google/api and
# google/rpc from PyPI's googleapis-common-protos, buf/validate from the Go module github.com/bufbuild/protovalidate.
set -euo pipefail
cd "$(dirname "$0")/.."
want="googleapis-common-protos==1.76.0 protovalidate@v1.1.0"
dir=third_party/proto
if [ -f "$dir/.versions" ] && [ "$(cat "$dir/.versions")" = "$want" ]; then exit 0; fi
tools/deps.sh go python3
rm -rf "$dir" && mkdir -p "$dir/buf/validate" "$dir/google"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
python3 -m pip download --quiet --no-deps --dest "$work" "${want%% *}"
python3 -m zipfile -e "$work"/*.whl "$work/whl"
for sub in api rpc; do
  mkdir -p "$dir/google/$sub"
  cp "$work/whl/google/$sub"/*.proto "$dir/google/$sub/"
done
src=$(GOWORK=off go mod download -json "github.com/bufbuild/${want##* }" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
cp "$src/proto/protovalidate/buf/validate/validate.proto" "$dir/buf/validate/"
chmod -R u+w "$dir"
printf '%s' "$want" > "$dir/.versions"
