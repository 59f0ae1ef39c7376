package request_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

func doc(t testing.TB, text string) *pyjson.Doc {
	t.Helper()
	d, err := pyjson.Parse([]byte(text))
	require.NoError(t, err)
	return d
}

func completion(t testing.TB, text string) (*request.Completion, *request.Error) {
	t.Helper()
	return request.ParseCompletion(doc(t, text))
}

func chat(t testing.TB, text string) (*request.Chat, *request.Error) {
	t.Helper()
	return request.ParseChat(doc(t, text), []byte(text))
}

func TestCompletionDefaults(t *testing.T) {
	t.Parallel()
	r, err := completion(t, `{"prompt":"a"}`)
	require.Nil(t, err)
	require.Equal(t, []request.Prompt{{Text: "a"}}, r.Prompts)
	require.Equal(t, request.Unset, r.Sampling.MaxTokens)
	require.Equal(t, 1, r.Sampling.N)
	require.Equal(t, 1, r.StreamInterval)
	require.True(t, r.AddSpecial)
	require.True(t, r.Limit.Free())
	l := request.Limits{MaxModelLen: 100, VocabSize: 10}
	require.Equal(t, 16, r.Sampling.OutputLimit(1, 16, false, l))
	require.Equal(t, 4, r.Sampling.OutputLimit(96, 16, false, l), "the rest of the context")
	require.Nil(t, r.Sampling.Verify(16, l))
}

func TestPromptForms(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, prompt string
		want         []request.Prompt
	}{
		{"text", `"x"`, []request.Prompt{{Text: "x"}}},
		{"texts", `["x","y"]`, []request.Prompt{{Text: "x"}, {Text: "y"}}},
		{"ids", `[1,2]`, []request.Prompt{{IDs: []uint32{1, 2}, IsIDs: true}}},
		{"id lists", `[[1],[2,3]]`, []request.Prompt{{IDs: []uint32{1}, IsIDs: true}, {IDs: []uint32{2, 3}, IsIDs: true}}},
		{"id beyond 32 bits", `[4294967296]`, []request.Prompt{{IDs: []uint32{1<<32 - 1}, IsIDs: true}}},
		{"nothing", `[]`, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, err := completion(t, `{"prompt":`+row.prompt+`}`)
			require.Nil(t, err)
			require.Equal(t, row.want, r.Prompts)
		})
	}
}

func TestStreamOptions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, options     string
		usage, continuous bool
	}{
		{"none", `{}`, false, false},
		{"usage", `{"include_usage":true}`, true, false},
		{"both", `{"include_usage":true,"continuous_usage_stats":true}`, true, true},
		{"continuous alone does nothing", `{"continuous_usage_stats":true}`, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, err := completion(t, `{"prompt":"a","stream":true,"stream_options":`+row.options+`}`)
			require.Nil(t, err)
			require.Equal(t, []bool{row.usage, row.continuous}, []bool{r.IncludeUsage, r.ContinuousUsage})
		})
	}
}

func TestLaxNumbersAndFlags(t *testing.T) {
	t.Parallel()
	r, err := completion(t, `{"prompt":"a","max_tokens":"12","n":2.0,"stream":"yes","echo":1,"ignore_eos":"off","seed":true,
		"temperature":"0.5","stop":["x","y"],"stop_token_ids":[3]}`)
	require.Nil(t, err)
	require.Equal(t, 12, r.Sampling.MaxTokens)
	require.Equal(t, 2, r.Sampling.N)
	require.True(t, r.Stream)
	require.True(t, r.Echo)
	require.False(t, r.Sampling.IgnoreEOS)
	require.EqualValues(t, 1, r.Sampling.Seed)
	require.InDelta(t, 0.5, r.Sampling.Temperature, 0)
	require.Equal(t, []string{"x", "y"}, r.Sampling.Stop)
	require.Equal(t, []uint32{3}, r.Sampling.StopIDs)
}

