package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// asker is what both services have in common here.
type asker interface {
	Register(r grpc.ServiceRegistrar)
	Run(ctx context.Context) error
	Ready(ctx context.Context) error
}

// runs starts something for the length of the test.
func runs(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, kittest.Recv(t, done))
	})
}

// TestModelsThatOnlyAWorkerHas: with no file of the model here, prompts and ids are what its worker makes of the chat.
func TestModelsThatOnlyAWorkerHas(t *testing.T) {
	t.Parallel()
	const template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	config, err := json.Marshal(map[string]string{"chat_template": template, "eos_token": "<|im_end|>"})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "tokenizer_config.json")
	require.NoError(t, os.WriteFile(path, config, 0o600))
	worker, err := fakevllm.New(fakevllm.Config{Model: "m", Instant: true, TokenizerInfo: path}, fakevllm.Deps{})
	require.NoError(t, err)
	runs(t, worker.Run)
	url := "http://" + worker.Addr()

	templates, err := templatesvc.New(t.Context(), templatesvc.Config{
		Models: []templatesvc.ModelConfig{{Name: "m", Worker: url}},
	}, templatesvc.Deps{Log: kittest.Logger(t), Registerer: prometheus.NewRegistry()})
	require.NoError(t, err)
	tokens := tokenizersvc.Config{Models: []tokenizersvc.ModelConfig{{Name: "m", Worker: url}}}
	tokens.SetDefaults()
	tokenizers, err := tokenizersvc.New(t.Context(), tokens, tokenizersvc.Deps{
		Log: kittest.Logger(t), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	for _, s := range []asker{templates, tokenizers} {
		runs(t, s.Run)
		kittest.Eventually(t, func() error { return s.Ready(t.Context()) })
	}
	render := templatev1.NewTemplateServiceClient(kittest.MemServer(t, templates.Register))
	encode := tokenizerv1.NewTokenizerServiceClient(kittest.MemServer(t, tokenizers.Register))

	const messages = `[{"role":"system","content":"Be brief."},{"role":"user","content":"naïve 你好 <b>"}]`
	prompt, err := render.Render(t.Context(), &templatev1.RenderRequest{Model: "m", MessagesJson: []byte(messages)})
	require.NoError(t, err)
	require.Equal(t, "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nnaïve 你好 <b><|im_end|>\n<|im_start|>assistant\n",
		string(prompt.GetText()))
	ids, err := encode.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: "m", Text: prompt.GetText(), WantTokenIds: true})
	require.NoError(t, err)
	require.Equal(t, asked(t, url, messages), ids.GetTokenIds())
}

// asked gives the ids of a chat's prompt as the worker itself reports them.
func asked(t *testing.T, url, messages string) []uint32 {
	t.Helper()
	body := `{"model":"m","max_tokens":1,"return_token_ids":true,"messages":` + messages + `}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var answer struct {
		IDs []uint32 `json:"prompt_token_ids"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	require.NotEmpty(t, answer.IDs)
	return answer.IDs
}
