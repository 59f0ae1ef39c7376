// Package api is the HTTP side of the simulated worker: the routes, bodies, headers and errors of a vLLM 0.32 server.
// Answers are written by appending to a byte slice, in vLLM's field order; a streamed token costs one append and one
// write.
//
// A generating request goes through the same stations whatever its route. The body is parsed and checked (package
// request), the prompt becomes token ids, and a plan is made: the whole text that each choice will say, its tokens,
// where each token's text ends, and which parts are thought, answer or tool call. The engine then only tells how many
// of the tokens exist. A plain answer is written when all do; a stream writes a chunk for each. Stop strings, limits
// and the finish reason are known from the plan, so nothing is decided while streaming.
//
// What a real server says late, after its stream has begun, is said late here too: a full queue and a grammar that does
// not compile are a status for plain requests and an error event behind status 200 for streams.
package api

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/exposition"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/fault"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// Tokenizer turns text into token ids and back. Encode is called for prompts and for the made-up answers; Decode for
// few ids at a time, whose results are remembered. It must be safe for concurrent use.
type Tokenizer interface {
	Encode(ctx context.Context, text []byte, addSpecial bool) ([]uint32, error)
	Decode(ids []uint32) (string, error)
}

// Renderer applies the model's chat template to the body of a chat request. Its errors become 400 answers with the
// error's text, so they must be fit for clients.
type Renderer interface {
	Render(ctx context.Context, chatRequestJSON []byte) (promptText []byte, err error)
}

// EventSource is one rank's entry in /kv_event_sources, in its field order.
type EventSource struct {
	Enabled      bool
	Endpoint     string
	Replay       string
	BufferSteps  int
	HWM          int
	MaxQueueSize int
	Topic        string
}

// Settings are the server's properties that do not change while it runs.
type Settings struct {
	Model              string
	Aliases            []string // further served names
	Root               string   // path of the model
	Version            string   // of /version, says that it is simulated
	Fingerprint        string   // system_fingerprint, says so too
	BlockSize          int      // tokens
	NumGPUBlocks       int      // one more than can be used
	MaxNumSeqs         int
	MaxBatchedTokens   int
	MaxLoRAs           int
	EOSTokenID         uint32
	Limits             request.Limits
	AnswerMin          int // tokens of an answer that ends by itself
	AnswerMax          int
	APIKeys            []string
	RequestIDHeaders   bool
	PromptTokenDetails bool
	ReasoningParser    bool
	ToolParser         bool
	ForceUsage         bool
	DevMode            bool
	RuntimeLoRA        bool
	LoadTracking       bool
	ScaleOut           bool
	PromptIDs          bool // kv_transfer_params.prompt_token_ids is used (vLLM 0.27 and later)
	Pooling            bool
	MaxBodyBytes       int64
	EmbeddingSize      int
	TokenizerInfo      []byte // answer of /tokenizer_info; empty serves no such route
}

// Deps are what the handlers work with. Log, Tokenizer and Renderer must be set.
type Deps struct {
	Log       *slog.Logger
	Engines   []*engine.Engine // one per data-parallel rank
	Tokenizer Tokenizer
	Renderer  Renderer
	Faults    *fault.Switches
	Metrics   *exposition.Metrics
	LoRAs     *Adapters
	Sources   func() []EventSource
	Restart   func() error
}

// Handler serves all routes.
type Handler struct {
	set     Settings
	deps    Deps
	detok   *detokenizer
	routes  map[string]route
	load    atomic.Int64 // requests in work, for /load
	turn    atomic.Uint64
	started time.Time
}

// New makes the handler. It encodes one short text to learn how the tokenizer joins tokens.
func New(ctx context.Context, set Settings, deps Deps) (*Handler, error) {
	d, err := newDetokenizer(ctx, deps.Tokenizer)
	if err != nil {
		return nil, err
	}
	h := &Handler{set: set, deps: deps, detok: d, started: time.Now()}
	h.routes = h.table()
	return h, nil
}

// pick chooses the engine of a request: the named rank, else the least loaded one, in turn where loads are equal.
func (h *Handler) pick(rank int) *engine.Engine {
	if rank >= 0 {
		return h.deps.Engines[rank]
	}
	n := len(h.deps.Engines)
	if n == 1 {
		return h.deps.Engines[0]
	}
	from := int(h.turn.Add(1) % uint64(n))
	best, least := from, int(^uint(0)>>1)
	for i := range n {
		k := (from + i) % n
		st := h.deps.Engines[k].Snapshot()
		if load := 4*st.Waiting + st.Running; load < least {
			best, least = k, load
		}
	}
	return h.deps.Engines[best]
}
