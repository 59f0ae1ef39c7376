package chat

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// dump prints what a template sees of the conversation, the tools and a kwarg.
const dump = `{{ messages|tojson }}|{{ tools|tojson }}`

// stringDump loops over no content, openaiDump does: the worker picks the content format by that.
const openaiDump = dump + `{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}`

func model(t *testing.T, source string, opts Options) *Model {
	t.Helper()
	m, err := New(map[string]string{"default": source}, "", nil, opts)
	require.NoError(t, err)
	return m
}

func render(t *testing.T, source string, r *Request) string {
	t.Helper()
	got, err := model(t, source, Options{}).Render(t.Context(), r)
	require.NoError(t, err)
	return string(got.Text)
}

func TestMessageForms(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, source, messages, want string
	}{
		{
			"assistant with calls and no content", dump,
			`[{"role":"assistant","tool_calls":[{"id":"007","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}]`,
			`[{"role": "assistant", "content": "", "tool_calls": [{"id": "007", "function": {"arguments": {"a": 1}, ` +
				`"name": "f"}, "type": "function"}]}]|null`,
		},
		{
			"object arguments are rendered like text", dump,
			`[{"role":"assistant","content":null,"tool_calls":[{"id":"0","type":"function","function":{"name":"f","arguments":{"a":1}}}]}]`,
			`[{"role": "assistant", "content": "", "tool_calls": [{"id": "0", "function": {"arguments": {"a": 1}, ` +
				`"name": "f"}, "type": "function"}]}]|null`,
		},
		{
			"tool reply with a name and parts", openaiDump,
			`[{"role":"tool","name":"f","tool_call_id":"0","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
			`[{"role": "tool", "content": "a\nb", "tool_call_id": "0", "name": "f"}]|null`,
		},
		{
			"unknown members are dropped, the order is the worker's", dump,
			`[{"mood":1,"name":"ann","content":"x","role":"user"}]`,
			`[{"role": "user", "content": "x", "name": "ann"}]|null`,
		},
		{
			"null content of an assistant in the openai format", openaiDump,
			`[{"role":"assistant","content":null}]`, `[{"role": "assistant", "content": []}]|null`,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, render(t, row.source, &Request{MessagesJSON: []byte(row.messages)}))
		})
	}
}

func TestOldRulesKeepOtherJSONArguments(t *testing.T) {
	t.Parallel()
	messages := func(args string) []byte {
		return []byte(`[{"role":"assistant","tool_calls":[{"id":"0","type":"function","function":{"name":"f","arguments":"` +
			args + `"}}]}]`)
	}
	m := model(t, `{{ messages[0].tool_calls[0].function.arguments|tojson }}`, Options{})
	for _, row := range []struct{ version, args, want string }{
		{"0.27.1", "[1]", "[1]"}, {"0.32.0", "[1]", "{}"}, {"", "[1]", "{}"}, {"0.27.1", "null", "{}"},
	} {
		got, err := m.Render(t.Context(), &Request{MessagesJSON: messages(row.args), Rules: RulesFor(row.version)})
		require.NoError(t, err)
		require.Equal(t, row.want, string(got.Text), "%s %s", row.version, row.args)
	}
	_, err := m.Render(t.Context(), &Request{MessagesJSON: messages("{"), Rules: RulesFor("0.27.1")})
	require.ErrorContains(t, err, "not valid JSON")
}

func TestTemplateChoice(t *testing.T) {
	t.Parallel()
	sources := map[string]string{"default": "plain", "tool_use": "tools", "rag": "rag"}
	tool := []byte(`[{"type":"function","function":{"name":"f"}}]`)
	messages := []byte(`[{"role":"user","content":"x"}]`)
	text := func(s string) *string { return &s }
	rows := []struct {
		name, forced string
		trust        bool
		request      Request
		want         string
		refused      bool
	}{
		{"default", "", false, Request{}, "plain", false},
		{"tool_use with tools", "", false, Request{ToolsJSON: tool}, "tools", false},
		{"a forced one beats both", "forced", false, Request{ToolsJSON: tool}, "forced", false},
		{"a trusted request names one", "", true, Request{ChatTemplate: text("rag")}, "rag", false},
		{"a trusted request brings one", "forced", true, Request{ChatTemplate: text("own")}, "own", false},
		{"an untrusted request is refused", "", false, Request{ChatTemplate: text("own")}, "", true},
		{"a trusted kwarg beats the model's", "", true, Request{ChatTemplateKwargsJSON: []byte(`{"chat_template":"kw"}`)}, "kw", false},
		{"but not a forced one", "forced", true, Request{ChatTemplateKwargsJSON: []byte(`{"chat_template":"kw"}`)}, "forced", false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m, err := New(sources, row.forced, nil, Options{TrustRequestTemplate: row.trust})
			require.NoError(t, err)
			row.request.MessagesJSON = messages
			got, err := m.Render(t.Context(), &row.request)
			if row.refused {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, string(got.Text))
		})
	}
}

func TestRequestTemplatesAreCompiledOnceAndBounded(t *testing.T) {
	t.Parallel()
	c := newSourceCache()
	first, err := c.get("{{ a }}", jinja.Limits{})
	require.NoError(t, err)
	again, err := c.get("{{ a }}", jinja.Limits{})
	require.NoError(t, err)
	require.Same(t, first, again)
	_, err = c.get("{% if %}", jinja.Limits{})
	require.Error(t, err)
	for i := range 3 * maxRequested {
		_, err := c.get(string(rune('a'+i%26))+time.Duration(i).String(), jinja.Limits{})
		require.NoError(t, err)
		require.LessOrEqual(t, len(c.bySrc)+len(c.failed), maxRequested)
	}
}

func TestRefusalsNameTheMemberAndRepeatNoText(t *testing.T) {
	t.Parallel()
	const secret = "the-secret-text"
	rows := []struct {
		name    string
		request Request
		param   string
	}{
		{"messages no list", Request{MessagesJSON: []byte(`"` + secret + `"`)}, "messages"},
		{"empty conversation", Request{MessagesJSON: []byte(`[]`)}, "messages"},
		{"broken JSON", Request{MessagesJSON: []byte(`[{"role":"` + secret)}, "messages"},
		{"role missing", Request{MessagesJSON: []byte(`[{"content":"` + secret + `"}]`)}, "messages"},
		{"null content", Request{MessagesJSON: []byte(`[{"role":"` + secret + `","content":null}]`)}, "messages"},
		{"unknown part", Request{MessagesJSON: []byte(`[{"role":"user","content":[{"type":"` + secret + `"}]}]`)}, "messages"},
		{"empty tools", Request{MessagesJSON: []byte(`[{"role":"user"}]`), ToolsJSON: []byte(`[]`)}, "tools"},
		{"kwargs no object", Request{MessagesJSON: []byte(`[{"role":"user"}]`), ChatTemplateKwargsJSON: []byte(`[1]`)}, "chat_template_kwargs"},
	}
	m := model(t, dump, Options{DefaultKwargs: value.None})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := m.Render(t.Context(), &row.request)
			var refusal *Refusal
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, row.param, refusal.Param)
			require.NotContains(t, err.Error(), secret)
		})
	}
}
