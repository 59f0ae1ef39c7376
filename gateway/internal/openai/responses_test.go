package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResponsesConversation(t *testing.T) {
	t.Parallel()
	const system = `{"role":"system","content":"i"}`
	for name, row := range map[string]struct{ body, messages string }{
		"text":                      {`{"input":"x\u00e9"}`, `[{"role":"user","content":"x\u00e9"}]`},
		"instructions first":        {`{"input":"x","instructions":"i"}`, `[` + system + `,{"role":"user","content":"x"}]`},
		"empty instructions":        {`{"input":"x","instructions":""}`, `[{"role":"user","content":"x"}]`},
		"null and empty members":    {`{"input":"x","instructions":null,"tools":[],"reasoning":null,"previous_response_id":null,"prompt":null}`, `[{"role":"user","content":"x"}]`},
		"turns":                     {`{"input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","content":"b"},{"role":"developer","content":"c"}]}`, `[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"developer","content":"c"}]`},
		"parts":                     {`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":""}]}]}`, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""}]}]`},
		"an answer that came back":  {`{"input":[{"role":"assistant","type":"message","id":"msg_1","status":"completed","content":[{"type":"output_text","text":"b","annotations":[],"logprobs":null}]}]}`, `[{"role":"assistant","content":"b"}]`},
		"instructions and a system": {`{"instructions":"i","input":[{"role":"system","content":"s"}]}`, `[` + system + `,{"role":"system","content":"s"}]`},
	} {
		q, err := Scan(ShapeResponses, []byte(row.body), 100)
		require.NoError(t, err, name)
		c, ok := q.ResponsesConversation()
		require.True(t, ok, name)
		require.Equal(t, row.messages, string(c.Messages), name)
		require.Nil(t, c.Tools, name)
		require.Nil(t, c.ReasoningEffort, name)
	}
	q, err := Scan(ShapeResponses, []byte(`{"input":"x","reasoning":{"effort":"low","summary":null},"chat_template_kwargs":{"a":1.0}}`), 100)
	require.NoError(t, err)
	c, ok := q.ResponsesConversation()
	require.True(t, ok)
	require.Equal(t, "low", *c.ReasoningEffort)
	require.Equal(t, `{"a":1.0}`, string(c.Kwargs))
}

func TestResponsesConversationKnowsItsLimits(t *testing.T) {
	t.Parallel()
	item := func(text string) string { return `{"input":[` + text + `]}` }
	for name, body := range map[string]string{
		"no input":                `{"instructions":"i"}`,
		"input an object":         `{"input":{}}`,
		"stored response":         `{"input":"x","previous_response_id":"resp_1"}`,
		"prompt by reference":     `{"input":"x","prompt":{"id":"p"}}`,
		"conversation":            `{"input":"x","conversation":"conv_1"}`,
		"previous messages":       `{"input":"x","previous_input_messages":[]}`,
		"tools":                   `{"input":"x","tools":[{"type":"web_search"}]}`,
		"tools no list":           `{"input":"x","tools":{}}`,
		"instructions no text":    `{"input":"x","instructions":[]}`,
		"effort no text":          `{"input":"x","reasoning":{"effort":1}}`,
		"reasoning no object":     `{"input":"x","reasoning":"low"}`,
		"function call":           item(`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`),
		"function result":         item(`{"type":"function_call_output","call_id":"c","output":"x"}`),
		"reasoning item":          item(`{"type":"reasoning","id":"r","summary":[]}`),
		"item by reference":       item(`{"type":"item_reference","id":"r"}`),
		"image":                   item(`{"role":"user","content":[{"type":"input_image","image_url":"x"}]}`),
		"part without text":       item(`{"role":"user","content":[{"type":"input_text"}]}`),
		"no parts":                item(`{"role":"user","content":[]}`),
		"refusal":                 item(`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`),
		"two parts of an answer":  item(`{"role":"assistant","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}`),
		"partial answer":          item(`{"role":"assistant","status":"incomplete","content":"a"}`),
		"tool role":               item(`{"role":"tool","content":"a"}`),
		"no role":                 item(`{"content":"a"}`),
		"no content":              item(`{"role":"user"}`),
		"item that is no object":  item(`"x"`),
		"content that is no list": item(`{"role":"user","content":{}}`),
	} {
		q, err := Scan(ShapeResponses, []byte(body), 100)
		require.NoError(t, err, name)
		_, ok := q.ResponsesConversation()
		require.False(t, ok, name)
	}
}

// FuzzResponsesConversation: whatever the request, what comes out is JSON.
func FuzzResponsesConversation(f *testing.F) {
	f.Add([]byte(`{"instructions":"\ud800","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}],"reasoning":{"effort":"low"}}`))
	f.Add([]byte(`{"input":"x","tools":[ ],"chat_template_kwargs":{}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := Scan(ShapeResponses, body, 50)
		if err != nil {
			return
		}
		if c, ok := q.ResponsesConversation(); ok {
			require.True(t, json.Valid(c.Messages), string(c.Messages))
			require.True(t, c.Kwargs == nil || json.Valid(c.Kwargs), string(c.Kwargs))
		}
	})
}
