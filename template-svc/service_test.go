package templatesvc_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// folder writes a model's files and gives their directory.
func folder(t *testing.T, template string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, template)
	return dir
}

// write replaces a model's files by renaming, as whoever changes the files of a running service should.
func write(t *testing.T, dir, template string) {
	t.Helper()
	for name, content := range map[string]string{"tokenizer_config.json": `{"bos_token":"<s>"}`, "chat_template.jinja": template} {
		temp := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(temp, []byte(content), 0o600))
		require.NoError(t, os.Rename(temp, filepath.Join(dir, name)))
	}
}

// serve runs the service behind a real server in memory.
func serve(t *testing.T, cfg templatesvc.Config) (templatev1.TemplateServiceClient, *templatesvc.Service) {
	t.Helper()
	s, err := templatesvc.New(t.Context(), cfg, templatesvc.Deps{
		Log: kittest.Logger(t), Registerer: prometheus.NewRegistry(),
		Now: func() time.Time { return time.Date(2026, 3, 5, 14, 7, 9, 0, time.UTC) },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, kittest.Recv(t, ended))
	})
	client := templatev1.NewTemplateServiceClient(kittest.MemServer(t, s.Register))
	kittest.Eventually(t, func() error { return s.Ready(t.Context()) })
	return client, s
}

// user is a conversation of one message.
func user(text string) []byte { return []byte(`[{"role":"user","content":"` + text + `"}]`) }

func TestRender(t *testing.T) {
	t.Parallel()
	dir := folder(t, "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"+
		"{% if add_generation_prompt %}[assistant]{% endif %}{{ strftime_now('%d %b') if dated else '' }}{{ mood }}")
	client, _ := serve(t, templatesvc.Config{
		Models: []templatesvc.ModelConfig{{Name: "m", Path: dir, DefaultKwargs: `{"mood":"calm"}`}}, TimeZone: "UTC",
	})
	no := false
	rows := []struct {
		name    string
		request *templatev1.RenderRequest
		want    string
	}{
		{"defaults", &templatev1.RenderRequest{MessagesJson: user("x")}, "<s>[user]x[assistant]calm"},
		{"no prompt", &templatev1.RenderRequest{MessagesJson: user("x"), AddGenerationPrompt: &no}, "<s>[user]xcalm"},
		{
			"kwargs win over the server's",
			&templatev1.RenderRequest{MessagesJson: user("x"), ChatTemplateKwargsJson: []byte(`{"mood":"glad"}`)},
			"<s>[user]x[assistant]glad",
		},
		{
			"the workers' clock",
			&templatev1.RenderRequest{MessagesJson: user("x"), ChatTemplateKwargsJson: []byte(`{"dated":true,"mood":""}`)},
			"<s>[user]x[assistant]05 Mar",
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.request.Model = "m"
			got, err := client.Render(t.Context(), row.request)
			require.NoError(t, err)
			require.Equal(t, row.want, string(got.GetText()))
			require.Equal(t, "default", got.GetTemplateName())
			require.True(t, got.GetTimeDependent())
			require.Equal(t, templatev1.ContentFormat_CONTENT_FORMAT_STRING, got.GetContentFormat())
		})
	}
}

