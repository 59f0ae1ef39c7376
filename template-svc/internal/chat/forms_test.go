package chat

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// form is two ways to write one conversation.
type form struct {
	name string
	a, b func(text string) string
}

// forms are pairs of messages between which a client may choose; the worker makes the same prompt of both.
func forms() []form {
	return []form{
		{"unknown members and their order", said, func(s string) string { return `{"x":1,"content":` + s + `,"role":"user","cache":{}}` }},
		{
			"arguments as text and as an object",
			func(s string) string {
				args, _ := json.Marshal(`{"city": ` + s + `, "n": [1, 2.0, null]}`) // a string always has a JSON form
				return calls(`"arguments":` + string(args) + `,"name":"f"`)
			},
			func(s string) string { return calls(`"name":"f","arguments":{"city": ` + s + `, "n": [1, 2.0, null]}`) },
		},
		{
			"no content and null content", func(string) string { return calls(`"name":"f","arguments":"{}"`) },
			func(string) string {
				return strings.Replace(calls(`"name":"f","arguments":"{}"`), `"role"`, `"content":null,"role"`, 1)
			},
		},
		{
			"empty and absent tool calls", func(s string) string { return `{"role":"assistant","content":` + s + `}` },
			func(s string) string { return `{"role":"assistant","tool_calls":[],"content":` + s + `}` },
		},
		{
			"reasoning under both names", func(s string) string { return `{"role":"assistant","content":"c","reasoning":` + s + `}` },
			func(s string) string { return `{"role":"assistant","content":"c","reasoning_content":` + s + `}` },
		},
		{
			"a tool's text and its one part", func(s string) string { return tool(s) },
			func(s string) string { return tool(`[{"type":"text","text":` + s + `}]`) },
		},
		{
			"arguments that are nothing", func(string) string { return calls(`"name":"f","arguments":""`) },
			func(string) string { return calls(`"name":"f","arguments":"null"`) },
		},
		{
			"arguments that are broken", func(string) string { return calls(`"name":"f","arguments":"{"`) },
			func(string) string { return calls(`"name":"f","arguments":"{}"`) },
		},
		{
			"types of text parts", func(s string) string { return said(`[{"type":"text","text":` + s + `}]`) },
			func(s string) string { return said(`[{"type":"text","text":` + s + `},{"type":"text","text":null}]`) },
		},
	}
}

func said(content string) string { return `{"role":"user","content":` + content + `}` }

func calls(function string) string {
	return `{"role":"assistant","tool_calls":[{"id":"c0","type":"function","function":{` + function + `}}]}`
}

func tool(content string) string {
	return `{"role":"tool","name":"f","tool_call_id":"c0","content":` + content + `}`
}

// TestFormsOfOneConversation renders both forms with every template of the request oracle, in a conversation before and
// after them: the texts are equal, or both fail alike.
func TestFormsOfOneConversation(t *testing.T) {
	t.Parallel()
	dir := corpusDir(t)
	var index oracleIndex
	readJSON(t, filepath.Join(dir, "request-oracle", "index.json"), &index)
	rng := rand.New(rand.NewPCG(2, 3))
	texts := []string{`"Zurich"`, `""`, `"a \"b\"\n\u00e9"`, `" {{ x }} <|im_end|> "`, fmt.Sprintf("%q", strings.Repeat("long ", rng.IntN(40)))}
	for _, entry := range index.Templates {
		t.Run(entry.Template, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(dir, "templates", entry.File))
			require.NoError(t, err)
			special := []jinja.Var{{Name: "bos_token", Value: value.Str("<s>")}, {Name: "eos_token", Value: value.Str("</s>")}}
			m, err := New(nil, string(source), special, Options{})
			require.NoError(t, err)
			for _, f := range forms() {
				for _, text := range texts {
					prompt := func(message string) string {
						all := "[" + said(`"hello"`) + "," + message + "," + said(`"bye"`) + "]"
						got, err := m.Render(t.Context(), &Request{MessagesJSON: []byte(all)})
						if err != nil {
							return "failed: " + err.Error()
						}
						return string(got.Text)
					}
					require.Equal(t, prompt(f.a(text)), prompt(f.b(text)), "%s with %s", f.name, text)
				}
			}
		})
	}
}
