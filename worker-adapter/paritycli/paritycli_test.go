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

// mesh answers as a gateway whose fleet is this JSON.
func mesh(t *testing.T, status int, fleet string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/kvmesh/v1/workers" || r.Header.Get("Authorization") != "Bearer key" {
			status = http.StatusUnauthorized
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(fleet))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestWhatTheAdaptersFound: without addresses the command needs the gateway alone.
func TestWhatTheAdaptersFound(t *testing.T) {
	t.Parallel()
	card := func(id string, results string) string {
		return `{"card":{"worker_id":"` + id + `","version":"0.32.0","parity":[` + results + `]},"rank":0}`
	}
	const proven = `{"feature":"chat","state":"PARITY_STATE_PROVEN","tested":"2026-03-05T14:07:09Z"}`
	const differs = `{"feature":"tools","state":"PARITY_STATE_DIFFERS","detail":"token 5 of 9"}`
	const unknown = `{"feature":"scripts","detail":"the worker did not answer"}`
	rows := []struct {
		name, fleet string
		status      int
		want        []string
		err         string
	}{
		{
			"proven, each worker once", card("w1", proven) + "," + card("w1", proven) + "," + card("w2", proven+","+unknown), 200,
			[]string{"w1", "w2", "vLLM 0.32.0", "2026-03-05T14:07:09Z", "scripts", "did not answer"},
			"",
		},
		{"differs", card("w1", proven+","+differs), 200, []string{"token 5 of 9"}, "prompts differ"},
		{"nothing compared", card("w1", ""), 200, []string{"not compared yet"}, "no prompt could be compared"},
		{"no workers", "", 200, nil, "has no workers"},
		{"an address that is no mesh", `{}}`, 200, nil, "does not answer as a mesh"},
		{"a refusal", "", 403, nil, "status 403"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c := paritycli.Command{Mesh: mesh(t, row.status, `{"workers":[`+row.fleet+`]}`), MeshKey: "key", Out: &out}
			err := c.Run(t.Context())
			if row.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, row.err)
			}
			for _, want := range row.want {
				require.Contains(t, out.String(), want)
			}
			require.LessOrEqual(t, bytes.Count(out.Bytes(), []byte("w1")), 1)
		})
	}
	c := paritycli.Command{Mesh: "http://127.0.0.1:1", Out: &bytes.Buffer{}}
	require.ErrorContains(t, c.Run(t.Context()), "is it running?")
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
	require.Contains(t, text, `chat: after "the same " the worker has " words", kvmesh has "words"`)
	require.Contains(t, text, "are not sent")

	_, err = run("nowhere")
	require.Error(t, err)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	_, err = run(gone.URL)
	require.ErrorContains(t, err, "models")
}
