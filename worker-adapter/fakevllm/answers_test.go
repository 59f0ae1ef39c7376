package fakevllm_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// chatAnswer is what tests read of a chat answer.
type chatAnswer struct {
	Choices []struct {
		Message struct {
			Content   *string
			Reasoning *string
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
		StopReason   any    `json:"stop_reason"`
		TokenIDs     []int  `json:"token_ids"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    *struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	PromptText  *string `json:"prompt_text"`
	Fingerprint string  `json:"system_fingerprint"`
}

func ask(t *testing.T, url, body string) chatAnswer {
	t.Helper()
	res, text := post(t, url+"/v1/chat/completions", body)
	require.Equal(t, 200, res.StatusCode, text)
	var a chatAnswer
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	return a
}

const tools = `"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":` +
	`{"city":{"type":"string"},"unit":{"enum":["C","F"]}},"required":["city","unit"]}}},` +
	`{"type":"function","function":{"name":"get_time","parameters":{}}}]`

func TestAnswersAreDeterministic(t *testing.T) {
	t.Parallel()
	_, one := start(t, fakevllm.Config{Instant: true})
	_, two := start(t, fakevllm.Config{Instant: true})
	body := `{"messages":[{"role":"user","content":"q"}]}`
	a, b := ask(t, one, body), ask(t, two, body)
	require.Equal(t, *a.Choices[0].Message.Content, *b.Choices[0].Message.Content, "on every worker")
	require.Equal(t, "stop", a.Choices[0].FinishReason)
	require.True(t, strings.HasSuffix(*a.Choices[0].Message.Content, "."))
	require.Contains(t, a.Fingerprint, "simulated")
	other := ask(t, one, `{"messages":[{"role":"user","content":"q"}],"seed":5}`)
	require.NotEqual(t, *a.Choices[0].Message.Content, *other.Choices[0].Message.Content)
	two2 := ask(t, one, `{"messages":[{"role":"user","content":"q"}],"n":2,"temperature":1}`)
	require.NotEqual(t, *two2.Choices[0].Message.Content, *two2.Choices[1].Message.Content, "each choice says something else")
}

func TestToolCalls(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true})
	for _, row := range []struct{ name, asked, choice, tool, finish string }{
		{"auto with a mention", "Weather in Paris?", `"auto"`, "get_weather", "tool_calls"},
		{"auto without", "Say hello.", `"auto"`, "", "stop"},
		{"required", "Say hello.", `"required"`, "get_time", "tool_calls"},
		{"required with a mention", "Weather?", `"required"`, "get_weather", "tool_calls"},
		{"named", "Say hello.", `{"type":"function","function":{"name":"get_weather"}}`, "get_weather", "stop"},
		{"none", "Weather in Paris?", `"none"`, "", "stop"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a := ask(t, url, `{"messages":[{"role":"user","content":"`+row.asked+`"}],`+tools+`,"tool_choice":`+row.choice+`}`)
			c := a.Choices[0]
			require.Equal(t, row.finish, c.FinishReason)
			if row.tool == "" {
				require.Empty(t, c.Message.ToolCalls)
				require.NotEmpty(t, *c.Message.Content)
				return
			}
			require.Nil(t, c.Message.Content)
			require.Len(t, c.Message.ToolCalls, 1)
			f := c.Message.ToolCalls[0].Function
			require.Equal(t, row.tool, f.Name)
			var args map[string]string
			require.NoError(t, json.Unmarshal([]byte(f.Arguments), &args))
			if row.tool == "get_weather" {
				require.NotEmpty(t, args["city"])
				require.Contains(t, []string{"C", "F"}, args["unit"])
			}
		})
	}
	after := ask(t, url, `{"messages":[{"role":"user","content":"Weather?"},{"role":"assistant","content":null,"tool_calls":`+
		`[{"id":"1","type":"function","function":{"name":"get_weather","arguments":"{}"}}]},`+
		`{"role":"tool","tool_call_id":"1","content":"weather: rain"}],`+tools+`}`)
	require.Empty(t, after.Choices[0].Message.ToolCalls, "an answer to a tool's result is no further call")
}

func TestConstrainedAnswers(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true})
	for _, row := range []struct{ name, fields, match string }{
		{"schema", `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":` +
			`{"ok":{"type":"boolean"}},"required":["ok"]}}}`, `^{"ok": (true|false)}$`},
		{"object", `"response_format":{"type":"json_object"}`, `^{}$`},
		{"choice", `"structured_outputs":{"choice":["yes","no"]}`, `^(yes|no)$`},
		{"regex", `"structured_outputs":{"regex":"[ab]{3}é"}`, `^[ab]{3}é$`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			body := `{"messages":[{"role":"user","content":"q"}],` + row.fields + `}`
			a := ask(t, url, body)
			require.Regexp(t, row.match, *a.Choices[0].Message.Content)
			require.Equal(t, "stop", a.Choices[0].FinishReason)
			_, text := post(t, url+"/v1/chat/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`)
			require.Equal(t, *a.Choices[0].Message.Content, joinDeltas(t, text), "streamed it is the same")
		})
	}
}