func TestTypeComplaints(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, field, want string }{
		{"flag of another type", `"stream":[]`, "'bool_type', 'loc': 'body.stream'"},
		{"number of another type", `"temperature":{}`, "'float_type', 'loc': 'body.temperature'"},
		{"text of another type", `"session_id":5`, "'string_type', 'loc': 'body.session_id'"},
		{"stop of another type", `"stop":[1]`, "'string_type', 'loc': 'body.stop.0'"},
		{"ids of another type", `"stop_token_ids":"x"`, "'list_type', 'loc': 'body.stop_token_ids'"},
		{"a float beyond an int", `"max_tokens":1e99`, "'int_parsing_size', 'loc': 'body.max_tokens', 'msg': 'Unable to parse input " +
			"string as an integer, exceeded maximum size', 'input': '1e+99'"},
		{"a negative one", `"n":-9223372036854777856.0`, "'int_parsing_size', 'loc': 'body.n'"},
		{"a float beyond floats", `"max_tokens":1e400`, "'finite_number', 'loc': 'body.max_tokens', 'msg': 'Input should be a finite number', " +
			"'input': 'inf'"},
		{"an id that is none", `"stop_token_ids":[1,"x"]`, "'int_parsing', 'loc': 'body.stop_token_ids.1'"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := completion(t, `{"prompt":"a",`+row.field+`}`)
			require.NotNil(t, err)
			require.Equal(t, "Bad Request", err.Type)
			require.Contains(t, err.Error(), row.want)
		})
	}
	many := `{"prompt":[` + strings.TrimSuffix(strings.Repeat(`"x",1,`, 9), ",") + `]}`
	_, err := completion(t, many)
	require.NotNil(t, err)
	require.Contains(t, err.Message, "\n  ...and ")
	require.Equal(t, 12, strings.Count(err.Message, "\n")+1)
}

