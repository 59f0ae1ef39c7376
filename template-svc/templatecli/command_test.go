package templatecli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// run renders with a command and gives its output.
func run(t *testing.T, c RenderCommand, input string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := c.Run(t.Context(), IO{In: strings.NewReader(input), Out: &out})
	return out.String(), err
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const source = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}" +
	"{% if tools %}{{ tools[0].function.name }}{% endif %}{% if add_generation_prompt %}>{% endif %}{{ mood }}"

func TestRenderFromFiles(t *testing.T) {
	t.Parallel()
	messages := `[{"role":"user","content":"hi"},{"role":"assistant","content":"yes"}]`
	template := file(t, "t.jinja", source)
	tools := file(t, "tools.json", `[{"type":"function","function":{"name":"f"}}]`)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"chat_template":"M{{ eos_token }}","eos_token":"</s>"}`), 0o600))
	rows := []struct {
		name    string
		command RenderCommand
		want    string
	}{
		{"template file, messages from standard input", RenderCommand{Template: template, Messages: "-"}, "[user]hi[assistant]yes>"},
		{"messages from a file", RenderCommand{Template: template, Messages: file(t, "m.json", messages)}, "[user]hi[assistant]yes>"},
		{"tools and kwargs", RenderCommand{Template: template, Messages: "-", Tools: tools, Kwargs: `{"mood":"!"}`}, "[user]hi[assistant]yesf>!"},
		{"continue", RenderCommand{Template: template, Messages: "-", Continue: true}, "[user]hi[assistant]yes"},
		{"no prompt", RenderCommand{Template: template, Messages: "-", NoPrompt: true}, "[user]hi[assistant]yes"},
		{"a model's own template", RenderCommand{Model: dir, Messages: "-"}, "M</s>"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := run(t, row.command, messages)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}

// TestRenderAcceptsARequest: the body of a chat request says the same as flags and files, and flags win.
func TestRenderAcceptsARequest(t *testing.T) {
	t.Parallel()
	const tail = "{% if documents %}D{% endif %}{{ reasoning_effort }}{{ enable_thinking }}"
	template := file(t, "t.jinja", source+tail)
	body := func(more string) string {
		return `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]` + more + `}`
	}
	const oneTool = `,"tools":[{"type":"function","function":{"name":"f"}}]`
	rows := []struct {
		name, body string
		command    RenderCommand
		want       string
	}{
		{"messages alone", body(""), RenderCommand{}, "[user]hi>"},
		{"tools", body(oneTool), RenderCommand{}, "[user]hif>"},
		{"a choice of no tool still shows them", body(oneTool + `,"tool_choice":"none"`), RenderCommand{}, "[user]hif>"},
		{"kwargs", body(`,"chat_template_kwargs":{"mood":"!"}`), RenderCommand{}, "[user]hi>!"},
		{"a flag's kwargs win", body(`,"chat_template_kwargs":{"mood":"!"}`), RenderCommand{Kwargs: `{"mood":"?"}`}, "[user]hi>?"},
		{"no prompt", body(`,"add_generation_prompt":false`), RenderCommand{}, "[user]hi"},
		{"a flag's no prompt wins", body(`,"add_generation_prompt":true`), RenderCommand{NoPrompt: true}, "[user]hi"},
		{"continue", body(`,"add_generation_prompt":false,"continue_final_message":true`), RenderCommand{}, "[user]hi"},
		{"effort", body(`,"reasoning_effort":"high"`), RenderCommand{}, "[user]hi>highTrue"},
		{"documents", body(`,"documents":[{"text":"d"}]`), RenderCommand{}, "[user]hi>D"},
		{"the request's own template", body(`,"chat_template":"own"`), RenderCommand{}, "own"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.command.Template, row.command.Messages = template, "-"
			got, err := run(t, row.command, row.body)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
	for name, input := range map[string]string{"no messages": `{"model":"m"}`, "no JSON": `{"messages"`, "text": `"x"`} {
		_, err := run(t, RenderCommand{Template: template, Messages: "-"}, input)
		require.Error(t, err, name)
	}
}

func TestRenderHarmony(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"chat_template":"no"}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type":"gpt_oss"}`), 0o600))
	got, err := run(t, RenderCommand{Model: dir, Messages: "-", Now: "2026-03-05T14:07:09"}, `[{"role":"user","content":"hi"}]`)
	require.NoError(t, err)
	require.Contains(t, got, "Current date: 2026-03-05")
	require.True(t, strings.HasSuffix(got, "<|start|>user<|message|>hi<|end|><|start|>assistant"))
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		command RenderCommand
		want    string
	}{
		{"nothing named", RenderCommand{Messages: "-"}, "--model FOLDER, --template FILE"},
		{"no such model", RenderCommand{Model: "/nowhere", Messages: "-"}, "model folder"},
		{"syntax error", RenderCommand{Template: file(t, "t", "a\n{% if %}"), Messages: "-"}, "line 2"},
		{"template error", RenderCommand{Template: file(t, "t", "{{ raise_exception('no') }}"), Messages: "-"}, "TemplateError: no"},
		{"bad clock", RenderCommand{Template: file(t, "t", "x"), Messages: "-", Now: "noon"}, "--now"},
		{"no such messages", RenderCommand{Template: file(t, "t", "x"), Messages: "/nowhere"}, "--messages"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, row.command, `[{"role":"user","content":"x"}]`)
			require.ErrorContains(t, err, row.want)
		})
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	input := strings.Join([]string{
		`{"template": "{{ a }}-{{ b|tojson }}", "vars": {"a": 1.0, "b": {"z": 1, "a": 2}}}`,
		``,
		`{"template": "{{ raise_exception('stop') }}", "vars": {}}`,
		`{"template": "{{ [1] + 'x' }}"}`,
		`{"template": "{% if %}"}`,
		`{"template": 5}`,
		`not JSON`,
		`{"template": "{{ strftime_now('%Y') }}"}`,
	}, "\n")
	got, err := run(t, RenderCommand{Batch: true, Now: "2026-03-05T14:07:09"}, input)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(got), "\n")
	require.Equal(t, []string{
		`{"text":"1.0-{\"z\": 1, \"a\": 2}"}`,
		`{"error":{"type":"TemplateError","message":"stop"}}`,
		`{"error":{"type":"TypeError","message":"can only concatenate list (not \"str\") to list"}}`,
	}, lines[:3])
	require.Contains(t, lines[3], "TemplateSyntaxError")
	require.Contains(t, lines[4], "InputError")
	require.Contains(t, lines[5], "InputError")
	require.Equal(t, `{"text":"2026"}`, lines[6])
}

// TestTimeout: a render ends when its time is over, says which flag raises it, and the next line is served.
func TestTimeout(t *testing.T) {
	t.Parallel()
	const endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"
	got, err := run(t, RenderCommand{Batch: true, Timeout: time.Nanosecond}, `{"template": "`+endless+`"}`+"\n"+`{"template": "x"}`)
	require.NoError(t, err)
	first, second, _ := strings.Cut(got, "\n")
	require.Contains(t, first, `{"error":{"type":"LimitError","message":"the render took more than --timeout 1ns`)
	require.Equal(t, `{"text":"x"}`+"\n", second)

	_, err = run(t, RenderCommand{Template: file(t, "t", endless), Messages: "-", Timeout: time.Nanosecond}, `[{"role":"user","content":"x"}]`)
	require.ErrorContains(t, err, "--timeout 1ns")
	_, err = run(t, RenderCommand{Template: file(t, "t", "{% for a in range(9999) %}{% endfor %}x"), Messages: "-"}, `[{"role":"user","content":"x"}]`)
	require.NoError(t, err, "no --timeout, no end")
}