// joinDeltas joins the content of a chat stream.
func joinDeltas(t *testing.T, body string) string {
	t.Helper()
	out := ""
	for _, e := range splitEvents(body) {
		data := strings.TrimSpace(strings.TrimPrefix(e, "data: "))
		if data == "[DONE]" {
			return out
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		require.NoError(t, json.Unmarshal([]byte(data), &chunk))
		out += chunk.Choices[0].Delta.Content
	}
	t.Fatal("no [DONE]")
	return out
}

func TestLengthsAndStops(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true, MaxModelLen: 400, AnswerMinTokens: 30, AnswerMaxTokens: 30})
	whole := *ask(t, url, `{"messages":[{"role":"user","content":"q"}]}`).Choices[0].Message.Content
	for _, row := range []struct {
		name, fields, want, finish string
		tokens                     int
		stop                       any
	}{
		{"cut", `"max_tokens":5`, whole[:5], "length", 5, nil},
		{"exactly one", `"max_tokens":1`, whole[:1], "length", 1, nil},
		{"stop string", `"stop":["s"]`, whole[:strings.Index(whole, "s")], "stop", strings.Index(whole, "s") + 1, "s"},
		{
			"stop string kept", `"stop":["s"],"include_stop_str_in_output":true`, whole[:strings.Index(whole, "s")+1], "stop",
			strings.Index(whole, "s") + 1, "s",
		},
		{"first of two", `"stop":["zzz","is"]`, whole[:strings.Index(whole, "is")], "stop", strings.Index(whole, "is") + 2, "is"},
		{
			"stop behind min_tokens", `"stop":["s"],"min_tokens":10`, whole[:9+strings.Index(whole[9:], "s")], "stop",
			10 + strings.Index(whole[9:], "s"), "s",
		},
		{"stop token", `"stop_token_ids":[32]`, whole[:strings.Index(whole, " ")], "stop", strings.Index(whole, " ") + 1, 32.0},
		{"end of sequence counts", `"max_tokens":390`, whole, "stop", len(whole) + 1, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			body := `{"messages":[{"role":"user","content":"q"}],` + row.fields + `}`
			a := ask(t, url, body)
			require.Equal(t, row.want, *a.Choices[0].Message.Content)
			require.Equal(t, row.finish, a.Choices[0].FinishReason)
			require.Equal(t, row.stop, a.Choices[0].StopReason)
			require.Equal(t, row.tokens, a.Usage.Completion)
			_, text := post(t, url+"/v1/chat/completions", strings.TrimSuffix(body, "}")+`,"stream":true}`)
			require.Equal(t, row.want, joinDeltas(t, text))
		})
	}
	a := ask(t, url, `{"messages":[{"role":"user","content":"q"}],"ignore_eos":true,"max_tokens":300}`)
	require.Equal(t, []any{300, "length"}, []any{a.Usage.Completion, a.Choices[0].FinishReason})
	require.Equal(t, whole[:20], (*a.Choices[0].Message.Content)[:20])
}