func TestSamplingRules(t *testing.T) {
	t.Parallel()
	l := request.Limits{MaxModelLen: 100, VocabSize: 10}
	for _, row := range []struct{ name, fields, want string }{
		{"infinite temperature", `"temperature":Infinity`, "temperature must be a finite number, got inf."},
		{"min above max", `"max_tokens":2,"min_tokens":3`, "min_tokens must be less than or equal to max_tokens=2, got 3."},
		{"negative biased id", `"logit_bias":{"-1":1}`, "token_id(s) [-1] in logit_bias contain out-of-vocab token ids."},
		{"more than the context", `"max_tokens":101`, "max_tokens=101 cannot be greater than max_model_len=100."},
		{"top_k", `"top_k":-2`, "top_k must be 0 (disable), or at least 1, got -2."},
		{"fine", `"top_k":-1,"top_p":0.5,"temperature":0,"logit_bias":{"9":1}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, err := completion(t, `{"prompt":"a",`+row.fields+`}`)
			require.Nil(t, err)
			err = r.Sampling.Verify(r.Sampling.OutputLimit(1, 16, false, l), l)
			if row.want == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Contains(t, err.Message, row.want)
		})
	}
}

func TestChatOptions(t *testing.T) {
	t.Parallel()
	const user = `"messages":[{"role":"user","content":"q"}]`
	r, err := chat(t, `{`+user+`,"max_tokens":3,"max_completion_tokens":5,"logprobs":true,"top_logprobs":2,
		"cache_salt":"s","vllm_xargs":{"kv_cache_report_mode":"full"},"kv_transfer_params":{"prompt_token_ids":[4,5]}}`)
	require.Nil(t, err)
	require.Equal(t, 5, r.Sampling.MaxTokens)
	require.Equal(t, 2, r.Sampling.Logprobs)
	require.Equal(t, "s", r.CacheSalt)
	require.True(t, r.ReportFull)
	require.Equal(t, []uint32{4, 5}, r.PromptIDs)
	require.True(t, r.Thinking)
	r, err = chat(t, `{`+user+`,"echo":true,"kv_transfer_params":{"prompt_token_ids":[4,5]}}`)
	require.Nil(t, err)
	require.Nil(t, r.PromptIDs, "echo turns ids off")
	require.Zero(t, r.Sampling.PromptLogprobs)
	for _, row := range []struct{ name, field string }{
		{"kwargs", `"chat_template_kwargs":{"enable_thinking":false}`}, {"effort", `"reasoning_effort":"none"`},
	} {
		r, err = chat(t, `{`+user+`,`+row.field+`}`)
		require.Nil(t, err)
		require.False(t, r.Thinking, row.name)
	}
}

func TestToolChoice(t *testing.T) {
	t.Parallel()
	const head = `{"messages":[{"role":"user","content":"q"}],"tools":[{"type":"function","function":{"name":"f"}}]`
	for _, row := range []struct {
		name, choice string
		want         request.Choice
	}{
		{"absent", "", request.Choice{Mode: request.ChooseAuto}},
		{"none", `,"tool_choice":"none"`, request.Choice{}},
		{"auto", `,"tool_choice":"auto"`, request.Choice{Mode: request.ChooseAuto}},
		{"required", `,"tool_choice":"required"`, request.Choice{Mode: request.ChooseRequired}},
		{"named", `,"tool_choice":{"type":"function","function":{"name":"f"}}`, request.Choice{Mode: request.ChooseNamed, Name: "f"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, err := chat(t, head+row.choice+"}")
			require.Nil(t, err)
			require.Equal(t, row.want, r.Choice)
			require.Equal(t, "f", r.Tools[0].Name)
		})
	}
	_, err := chat(t, `{"messages":[{"role":"user","content":"q"}],"tools":[{"type":"function","function":{}}]}`)
	require.NotNil(t, err)
	require.Equal(t, "body.tools.0.function.name", err.Param)
}

func TestConstraints(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, fields string
		check        func(c request.Constraint) bool
	}{
		{"json_object", `"response_format":{"type":"json_object"}`, func(c request.Constraint) bool { return c.Schema != nil }},
		{"text", `"response_format":{"type":"text"}`, func(c request.Constraint) bool { return c.Free() }},
		{"choice", `"structured_outputs":{"choice":["a"]}`, func(c request.Constraint) bool { return c.Choices[0] == "a" }},
		{"regex", `"structured_outputs":{"regex":"x"}`, func(c request.Constraint) bool { return c.Regex == "x" }},
		{"json", `"structured_outputs":{"json":{"type":"null"}}`, func(c request.Constraint) bool { return c.Schema.Len() == 1 }},
		{"any object", `"structured_outputs":{"json_object":true}`, func(c request.Constraint) bool { return c.Schema != nil }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, err := chat(t, `{"messages":[{"role":"user","content":"q"}],`+row.fields+`}`)
			require.Nil(t, err)
			require.True(t, row.check(r.Limit))
		})
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	c, ids, err := request.ParseGenerate(doc(t, `{"token_ids":[1,2],"model":"m","cache_salt":"s","priority":3,
		"sampling_params":{"max_tokens":4,"logprobs":1},"stream":true,"stream_options":{"include_usage":true}}`))
	require.Nil(t, err)
	require.Equal(t, []uint32{1, 2}, ids)
	require.Equal(t, []any{"m", "s", 3, 4, 1, true, true}, []any{
		c.Model, c.CacheSalt, c.Priority, c.Sampling.MaxTokens, c.Sampling.Logprobs, c.Stream, c.IncludeUsage,
	})
	_, _, err = request.ParseGenerate(doc(t, `{}`))
	require.NotNil(t, err)
	require.Equal(t, "body.token_ids", err.Param)
}

func TestCheckVocab(t *testing.T) {
	t.Parallel()
	l := request.Limits{VocabSize: 5}
	require.Nil(t, request.CheckVocab([]uint32{0, 4}, "", l))
	require.Equal(t, "Token id 5 is out of vocabulary", request.CheckVocab([]uint32{5}, "", l).Message)
	require.Equal(t, "p", request.CheckVocab([]uint32{5}, "p", l).Param)
}

// FuzzBodies holds that no body makes the parsers panic, and that what they refuse they refuse with a client error.
func FuzzBodies(f *testing.F) {
	for _, line := range capture.Read(f, "http.jsonl") {
		if len(line.HTTP.Body) < 2000 {
			f.Add(line.HTTP.Body)
		}
	}
	f.Fuzz(func(t *testing.T, body string) {
		d, err := pyjson.Parse([]byte(body))
		if err != nil || d.Root.Kind != pyjson.Dict {
			return
		}
		refused := func(e *request.Error) {
			if e != nil {
				require.Equal(t, 400, e.Status)
				require.NotEmpty(t, e.Message)
			}
		}
		l := request.Limits{MaxModelLen: 100, VocabSize: 100}
		c, e := request.ParseCompletion(d)
		refused(e)
		if e == nil {
			refused(c.Sampling.Verify(c.Sampling.OutputLimit(1, 16, c.Echo, l), l))
		}
		ch, e := request.ParseChat(d, []byte(body))
		refused(e)
		if e == nil {
			refused(ch.CheckRender(&d.Root))
		}
		_, _, e = request.ParseGenerate(d)
		refused(e)
	})
}
