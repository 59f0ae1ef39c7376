package openai

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestMessagesConversationIsVLLMs compares with what vLLM 0.32's own conversion made of 70 requests: tools/messages-golden.py
// runs it. The golden file has arguments as the text that vLLM makes and parses again.
func TestMessagesConversationIsVLLMs(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("testdata", "messages-golden.json"))
	require.NoError(t, err)
	var rows []struct {
		Name            string
		Request         json.RawMessage
		Messages, Tools any
		ToolChoice      any     `json:"tool_choice"`
		ReasoningEffort *string `json:"reasoning_effort"`
		Kwargs          any
	}
	require.NoError(t, json.Unmarshal(raw, &rows))
	require.Len(t, rows, 70)
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			t.Parallel()
			q, err := Scan(ShapeMessages, row.Request, 100)
			require.NoError(t, err)
			c, ok := q.MessagesConversation()
			require.True(t, ok)
			require.Empty(t, cmp.Diff(parsedArguments(row.Messages), value(t, c.Messages)))
			require.Empty(t, cmp.Diff(withoutNulls(row.Tools), value(t, c.Tools)))
			require.Empty(t, cmp.Diff(row.ToolChoice, value(t, c.ToolChoice)))
			require.Empty(t, cmp.Diff(row.Kwargs, value(t, c.Kwargs)))
			require.Equal(t, row.ReasoningEffort, c.ReasoningEffort)
		})
	}
}

func value(t *testing.T, raw []byte) any {
	t.Helper()
	if raw == nil {
		return nil
	}
	var v any
	require.NoError(t, json.Unmarshal(raw, &v), string(raw))
	return v
}

// parsedArguments parses the arguments of tool calls, as vLLM does before it renders.
func parsedArguments(v any) any {
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = parsedArguments(x[i])
		}
	case map[string]any:
		for k := range x {
			if text, ok := x[k].(string); ok && k == "arguments" {
				var parsed any
				if json.Unmarshal([]byte(text), &parsed) == nil {
					x[k] = parsed
				}
				continue
			}
			x[k] = parsedArguments(x[k])
		}
	}
	return v
}

// withoutNulls drops null descriptions: an absent one becomes null in the template all the same.
func withoutNulls(v any) any {
	tools, _ := v.([]any)
	for _, tool := range tools {
		f, _ := tool.(map[string]any)["function"].(map[string]any)
		if d, there := f["description"]; there && d == nil {
			delete(f, "description")
		}
	}
	return v
}

// TestMessagesConversationOrder: what decides bytes of the prompt beside the values: members of schemas and arguments keep
// the client's order, a missing type comes last, the last of equal members counts.
func TestMessagesConversationOrder(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ body, messages, tools string }{
		"arguments keep their spelling": {
			`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{"z":1.50,"a":[1e3]}}]}]}`,
			`[{"role":"assistant","tool_calls":[{"id":"i","type":"function","function":{"name":"f","arguments":{"z":1.50,"a":[1e3]}}}]}]`, "",
		},
		"schemas keep their order, the type comes last": {
			`{"tools":[{"input_schema":{"required":["z"],"properties":{"z":{},"a":{}} },"name":"f","description":"d"}],"messages":[]}`, `[]`,
			`[{"type":"function","function":{"name":"f","description":"d","parameters":{"required":["z"],"properties":{"z":{},"a":{}} ,"type":"object"}}}]`,
		},
		"the last of equal members counts": {
			`{"messages":[],"messages":[{"role":"assistant","role":"user","content":"a","content":"b"}]}`,
			`[{"role":"user","content":"b"}]`, "",
		},
		"system comes first wherever it stands": {
			`{"messages":[{"role":"user","content":"b"}],"system":"a"}`,
			`[{"role":"system","content":"a"},{"role":"user","content":"b"}]`, "",
		},
		"a choice without tools": {
			`{"tool_choice":{"type":"auto"},"messages":[{"role":"user","content":"b"}]}`, `[{"role":"user","content":"b"}]`, "",
		},
		"escapes of a text stay": {
			`{"messages":[{"role":"user","content":"caf\u00e9"}]}`, `[{"role":"user","content":"caf\u00e9"}]`, "",
		},
	} {
		q, err := Scan(ShapeMessages, []byte(row.body), 100)
		require.NoError(t, err, name)
		c, ok := q.MessagesConversation()
		require.True(t, ok, name)
		require.Equal(t, row.messages, string(c.Messages), name)
		require.Equal(t, row.tools, string(c.Tools), name)
		require.Equal(t, row.tools != "", c.ToolChoice != nil, name)
	}
}

