package paritycli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/worker-adapter/paritycli"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// template renders every chat to the same words, tokenizer makes one id per byte.
type template struct {
	templatev1.UnimplementedTemplateServiceServer
}

func (template) Render(context.Context, *templatev1.RenderRequest) (*templatev1.RenderResponse, error) {
	return &templatev1.RenderResponse{Text: []byte("the same words")}, nil
}

type tokenizer struct {
	tokenizerv1.UnimplementedTokenizerServiceServer
}

func ids(text string) []uint32 {
	out := make([]uint32, len(text))
	for i := range out {
		out[i] = uint32(text[i])
	}
	return out
}

func (tokenizer) Encode(_ context.Context, r *tokenizerv1.EncodeRequest) (*tokenizerv1.EncodeResponse, error) {
	return &tokenizerv1.EncodeResponse{TokenIds: ids(string(r.GetText()))}, nil
}

// worker answers as a vLLM whose template makes these words of every chat.
func worker(t *testing.T, words string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Prompt string
			KV     *struct {
				IDs []uint32 `json:"prompt_token_ids"`
			} `json:"kv_transfer_params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		switch r.URL.Path {
		case "/v1/models":
			_, _ = w.Write([]byte(`{"data":[{"id":"m"}]}`))
		case "/version":
			_, _ = w.Write([]byte(`{"version":"0.32.0"}`))
		case "/v1/completions":
			_ = json.NewEncoder(w).Encode(map[string]any{"prompt_token_ids": ids(req.Prompt)})
		default:
			got := ids(words)
			if req.KV != nil {
				got = req.KV.IDs
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"prompt_token_ids": got, "prompt_text": words})
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestCommand(t *testing.T) {
	t.Parallel()
	server := kittest.Serve(t, rpc.ServerConfig{Address: "tcp://127.0.0.1:0"}, rpc.ServerDeps{Log: kittest.Logger(t)},
		func(r grpc.ServiceRegistrar) {
			templatev1.RegisterTemplateServiceServer(r, template{})
			tokenizerv1.RegisterTokenizerServiceServer(r, tokenizer{})
		})
	run := func(urls ...string) (string, error) {
		var out bytes.Buffer
		c := paritycli.Command{Workers: urls, Template: server.Addr(), Tokenizer: server.Addr(), Out: &out}
		err := c.Run(t.Context())
		return out.String(), err
	}
	same := worker(t, "the same words")
	text, err := run(same)
	require.NoError(t, err)
	require.Contains(t, text, "vLLM 0.32.0")
	require.Contains(t, text, "proven")
	require.Contains(t, text, "can be sent")

	text, err = run(same, worker(t, "the same  words"))
	require.ErrorIs(t, err, paritycli.ErrDiffers)
	require.Contains(t, text, "rendered text differs at byte 9")
	require.Contains(t, text, "are not sent")

	_, err = run("nowhere")
	require.Error(t, err)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = run(gone.URL)
	require.ErrorContains(t, err, "models")
}
