package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func scanned(t *testing.T, shape Shape, doc string) *Request {
	t.Helper()
	q, err := Scan(shape, []byte(doc), 100)
	require.NoError(t, err)
	return q
}

func TestResumable(t *testing.T) {
	t.Parallel()
	const messages = `"messages":[{"role":"user","content":"x"}],"stream":true`
	for name, row := range map[string]struct {
		shape Shape
		doc   string
		want  bool
	}{
		"greedy chat":              {ShapeChat, `{` + messages + `,"temperature":0}`, true},
		"greedy, spelt 0.0":        {ShapeChat, `{` + messages + `,"temperature":0.0}`, true},
		"the last one counts":      {ShapeChat, `{` + messages + `,"temperature":0,"temperature":1}`, false},
		"no temperature":           {ShapeChat, `{` + messages + `}`, false},
		"null temperature":         {ShapeChat, `{` + messages + `,"temperature":null}`, false},
		"seeded sampling":          {ShapeChat, `{` + messages + `,"temperature":0.7,"seed":1}`, false},
		"plain answer":             {ShapeChat, `{"messages":[{"role":"user","content":"x"}],"temperature":0}`, false},
		"two choices":              {ShapeChat, `{` + messages + `,"temperature":0,"n":2}`, false},
		"tools":                    {ShapeChat, `{` + messages + `,"temperature":0,"tools":[{"type":"function"}]}`, false},
		"no tools, spelt out":      {ShapeChat, `{` + messages + `,"temperature":0,"tools":null,"logprobs":false}`, true},
		"logprobs":                 {ShapeChat, `{` + messages + `,"temperature":0,"logprobs":true}`, false},
		"structured":               {ShapeChat, `{` + messages + `,"temperature":0,"response_format":{"type":"json_object"}}`, false},
		"penalty":                  {ShapeChat, `{` + messages + `,"temperature":0,"presence_penalty":0.5}`, false},
		"penalty of 0":             {ShapeChat, `{` + messages + `,"temperature":0,"presence_penalty":0}`, true},
		"reasoning":                {ShapeChat, `{` + messages + `,"temperature":0,"reasoning_effort":"low"}`, false},
		"already continuing":       {ShapeChat, `{` + messages + `,"temperature":0,"continue_final_message":true}`, false},
		"text prompt":              {ShapeCompletion, `{"prompt":"x","stream":true,"temperature":0}`, true},
		"prompt of ids":            {ShapeCompletion, `{"prompt":[1,2],"stream":true,"temperature":0}`, false},
		"echo":                     {ShapeCompletion, `{"prompt":"x","stream":true,"temperature":0,"echo":true}`, false},
		"responses have own state": {ShapeResponses, `{"input":"x","stream":true,"temperature":0}`, false},
	} {
		require.Equal(t, row.want, scanned(t, row.shape, row.doc).Resumable(), name)
	}
}

func TestContinue(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		shape Shape
		doc   string
		used  int
		want  string // empty: nothing left to make
	}{
		"chat": {
			ShapeChat, `{"messages":[{"role":"user","content":"x"} ],"x":1e5}`, 3,
			`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a\"b"}],"x":1e5,` +
				`"add_generation_prompt":false,"continue_final_message":true}`,
		},
		"chat with a limit": {
			ShapeChat, `{"messages":[{"role":"user","content":"x"}],"max_completion_tokens":10}`, 3,
			`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"a\"b"}],"max_completion_tokens":7,` +
				`"add_generation_prompt":false,"continue_final_message":true}`,
		},
		"completion":             {ShapeCompletion, `{"prompt":"x","max_tokens":9}`, 4, `{"prompt":"xa\"b","max_tokens":5}`},
		"completion, vLLM's 16":  {ShapeCompletion, `{"prompt":"x"}`, 4, `{"prompt":"xa\"b","max_tokens":12}`},
		"nothing left":           {ShapeCompletion, `{"prompt":"x","max_tokens":4}`, 4, ""},
		"nothing left of the 16": {ShapeCompletion, `{"prompt":"x"}`, 16, ""},
	} {
		got, ok := scanned(t, row.shape, row.doc).Continue([]byte(`a"b`), row.used)
		require.Equal(t, row.want != "", ok, name)
		if !ok {
			continue
		}
		var have, want any // a member that is there twice counts as its last
		require.NoError(t, json.Unmarshal(got, &have), name)
		require.NoError(t, json.Unmarshal([]byte(row.want), &want), name)
		require.Equal(t, want, have, name)
		scanned(t, row.shape, string(got))
	}
}

func TestDelta(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		data, text string
		plain      bool
	}{
		"chat token":   {`{"choices":[{"index":0,"delta":{"content":"a\u00e9"},"logprobs":null,"finish_reason":null}]}`, "aé", true},
		"first chunk":  {`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`, "", true},
		"completion":   {`{"choices":[{"index":0,"text":"b","finish_reason":null}]}`, "b", true},
		"the end":      {`{"choices":[{"index":0,"delta":{"content":"c"},"finish_reason":"stop"}]}`, "c", false},
		"reasoning":    {`{"choices":[{"index":0,"delta":{"reasoning":"r"}}]}`, "", false},
		"tool call":    {`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0}]}}]}`, "", false},
		"other choice": {`{"choices":[{"index":1,"delta":{"content":"d"}}]}`, "d", false},
		"usage":        {`{"choices":[],"usage":{"prompt_tokens":1}}`, "", true},
		"no JSON":      {`[DONE]`, "", false},
		"odd choice":   {`{"choices":["x"]}`, "", false},
	} {
		text, plain := Delta([]byte(row.data))
		require.Equal(t, row.text, string(text), name)
		require.Equal(t, row.plain, plain, name)
	}
}

func TestMovedUsage(t *testing.T) {
	t.Parallel()
	require.JSONEq(t, `{"prompt_tokens":5,"total_tokens":9,"completion_tokens":4}`,
		string(MovedUsage(Usage{PromptTokens: 7, OutputTokens: 2}, 2)))
	require.JSONEq(t, `{"prompt_tokens":0,"total_tokens":3,"completion_tokens":3}`,
		string(MovedUsage(Usage{PromptTokens: 1}, 3)))
}

// FuzzContinue: whatever a request that may be continued looks like, what is made of it can be read and continued again.
func FuzzContinue(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"x"}],"stream":true,"temperature":0}`, "text")
	f.Add(`{"messages":[{"role":"user"}] ,"messages":[{"role":"user"}],"stream":true,"temperature":0}  `, "")
	f.Fuzz(func(t *testing.T, doc, text string) {
		q, err := Scan(ShapeChat, []byte(doc), 50)
		if err != nil || !q.Resumable() {
			return
		}
		got, ok := q.Continue([]byte(text), 1)
		if !ok {
			return
		}
		_, err = Scan(ShapeChat, got, 60)
		require.NoError(t, err, "%s", got)
	})
}