// TestMessagesConversationKnowsItsLimits: what only the worker can tell is not guessed.
func TestMessagesConversationKnowsItsLimits(t *testing.T) {
	t.Parallel()
	user := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	for name, body := range map[string]string{
		"image":                       user(`[{"type":"image","source":{"type":"url","url":"http://x"}}]`),
		"image in a result":           user(`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{}}]}]`),
		"reference in a result":       user(`[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","name":"f"}]}]`),
		"document":                    user(`[{"type":"document"}]`),
		"block without a type":        user(`[{"text":"x"}]`),
		"block that is no object":     user(`["x"]`),
		"text that is no text":        user(`[{"type":"text","text":1}]`),
		"content null":                user(`null`),
		"content a number":            user(`1`),
		"system among the messages":   `{"messages":[{"role":"system","content":"x"},{"role":"user","content":"x"}]}`,
		"unknown role":                `{"messages":[{"role":"tool","content":"x"}]}`,
		"no role":                     `{"messages":[{"content":"x"}]}`,
		"message that is no object":   `{"messages":["x"]}`,
		"no messages":                 `{"system":"x"}`,
		"messages no list":            `{"messages":{}}`,
		"thinking disabled":           `{"thinking":{"type":"disabled"},"messages":[]}`,
		"call without an id":          `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]}`,
		"call with a list":            `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":[]}]}]}`,
		"list result of an assistant": `{"messages":[{"role":"assistant","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}]}`,
		"tool added on the way":       `{"messages":[{"role":"user","content":[{"type":"tool_addition","tool":{"type":"tool_reference","name":"f"}}]}]}`,
		"no tools in the list":        `{"tools":[],"messages":[]}`,
		"tools no list":               `{"tools":{},"messages":[]}`,
		"tool without a schema":       `{"tools":[{"name":"f"}],"messages":[]}`,
		"system a number":             `{"system":1,"messages":[]}`,
		"unknown choice":              `{"tool_choice":{"type":"some"},"messages":[]}`,
		"choice a text":               `{"tool_choice":"auto","messages":[]}`,
		"effort a number":             `{"output_config":{"effort":1},"messages":[]}`,
		"thinking a text":             `{"thinking":"on","messages":[]}`,
	} {
		q, err := Scan(ShapeMessages, []byte(body), 100)
		require.NoError(t, err, name)
		_, ok := q.MessagesConversation()
		require.False(t, ok, name)
	}
}

// FuzzMessagesConversation: whatever the request, what comes out is JSON.
func FuzzMessagesConversation(f *testing.F) {
	f.Add([]byte(`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]}]}`))
	f.Add([]byte(`{"tools":[{"name":"f","input_schema":{ }}],"tool_choice":{"type":"tool","name":"\ud800"},"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"tool_use","id":"1","input":{}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := Scan(ShapeMessages, body, 50)
		if err != nil {
			return
		}
		c, ok := q.MessagesConversation()
		if !ok {
			return
		}
		require.True(t, json.Valid(c.Messages), string(c.Messages))
		for _, raw := range [][]byte{c.Tools, c.ToolChoice, c.Kwargs} {
			require.True(t, raw == nil || json.Valid(raw), string(raw))
		}
	})
}
