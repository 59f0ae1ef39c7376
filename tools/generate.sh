#!/usr/bin/env bash
# Builds the pinned generators into bin/ and runs buf: lint, then generate; then writes the reference of all keys. Leaves
# proto/gen and docs/configuration.md current.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin
GOWORK=off go -C tools build -o ../bin/ \
  github.com/bufbuild/buf/cmd/buf \
  google.golang.org/protobuf/cmd/protoc-gen-go \
  google.golang.org/grpc/cmd/protoc-gen-go-grpc \
  github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-grpc-gateway \
  github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2
bin/buf lint
bin/buf generate
# The comment of protoc-gen-grpc-gateway's output is not gofmt's; the pinned formatter makes it stable.
gofmt -w proto/gen

page=docs/configuration.md
head=$(sed '/^## log$/,$d' "$page")
rows=$(go run ./services/meshd/cmd/kvmesh config --reference)
printf '%s\n\n%s\n' "$head" "$rows" > "$page"