// TestMediaIsExactUpToTheFirstItem: the model's architecture decides the placeholder, the answer says how far it holds.
func TestMediaIsExactUpToTheFirstItem(t *testing.T) {
	t.Parallel()
	dir := folder(t, "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"architectures":["LlavaForConditionalGeneration"]}`), 0o600))
	client, _ := serve(t, templatesvc.Config{Models: []templatesvc.ModelConfig{
		{Name: "front", Path: dir},
		{Name: "between", Path: dir, InterleaveMMStrings: true},
		{Name: "unknown", Path: folder(t, "{% for m in messages %}{{ m.content }}{% endfor %}")},
	}})
	messages := []byte(`[{"role":"user","content":[{"type":"text","text":"a"},` +
		`{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"b"}]}]`)
	for model, want := range map[string]struct{ text, exact, rest string }{
		"front":   {"[user]<image>\na\nb", "[user]", "\na\nb"},
		"between": {"[user]a\n<image>\nb", "[user]a\n", "\nb"},
	} {
		got, err := client.Render(t.Context(), &templatev1.RenderRequest{Model: model, MessagesJson: messages})
		require.NoError(t, err)
		require.Equal(t, want.text, string(got.GetText()))
		require.Equal(t, want.exact, string(got.GetText()[:got.GetExactBytes()]))
		require.Len(t, got.GetMediaKeys(), 1)
		require.Len(t, got.GetRest(), 3)
		require.Empty(t, got.GetRest()[0].GetText())
		require.Equal(t, got.GetMediaKeys()[0], got.GetRest()[1].GetMediaKey())
		require.Equal(t, want.rest, string(got.GetRest()[2].GetText()))
	}
	unknown, err := client.Render(t.Context(), &templatev1.RenderRequest{Model: "unknown", MessagesJson: messages})
	require.NoError(t, err)
	require.Len(t, unknown.GetMediaKeys(), 1, "a caller must see that the prompt has media")
	require.Zero(t, unknown.GetExactBytes())
	require.Equal(t, unknown.GetMediaKeys()[0], unknown.GetRest()[0].GetMediaKey())

	text, err := client.Render(t.Context(), &templatev1.RenderRequest{Model: "front", MessagesJson: user("x")})
	require.NoError(t, err)
	require.Zero(t, text.GetExactBytes(), "without media the whole text is exact and nothing is said")
	require.Empty(t, text.GetRest())
}

// TestHarmony: a gpt-oss model's requests are rendered whatever its template says, with the worker's date, and say
// where tokenising begins anew. Older workers write other headers.
func TestHarmony(t *testing.T) {
	t.Parallel()
	dir := folder(t, "unused")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"gpt_oss"}`), 0o600))
	client, _ := serve(t, templatesvc.Config{TimeZone: "UTC", Models: []templatesvc.ModelConfig{
		{Name: "g", Path: dir, ExcludeToolsWhenNone: true}, {Name: "old", Path: dir, VLLMVersion: "0.30.2"},
	}})
	request := &templatev1.RenderRequest{
		Model: "g", MessagesJson: []byte(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`),
		ToolsJson: []byte(`[{"type":"function","function":{"name":"f"}}]`),
	}
	got, err := client.Render(t.Context(), request)
	require.NoError(t, err)
	require.Contains(t, string(got.GetText()), "Current date: 2026-03-05")
	require.Contains(t, string(got.GetText()), "type f = () => any;")
	require.True(t, got.GetTimeDependent())
	require.Equal(t, "harmony", got.GetTemplateName())
	require.Len(t, got.GetCuts(), 1)
	require.Equal(t, "b<|end|><|start|>assistant", string(got.GetText()[got.GetCuts()[0]:]))

	request.ToolChoiceJson = []byte(`"none"`)
	got, err = client.Render(t.Context(), request)
	require.NoError(t, err)
	require.NotContains(t, string(got.GetText()), "type f")

	for _, r := range []*templatev1.RenderRequest{
		{Model: "old", MessagesJson: user("x")}, {Model: "g", MessagesJson: user("x"), WorkerVersion: "0.28.0"},
	} {
		_, err = client.Render(t.Context(), r)
		require.Equal(t, faultv1.Reason_REASON_UNSUPPORTED_MODEL, fault.ReasonOf(err))
	}
	_, err = client.Render(t.Context(), &templatev1.RenderRequest{Model: "old", MessagesJson: user("x"), WorkerVersion: "0.32.0"})
	require.NoError(t, err, "the worker's own version beats the configured one")

	models, err := client.ListModels(t.Context(), &templatev1.ListModelsRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"harmony"}, models.GetModels()[0].GetTemplateNames())
}

// TestTemplateOfAWorker: a model without files here is rendered as its worker says, is looked at again, and keeps its
// template when the worker is gone. A worker that tells nothing is refused with what to do.
func TestTemplateOfAWorker(t *testing.T) {
	t.Parallel()
	var info atomic.Pointer[string]
	tell := func(s string) { info.Store(&s) }
	tell(`{"tokenizer_class":"X","eos_token":"</s>","chat_template":"A{{ eos_token }}{{ bos_token }}"}`)
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tokenizer_info" || *info.Load() == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(*info.Load()))
	}))
	t.Cleanup(worker.Close)
	silent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(silent.Close)
	client, _ := serve(t, templatesvc.Config{
		ReloadInterval: time.Millisecond,
		Models: []templatesvc.ModelConfig{
			{Name: "served", Worker: worker.URL},
			{Name: "silent", Worker: silent.URL},
			{Name: "oss", Worker: worker.URL, Architecture: "GptOssForCausalLM"},
			{Name: "v4", Worker: worker.URL, Architecture: "DeepseekV4ForCausalLM"},
		},
	})
	text := func(model string) string {
		got, err := client.Render(t.Context(), &templatev1.RenderRequest{Model: model, MessagesJson: user("x")})
		if err != nil {
			return fault.Name(fault.ReasonOf(err))
		}
		return string(got.GetText())
	}
	require.Equal(t, "A</s>", text("served"))
	require.Contains(t, text("oss"), "<|start|>user")
	require.Equal(t, "UNSUPPORTED_MODEL", text("v4"))
	require.Equal(t, "UNSUPPORTED_MODEL", text("silent"))
	models, err := client.ListModels(t.Context(), &templatev1.ListModelsRequest{})
	require.NoError(t, err)
	require.Contains(t, models.GetModels()[2].GetDetail(), "--enable-tokenizer-info-endpoint")

	tell(`{"tokenizer_class":"X","chat_template":"B"}`)
	kittest.Eventually(t, func() error {
		if got := text("served"); got != "B" {
			return errors.New(got)
		}
		return nil
	})
	tell("")
	kittest.Eventually(t, func() error {
		models, err := client.ListModels(t.Context(), &templatev1.ListModelsRequest{})
		if err != nil || text("served") != "B" {
			return fmt.Errorf("%v %w", models, err)
		}
		return nil
	})
}

