# CI calls native, lint and test; the other targets are for people. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The corpus of templates, tokenizers, traces and captures that the tests read.
export KVMESH_CORPUS ?= $(abspath ../shared/corpus)
# Tools stand outside the workspace, pinned by tools/go.mod and tools/lint/go.mod.
TOOL := GOWORK=off go -C tools
PURE := gateway template-svc scheduler-svc worker-adapter
CORPUS_OK = @test -d "$(KVMESH_CORPUS)" || { echo "KVMESH_CORPUS=$(KVMESH_CORPUS) is no folder: point it at the corpus"; exit 1; }

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

.PHONY: deps
deps: ## Check that Go, a C compiler and cargo are there, with one sentence for each that is not
	@tools/deps.sh go cc cargo

.PHONY: deps-test
deps-test:
	@tools/deps.sh go cc cargo python3 node npm

.PHONY: native
native: deps ## Build the tokenizer library (once per version, cached in the user's cache folder)
	@$(TOOL) run ./libtokenizers

# Where binaries go.
BIN ?= bin

.PHONY: build
build: native binaries ## Build kvmesh, the services and a NATS server into bin/

.PHONY: binaries
binaries:
	@mkdir -p $(BIN)
	go build -trimpath -o $(BIN)/ ./services/meshd/cmd/kvmesh ./tokenizer-svc/cmd/tokenizer-svc
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ $(PURE:%=./%/cmd/...)
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ github.com/nats-io/nats-server/v2

.PHONY: up
up: native ## Build and start the whole mesh as one process, with two simulated workers
	@go build -trimpath -o bin/ ./services/meshd/cmd/kvmesh
	@exec bin/kvmesh up

.PHONY: up-mesh
up-mesh: build ## The same as separate processes over TCP, with a real NATS server
	@exec bin/kvmesh up --mesh

.PHONY: test
test: deps-test native test-go test-clients ## Run every test: unit, end to end, official clients

.PHONY: test-go
test-go: build ## All Go tests under the race detector, in both shapes of the mesh
	$(CORPUS_OK)
	go vet work
	KVMESH_BIN=$(abspath $(BIN)) go test -race -timeout 20m work
	go test -run AfterChaos ./scheduler-svc/internal/feed

.PHONY: test-clients
test-clients: build ## Drive the running mesh with the official OpenAI clients
	@tools/clients.sh

.PHONY: test-vllm
test-vllm: build ## A mesh in front of two real vLLM servers on this machine's CPU: VLLM=command that runs vLLM 0.32
	$(CORPUS_OK)
	KVMESH_BIN=$(abspath $(BIN)) go test -tags realvllm -count=1 -v -timeout 20m ./services/meshd/e2e/realvllm

.PHONY: test-corpus
test-corpus: native ## Templates, requests and tokens against the corpus, with the counts printed
	$(CORPUS_OK)
	go test -count=1 -v -run 'Corpus|Oracle|Golden' ./template-svc/... ./tokenizer-svc/...

.PHONY: test-cases
test-cases: build ## OpenAI behaviour cases, REST and gRPC, in both shapes of the mesh; CASES=folder runs others
	$(CORPUS_OK)
	CASES_ALL=1 KVMESH_BIN=$(abspath $(BIN)) go test -count=1 -v -timeout 30m -run 'TestCases|TestScale|TestCancel' ./services/meshd/e2e/cases

.PHONY: fuzz
fuzz: native ## Each fuzz target for FUZZTIME (60s)
	@tools/fuzz.sh $${FUZZTIME:-60s}

.PHONY: bench
bench: native ## Benchmarks: CPU time, minimum of interleaved runs, against the naive way
	@tools/bench.sh

.PHONY: bench-gateway
bench-gateway: build ## Gateway, whole mesh and mesh of processes beside Go's ReverseProxy in the same run
	@KVMESH_BIN=$(abspath $(BIN)) go test -count=1 -run '^$$' -bench Gateway -benchtime 1x ./gateway/bench | grep -vE '^(ok|PASS|goos|goarch|pkg)'

.PHONY: bench-gateway-earlier
bench-gateway-earlier: build ## Single requests by turns to the mesh and to that of other binaries: EARLIER=folder
	@KVMESH_BIN=$(abspath $(BIN)) KVMESH_BENCH_EARLIER=$(abspath $(EARLIER)) \
		go test -count=1 -run '^$$' -bench Alternate -benchtime 1x ./gateway/bench | grep -vE '^(ok|PASS|goos|goarch|pkg)'

.PHONY: sim
sim: build ## Policies on the shared traces; fails when a goal that was met is lost
	$(CORPUS_OK)
	bin/kvmesh sim --goals bench/sim-goals.json --corpus "$(KVMESH_CORPUS)"

.PHONY: sim-live
sim-live: build ## The order of policies on a slice of a trace: live mesh of simulated workers against the simulator
	$(CORPUS_OK)
	bin/kvmesh sim-live --trace "$(KVMESH_CORPUS)/traces/mooncake/mooncake_trace_first1000_from_dynamo.jsonl"

.PHONY: proto-deps
proto-deps: ## Fetch third-party .proto files into third_party/ (PyPI and the Go module proxy)
	@tools/proto-deps.sh

.PHONY: generate
generate: proto-deps native ## Generate code from proto/ and the configuration page, with buf lint
	@tools/generate.sh

.PHONY: lint
lint: native ## Formatting, vet, linters, generated code and module files are current
	@tools/lint.sh

.PHONY: fmt
fmt: ## Format all Go code
	@$(TOOL) tool gofumpt -w $$(git ls-files -co --exclude-standard '*.go' | grep -v "^proto/gen/" | sed 's|^|../|')
