package parity_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/parity"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// render is a toy template: the messages' JSON without blanks, then the tools.
func render(messages, tools []byte) string {
	return strings.Join(strings.Fields(string(messages)), "") + "|" + strings.Join(strings.Fields(string(tools)), "")
}

// tokens is a toy tokenizer: one id per byte; with special tokens a first id beyond all bytes.
func tokens(text string, special bool) []uint32 {
	var ids []uint32
	if special {
		ids = append(ids, 1000)
	}
	for i := range len(text) {
		ids = append(ids, uint32(text[i]))
	}
	return ids
}

// worker renders and tokenises as kvmesh does but for what its fields say.
type worker struct {
	mute       bool // never tells ids
	fail       bool
	ignoresIDs bool
	noDetails  bool
	suffix     string // added to each chat's text
	noText     bool
	renders    bool // serves the render endpoint
	calls      int
	answered   int // of calls, chats that were answered with a token
}

func (w *worker) Post(_ context.Context, path string, body []byte) ([]byte, error) {
	w.calls++
	if w.fail {
		return nil, errors.New("answered 503")
	}
	const renderPath = "/v1/chat/completions/render"
	if path == renderPath && !w.renders {
		return nil, errors.New("answered 403")
	}
	var req struct {
		Messages, Tools json.RawMessage
		Prompt          string
		KV              struct {
			IDs []uint32 `json:"prompt_token_ids"`
		} `json:"kv_transfer_params"`
		MaxTokens int  `json:"max_tokens"`
		WantIDs   bool `json:"return_token_ids"`
	}
	if err := json.Unmarshal(body, &req); err != nil || path != renderPath && (req.MaxTokens != 1 || !req.WantIDs) {
		return nil, errors.New("odd request")
	}
	text, ids := "", req.KV.IDs
	if path == "/v1/completions" {
		ids = tokens(req.Prompt, true)
	} else if ids == nil || w.ignoresIDs {
		text = render(req.Messages, req.Tools) + w.suffix
		ids = tokens(text, false)
	}
	if path == renderPath {
		return json.Marshal(map[string]any{"token_ids": ids})
	}
	if path == "/v1/chat/completions" {
		w.answered++
	}
	reply := map[string]any{"usage": map[string]any{"prompt_tokens_details": map[string]any{"cached_tokens": 0}}}
	if w.noDetails {
		reply["usage"] = map[string]any{"prompt_tokens_details": nil}
	}
	if !w.noText {
		reply["prompt_text"] = text
	}
	switch {
	case w.mute:
	case path == "/v1/completions":
		reply["choices"] = []any{map[string]any{"prompt_token_ids": ids}}
	default:
		reply["prompt_token_ids"] = ids
	}
	return json.Marshal(reply)
}

// services are kvmesh's side.
type services struct {
	templatev1.TemplateServiceClient
	tokenizerv1.TokenizerServiceClient
	refuse faultv1.Reason
}

func (s services) Render(
	_ context.Context, r *templatev1.RenderRequest, _ ...grpc.CallOption,
) (*templatev1.RenderResponse, error) {
	if s.refuse != 0 {
		return nil, fault.New(s.refuse, "no")
	}
	return &templatev1.RenderResponse{Text: []byte(render(r.MessagesJson, r.ToolsJson))}, nil
}

func (s services) Encode(
	_ context.Context, r *tokenizerv1.EncodeRequest, _ ...grpc.CallOption,
) (*tokenizerv1.EncodeResponse, error) {
	return &tokenizerv1.EncodeResponse{TokenIds: tokens(string(r.Text), r.AddSpecialTokens)}, nil
}

// toyTemplate and toyTokenizer keep the two embedded interfaces apart.
type toyTemplate struct{ services }

func (t toyTemplate) ListModels(
	context.Context, *templatev1.ListModelsRequest, ...grpc.CallOption,
) (*templatev1.ListModelsResponse, error) {
	return nil, errors.ErrUnsupported
}

type toyTokenizer struct{ services }

func (t toyTokenizer) ListModels(
	context.Context, *tokenizerv1.ListModelsRequest, ...grpc.CallOption,
) (*tokenizerv1.ListModelsResponse, error) {
	return nil, errors.ErrUnsupported
}

func TestProbe(t *testing.T) {
	t.Parallel()
	proven, differs := workerv1.ParityState_PARITY_STATE_PROVEN, workerv1.ParityState_PARITY_STATE_DIFFERS
	unknown := workerv1.ParityState_PARITY_STATE_UNSPECIFIED
	rows := []struct {
		name        string
		worker      worker
		version     string
		refuse      faultv1.Reason
		chat        workerv1.ParityState
		completions workerv1.ParityState
		detail      string
		ids, cached bool
		answered    int
	}{
		{name: "equal", version: "0.32.0", chat: proven, completions: proven, ids: true, cached: true, answered: 8},
		{
			name: "equal, rendered without an answer", worker: worker{renders: true}, version: "0.32.0", chat: proven,
			completions: proven, ids: true, cached: true, answered: 1, // whether it takes ids
		},
		{
			name: "rendered otherwise", worker: worker{renders: true, suffix: "!"}, version: "0.32.0", chat: differs,
			completions: proven, detail: "rendered text differs at byte", cached: true, answered: 7, // for their text
		},
		{name: "equal, too old for ids", version: "0.26.1", chat: proven, completions: proven, cached: true},
		{name: "no version", version: "main", chat: proven, completions: proven, cached: true},
		{
			name: "takes no ids", worker: worker{ignoresIDs: true}, version: "0.32.0", chat: proven, completions: proven,
			cached: true,
		},
		{
			name: "another template", worker: worker{suffix: "!"}, version: "0.32.0", chat: differs, completions: proven,
			detail: "rendered text differs at byte", cached: true,
		},
		{
			name: "another template, text not told", worker: worker{suffix: "!", noText: true, noDetails: true},
			version: "0.32.0", chat: differs, completions: proven, detail: "token ",
		},
		{name: "mute", worker: worker{mute: true}, version: "0.32.0", detail: "does not tell", cached: true},
		{name: "busy", worker: worker{fail: true}, version: "0.32.0", detail: "did not answer"},
		{
			name: "unknown model", version: "0.32.0", refuse: faultv1.Reason_REASON_MODEL_NOT_FOUND, chat: unknown,
			completions: proven, detail: "MODEL_NOT_FOUND", cached: true,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := services{refuse: row.refuse}
			p := parity.Prober{Worker: &row.worker, Template: toyTemplate{s}, Tokenizer: toyTokenizer{s}, Clock: time.Now}
			f := p.Probe(t.Context(), "m", row.version)
			require.Equal(t, row.ids, f.TokenIDs)
			require.Equal(t, row.cached, f.CachedTokens)
			require.Len(t, f.Results, 8)
			for _, r := range f.Results {
				want := row.chat
				if r.Feature == "completions" {
					want = row.completions
				}
				require.Equal(t, want, r.State, "%s: %s", r.Feature, r.Detail)
				require.NotContains(t, r.Detail, "Oslo", "no prompt text in a result")
				require.NotNil(t, r.Tested)
			}
			require.Contains(t, f.Results[0].Detail, row.detail)
			if row.answered > 0 {
				require.Equal(t, row.answered, row.worker.answered, "answers of a token")
			}
		})
	}
}