func TestFaultsHaveReasonsAndNoPromptText(t *testing.T) {
	t.Parallel()
	const secret = "the-secret-text"
	harmony := folder(t, "x")
	require.NoError(t, os.WriteFile(filepath.Join(harmony, "config.json"), []byte(`{"model_type":"gpt_oss"}`), 0o600))
	client, _ := serve(t, templatesvc.Config{
		RenderTimeout: 500 * time.Millisecond,
		Models: []templatesvc.ModelConfig{
			{Name: "raises", Path: folder(t, "{{ raise_exception(messages[0].content) }}")},
			{Name: "endless", Path: folder(t, "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")},
			{Name: "broken", Path: folder(t, "{% if %}")},
			{Name: "harmony", Path: harmony, VLLMVersion: "0.30.0"},
			{Name: "fine", Path: folder(t, "ok")},
		},
	})
	rows := []struct {
		model    string
		messages []byte
		want     faultv1.Reason
	}{
		{"raises", user(secret), faultv1.Reason_REASON_TEMPLATE_FAILED},
		{"endless", user(secret), faultv1.Reason_REASON_TEMPLATE_LIMIT},
		{"broken", user(secret), faultv1.Reason_REASON_UNSUPPORTED_MODEL},
		{"harmony", user(secret), faultv1.Reason_REASON_UNSUPPORTED_MODEL},
		{"nowhere", user(secret), faultv1.Reason_REASON_MODEL_NOT_FOUND},
		{"fine", []byte(`{"` + secret), faultv1.Reason_REASON_INVALID_REQUEST},
	}
	for _, row := range rows {
		t.Run(row.model, func(t *testing.T) {
			t.Parallel()
			_, err := client.Render(t.Context(), &templatev1.RenderRequest{Model: row.model, MessagesJson: row.messages})
			require.Error(t, err)
			require.Equal(t, row.want, fault.ReasonOf(err), err.Error())
			require.NotContains(t, err.Error(), secret)
		})
	}
}

func TestModelsAreListedWithTheirState(t *testing.T) {
	t.Parallel()
	client, _ := serve(t, templatesvc.Config{Models: []templatesvc.ModelConfig{
		{Name: "b", Path: folder(t, "{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}")},
		{Name: "a", Path: filepath.Join(t.TempDir(), "missing")},
	}})
	got, err := client.ListModels(t.Context(), &templatev1.ListModelsRequest{})
	require.NoError(t, err)
	require.Len(t, got.GetModels(), 2)
	require.Equal(t, "a", got.GetModels()[0].GetModel())
	require.Equal(t, templatev1.ModelState_MODEL_STATE_FAILED, got.GetModels()[0].GetState())
	require.NotEmpty(t, got.GetModels()[0].GetDetail())
	require.Equal(t, templatev1.ContentFormat_CONTENT_FORMAT_OPENAI, got.GetModels()[1].GetContentFormat())
}

// TestReload changes a model's files under running requests: the new template is used, and a broken one does not
// replace one that works.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := folder(t, "one")
	client, _ := serve(t, templatesvc.Config{
		ReloadInterval: 10 * time.Millisecond, Models: []templatesvc.ModelConfig{{Name: "m", Path: dir}},
	})
	text := func() string {
		got, err := client.Render(t.Context(), &templatev1.RenderRequest{Model: "m", MessagesJson: user("x")})
		require.NoError(t, err)
		return string(got.GetText())
	}
	require.Equal(t, "one", text())
	write(t, dir, "{% broken")
	write(t, dir, "second")
	kittest.Eventually(t, func() error {
		if got := text(); got != "second" {
			require.Equal(t, "one", got)
			return os.ErrNotExist
		}
		return nil
	})
}

func TestConfigReportsEveryFault(t *testing.T) {
	t.Parallel()
	cfg := templatesvc.Config{
		TimeZone: "Nowhere/City", RenderTimeout: -1,
		Models: []templatesvc.ModelConfig{{Name: "a", Path: "p"}, {Name: "a", ContentFormat: "xml"}},
	}
	err := cfg.Validate()
	for _, want := range []string{
		"time_zone", "render_timeout", "models[1].name", "models[1].path", "models[1].content_format",
	} {
		require.ErrorContains(t, err, want)
	}
	cfg = templatesvc.Config{}
	cfg.SetDefaults()
	require.NoError(t, cfg.Validate())
}