func TestThinking(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true, ReasoningParser: "qwen3"})
	a := ask(t, url, `{"messages":[{"role":"user","content":"q"}],"return_prompt_text":true}`)
	m := a.Choices[0].Message
	require.NotEmpty(t, *m.Reasoning)
	require.NotEmpty(t, *m.Content)
	require.NotContains(t, *m.Content, "think>")
	require.Equal(t, len(*m.Reasoning), a.Usage.Details.Reasoning, "one token a byte")
	require.Equal(t, "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n", *a.PromptText)
	a = ask(t, url, `{"messages":[{"role":"user","content":"q"}],"chat_template_kwargs":{"enable_thinking":false}}`)
	require.Nil(t, a.Choices[0].Message.Reasoning)
	require.Zero(t, a.Usage.Details.Reasoning)
}

func TestPoolingRoutes(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true, Pooling: true, EmbeddingSize: 4})
	var e struct {
		Object string
		Data   []struct {
			Index     int
			Embedding []float64
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		}
	}
	_, text := post(t, url+"/v1/embeddings", `{"input":["ab","cd","ab"]}`)
	require.NoError(t, json.Unmarshal([]byte(text), &e))
	require.Len(t, e.Data, 3)
	require.Equal(t, e.Data[0].Embedding, e.Data[2].Embedding)
	require.NotEqual(t, e.Data[0].Embedding, e.Data[1].Embedding)
	require.Equal(t, 6, e.Usage.Prompt)
	var norm float64
	for _, f := range e.Data[0].Embedding {
		norm += f * f
	}
	require.InDelta(t, 1, norm, 1e-9)
	var r struct {
		Results []struct {
			Index    int
			Document struct{ Text string }
			Score    float64 `json:"relevance_score"`
		}
	}
	_, text = post(t, url+"/v1/rerank", `{"query":"ab","documents":["x","ab","y"],"top_n":2}`)
	require.NoError(t, json.Unmarshal([]byte(text), &r))
	require.Len(t, r.Results, 2)
	require.Equal(t, 1, r.Results[0].Index)
	require.InDelta(t, 1, r.Results[0].Score, 1e-9)
	for _, row := range []struct{ path, body, want string }{
		{"/pooling", `{"input":"ab"}`, `"object":"pooling","data":[`},
		{"/v1/embeddings", `{"input":[1,2],"encoding_format":"base64"}`, `"embedding":"`},
		{"/classify", `{"input":["a","b"]}`, `"num_classes":2}`},
		{"/score", `{"text_1":"a","text_2":["a","b"]}`, `{"index":0,"object":"score","score":1`},
		{"/v1/embeddings", `{"input":[]}`, `"code":400`},
		{"/v1/embeddings", `{"input":[[-1]]}`, `Token id -1 is out of vocabulary`},
		{"/rerank", `{"model":"zz","query":"a","documents":["b"]}`, `"code":404`},
	} {
		_, text := post(t, url+row.path, row.body)
		require.Contains(t, text, row.want, row.path)
	}
}

// failing is a tokenizer or renderer that is out of order after its first answers.
type failing struct{ after int }

var errOut = errors.New("out of order")

func (f *failing) Encode(_ context.Context, text []byte, _ bool) ([]uint32, error) {
	if f.after--; f.after < 0 {
		return nil, errOut
	}
	return make([]uint32, len(text)), nil
}

func (f *failing) Decode([]uint32) (string, error) { return "", nil }

func (f *failing) Render(context.Context, []byte) ([]byte, error) { return nil, errOut }

func TestServicesThatFail(t *testing.T) {
	t.Parallel()
	_, err := fakevllm.New(fakevllm.Config{}, fakevllm.Deps{Tokenizer: &failing{}})
	require.ErrorIs(t, err, errOut)
	s, err := fakevllm.New(fakevllm.Config{Instant: true, EOSTokenID: 7}, fakevllm.Deps{
		Tokenizer: &failing{after: 1}, Renderer: &failing{},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	res, text := post(t, "http://"+s.Addr()+"/v1/completions", `{"prompt":"a"}`)
	require.Equal(t, 500, res.StatusCode)
	require.Contains(t, text, `"type":"InternalServerError"`)
	require.NotContains(t, text, "order", "a server's own trouble is no client's affair")
	res, text = post(t, "http://"+s.Addr()+"/v1/chat/completions", `{"messages":[{"role":"user","content":"a"}]}`)
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, text, "out of order", "what the template says is the client's affair")
	cancel()
	require.NoError(t, <-done)
	http.DefaultClient.CloseIdleConnections()
}
