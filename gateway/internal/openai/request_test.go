package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const depth = 1000

func scan(t *testing.T, shape Shape, doc string) *Request {
	t.Helper()
	q, err := Scan(shape, []byte(doc), depth)
	require.NoError(t, err)
	return q
}

func TestScanChat(t *testing.T) {
	t.Parallel()
	doc := `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant"}],"stream":true,"n":3,` +
		`"max_tokens":7,"priority":-2,"cache_salt":"s\u00e9","session_id":"x","tools":[1],"tool_choice":"auto",` +
		`"chat_template_kwargs":{"k":1.0},"documents":[],"chat_template":"t","add_generation_prompt":false,` +
		`"continue_final_message":true,"reasoning_effort":"low","stream_options":{"include_usage":true}}`
	q := scan(t, ShapeChat, doc)
	require.Equal(t, "m", q.Model)
	require.True(t, q.Stream)
	require.Equal(t, 3, q.N)
	require.Equal(t, 7, q.MaxTokens)
	require.EqualValues(t, -2, q.Priority)
	require.Equal(t, "sé", q.CacheSalt)
	require.Equal(t, "x", q.Session)
	require.True(t, q.IncludeUsage)
	require.False(t, q.CanAskUsage(), "the client's own stream_options are not touched")
	require.Len(t, q.Conversation, 2)
	tpl := q.Template
	require.Equal(t, `{"k":1.0}`, string(q.Text(tpl.Kwargs)))
	require.Equal(t, "t", *tpl.ChatTemplate)
	require.Equal(t, "low", *tpl.ReasoningEffort)
	require.False(t, *tpl.AddGenerationPrompt)
	require.True(t, *tpl.ContinueFinalMessage)
	require.Equal(t, doc, string(jsontext.Join(q.Body(Forward{Item: -1}))), "nothing to change: the bytes are the client's")
}

func TestScanLastMemberWins(t *testing.T) {
	t.Parallel()
	q := scan(t, ShapeChat, `{"messages":[{"a":1},{"b":1}],"model":"a","model":"b","stream":true,"stream":null,"messages":[{"c":1}]}`)
	require.Equal(t, "b", q.Model)
	require.False(t, q.Stream)
	require.Len(t, q.Conversation, 1)
	require.Equal(t, `[{"c":1}]`, string(q.Text(q.Template.Messages)))
}

func TestScanNullsCountAsAbsent(t *testing.T) {
	t.Parallel()
	q := scan(t, ShapeChat, `{"model":null,"messages":[{}],"stream":null,"n":null,"max_tokens":null,"stream_options":null,`+
		`"tools":null,"chat_template":null,"add_generation_prompt":null,"cache_salt":null,"kv_transfer_params":null}`)
	require.Empty(t, q.Model)
	require.Equal(t, 1, q.N)
	require.Nil(t, q.Text(q.Template.Tools))
	require.Nil(t, q.Template.ChatTemplate)
	require.Nil(t, q.Template.AddGenerationPrompt)
}

// TestScanNumbers: whatever a client sends for a number that kvmesh only reads, the worker judges it; what vLLM takes for
// one counts as one.
func TestScanNumbers(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int{
		`2`: 2, `2.0`: 2, `2e0`: 2, `"2"`: 2, `" 2 "`: 2, `"\u0032"`: 2, `true`: 1,
		`0`: 1, `-3`: 1, `1.5`: 1, `"x"`: 1, `"1.5"`: 1, `""`: 1, `[]`: 1, `{}`: 1, `false`: 1, `null`: 1,
		`1e99`: 1, `-1e99`: 1, `1e400`: 1, `9223372036854775808`: 1, `"99999999999999999999"`: 1,
		`3000000000`: math.MaxInt32, `9223372036854775807`: math.MaxInt32,
	} {
		q := scan(t, ShapeChat, `{"messages":[{}],"n":`+value+`}`)
		require.Equal(t, want, q.N, value)
		q = scan(t, ShapeChat, `{"messages":[{}],"max_tokens":`+value+`,"priority":`+value+`}`)
		if want > 1 {
			require.Equal(t, want, q.MaxTokens, value)
			require.EqualValues(t, want, q.Priority, value)
		}
		require.GreaterOrEqual(t, q.MaxTokens, 0, value)
	}
}

func TestScanSession(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("s", 1025)
	named := func(v string) string {
		return scan(t, ShapeChat, `{"messages":[{}],"session_id":"`+v+`"}`).Session
	}
	require.Equal(t, "a", named("a"))
	require.Equal(t, long[:1024], named(long[:1024]))
	require.Len(t, named(long), 64, "what the scheduler would not take goes by its digest")
	require.NotEqual(t, named(long), named(long+"s"))
	require.Empty(t, scan(t, ShapeChat, `{"messages":[{}],"session_id":5}`).Session)
}

func TestScanByteOrderMark(t *testing.T) {
	t.Parallel()
	doc := "\ufeff {\"messages\":[{}],\"stream\":true}"
	q := scan(t, ShapeChat, doc)
	require.True(t, q.Stream)
	require.Equal(t, "\ufeff {\"messages\":[{}],\"stream\":true,\"model\":\"m\"}", string(jsontext.Join(q.Body(Forward{Model: "m", Item: -1}))))
}

func TestScanFlagsOfThePrompt(t *testing.T) {
	t.Parallel()
	for want, texts := range map[string][]string{
		"true":   {`true`, `1`, `1.0`, `1e0`, `"1"`, `"on"`, `"T"`, `"TRUE"`, `"y"`, `"Yes"`},
		"false":  {`false`, `0`, `-0.0`, `"0"`, `"OFF"`, `"f"`, `"False"`, `"n"`, `"no"`},
		"absent": {`null`, `2`, `0.5`, `-1`, `""`, `"maybe"`, `" yes"`, `[]`, `{}`, `[true]`},
	} {
		for _, text := range texts {
			q := scan(t, ShapeChat, `{"messages":[{}],"add_generation_prompt":`+text+`}`)
			got := "absent"
			if b := q.Template.AddGenerationPrompt; b != nil {
				got = strconv.FormatBool(*b)
			}
			require.Equal(t, want, got, text)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		shape Shape
		doc   string
		param string
	}{
		{"array", ShapeChat, `[]`, "body"},
		{"number", ShapeChat, `1`, "body"},
		{"empty", ShapeChat, ``, "body"},
		{"blanks", ShapeChat, " \n", "body"},
		{"broken", ShapeChat, `{"model":`, ""},
		{"trailing", ShapeChat, `{"messages":[{}]} x`, ""},
		{"model number", ShapeChat, `{"model":1,"messages":[{}]}`, "model"},
		{"stream text", ShapeChat, `{"messages":[{}],"stream":"yes"}`, "stream"},
		{"messages missing", ShapeChat, `{"model":"m"}`, "messages"},
		{"messages null", ShapeChat, `{"messages":null}`, "messages"},
		{"messages text", ShapeChat, `{"messages":"x"}`, "messages"},
		{"messages empty", ShapeChat, `{"messages":[]}`, "messages"},
		{"message text", ShapeChat, `{"messages":["x"]}`, "messages"},
		{"second messages empty", ShapeChat, `{"messages":[{}],"messages":[]}`, "messages"},
		{"batch of messages", ShapeChatBatch, `{"messages":[{}]}`, "messages"},
		{"batch empty", ShapeChatBatch, `{"messages":[]}`, "messages"},
		{"prompt object", ShapeCompletion, `{"prompt":{}}`, "prompt"},
		{"prompt number", ShapeCompletion, `{"prompt":1}`, "prompt"},
		{"prompt empty list", ShapeCompletion, `{"prompt":[]}`, "prompt"},
		{"prompt mixed", ShapeCompletion, `{"prompt":["a",1]}`, "prompt"},
		{"prompt of nulls", ShapeCompletion, `{"prompt":[null]}`, "prompt"},
		{"ids mixed with text", ShapeCompletion, `{"prompt":[[1,"a"]]}`, "prompt"},
		{"too deep", ShapeOther, `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := Scan(row.shape, []byte(row.doc), depth)
			var f *fault.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, faultv1.Reason_REASON_INVALID_REQUEST, f.Reason)
			require.Equal(t, row.param, f.Param)
		})
	}
}

func TestScanPromptForms(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, prompt string
		prompts      int
		many, ids    bool
	}{
		{"text", `"a"`, 1, false, false},
		{"null", `null`, 1, false, false},
		{"ids", `[1,2]`, 1, false, true},
		{"texts", `["a","b","c"]`, 3, true, false},
		{"one text in a list", `["a"]`, 1, true, false},
		{"lists of ids", `[[1],[2,3]]`, 2, true, true},
		{"an empty list of ids", `[[],[1]]`, 2, true, true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			q := scan(t, ShapeCompletion, `{"prompt":`+row.prompt+`,"add_special_tokens":false}`)
			require.Equal(t, row.prompts, q.Prompts())
			require.Equal(t, row.many, q.Prompt.Many)
			require.Equal(t, row.ids, q.Prompt.IDs)
			require.False(t, q.AddSpecialTokens)
		})
	}
	require.True(t, scan(t, ShapeCompletion, `{"prompt":"a"}`).AddSpecialTokens, "vLLM's default")
	require.False(t, scan(t, ShapeChat, `{"messages":[{}]}`).AddSpecialTokens, "a chat's template writes them")
	require.True(t, scan(t, ShapeChat, `{"messages":[{}],"add_special_tokens":"yes"}`).AddSpecialTokens)
}

// TestSkipsReadingCache: the rules of vLLM 0.32's request models (to_sampling_params) and of its engine.
func TestSkipsReadingCache(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		shape Shape
		more  string
		want  bool
	}{
		{"a chat", ShapeChat, ``, false},
		{"a chat with log probabilities", ShapeChat, `,"logprobs":true,"top_logprobs":3`, false},
		{"a chat with those of its prompt", ShapeChat, `,"prompt_logprobs":1`, true},
		{"none of them are some", ShapeChat, `,"prompt_logprobs":0`, true},
		{"null is none", ShapeChat, `,"prompt_logprobs":null`, false},
		{"the last one counts", ShapeChat, `,"prompt_logprobs":1,"prompt_logprobs":null`, false},
		{"a chat's echo", ShapeChat, `,"echo":true`, true},
		{"a chat's echo without top_logprobs", ShapeChat, `,"echo":true,"top_logprobs":null`, true},
		{"a batch", ShapeChatBatch, `,"prompt_logprobs":1`, true},
		{"a completion", ShapeCompletion, `,"logprobs":5`, false},
		{"a completion's echo", ShapeCompletion, `,"echo":true`, false},
		{"a completion's echo with log probabilities", ShapeCompletion, `,"echo":"1","logprobs":0`, true},
		{"no echo", ShapeCompletion, `,"echo":false,"logprobs":0`, false},
		{"a completion with those of its prompt", ShapeCompletion, `,"prompt_logprobs":-1`, true},
		{"another API's member", ShapeMessages, `,"prompt_logprobs":1`, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			body := map[Shape]string{
				ShapeChat: `"messages":[{}]`, ShapeChatBatch: `"messages":[[{}],[{}]]`, ShapeCompletion: `"prompt":["a","b"]`, ShapeMessages: `"messages":[{}]`,
			}
			q := scan(t, row.shape, "{"+body[row.shape]+row.more+"}")
			require.Equal(t, row.want, q.SkipsReadingCache())
			if q.Prompts() > 1 {
				require.Equal(t, row.want, q.Single(1).SkipsReadingCache(), "each prompt of many")
			}
		})
	}
}

func TestTokenIDs(t *testing.T) {
	t.Parallel()
	rows := []struct {
		doc  string
		want []uint32
		ok   bool
	}{
		{"[1, 22 ,\n333]", []uint32{1, 22, 333}, true},
		{"[4294967295]", []uint32{4294967295}, true},
		{"[]", []uint32{}, true},
		{"[4294967296]", nil, false},
		{"[-1]", nil, false},
		{"[1.0]", nil, false},
		{"[1e3]", nil, false},
	}
	for _, row := range rows {
		ids, ok := TokenIDs([]byte(row.doc), jsontext.Value{Kind: jsontext.Array, End: len(row.doc)})
		require.Equal(t, row.ok, ok, row.doc)
		require.Equal(t, row.want, ids, row.doc)
	}
}

func TestBody(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name  string
		shape Shape
		doc   string
		f     Forward
		want  string
	}{
		{"alias", ShapeOther, `{"a":1.0,"model":"x","b":2}`, Forward{Model: "real/\"name", Item: -1}, `{"a":1.0,"model":"real/\"name","b":2}`},
		{"model inserted", ShapeOther, `{"a":1}`, Forward{Model: "m", Item: -1}, `{"a":1,"model":"m"}`},
		{"model inserted into an empty object", ShapeOther, `{}`, Forward{Model: "m", Item: -1}, `{"model":"m"}`},
		{"usage asked", ShapeCompletion, `{"prompt":"a","stream":true}`, Forward{AskUsage: true, Item: -1}, `{"prompt":"a","stream":true,"stream_options":{"include_usage":true}}`},
		{"usage not asked of a plain request", ShapeCompletion, `{"prompt":"a"}`, Forward{AskUsage: true, Item: -1}, `{"prompt":"a"}`},
		{"null stream_options are the client's", ShapeCompletion, `{"prompt":"a","stream":true,"stream_options":null}`, Forward{AskUsage: true, Item: -1}, `{"prompt":"a","stream":true,"stream_options":null}`},
		{"token ids", ShapeChat, `{"messages":[{}]}`, Forward{TokenIDs: []uint32{1, 23}, Item: -1}, `{"messages":[{}],"kv_transfer_params":{"prompt_token_ids":[1,23]}}`},
		{"token ids beside the client's own params", ShapeChat, `{"messages":[{}],"kv_transfer_params":{"a":1}}`, Forward{TokenIDs: []uint32{1}, Item: -1}, `{"messages":[{}],"kv_transfer_params":{"a":1}}`},
		{"client's ids removed", ShapeOther, `{"kv_transfer_params":{"prompt_token_ids":[1],"b":1.0, "prompt_token_ids":2}}`, Forward{Item: -1}, `{"kv_transfer_params":{"b":1.0}}`},
		{
			"object arguments", ShapeChat, `{"messages":[{"tool_calls":[{"function":{"arguments":{"a":"\n\"","b":[1.0]}}}]}]}`,
			Forward{Item: -1},
			`{"messages":[{"tool_calls":[{"function":{"arguments":"{\"a\":\"\\n\\\"\",\"b\":[1.0]}"}}]}]}`,
		},
		{
			"other arguments stay", ShapeChat, `{"messages":[{"tool_calls":[{"function":{"arguments":[1]}},{"function":1},2],"arguments":{}}]}`,
			Forward{Item: -1},
			`{"messages":[{"tool_calls":[{"function":{"arguments":[1]}},{"function":1},2],"arguments":{}}]}`,
		},
		{"second of a list", ShapeCompletion, `{"x":1,"prompt":["a", "b" ,"c"],"y":2}`, Forward{Item: 1}, `{"x":1,"prompt":"b","y":2}`},
		{"ids of a list", ShapeCompletion, `{"prompt":[[1,2],[3]],"model":"m"}`, Forward{Item: 0, Model: "n"}, `{"prompt":[1,2],"model":"n"}`},
		{
			"conversation of a batch", ShapeChatBatch, `{"messages":[[{"tool_calls":[{"function":{"arguments":{}}}]}],[{"tool_calls":[{"function":{"arguments":{"k":1}}}]}]]}`,
			Forward{Item: 1},
			`{"messages":[{"tool_calls":[{"function":{"arguments":"{\"k\":1}"}}]}]}`,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			q := scan(t, row.shape, row.doc)
			got := string(jsontext.Join(q.Body(row.f)))
			require.Equal(t, row.want, got)
			require.True(t, json.Valid([]byte(got)))
			require.Equal(t, row.want, string(jsontext.Join(q.Body(row.f))), "a second attempt gets the same body")
			require.Equal(t, row.doc, string(q.Doc), "the client's bytes are not written to")
		})
	}
}

func TestSingle(t *testing.T) {
	t.Parallel()
	q := scan(t, ShapeCompletion, `{"prompt":["a","b\n"],"cache_salt":"s"}`)
	require.Equal(t, "b\n", string(q.Single(1).PromptText()))
	require.Equal(t, "s", q.Single(1).CacheSalt)
	require.Equal(t, 1, q.Single(1).Prompts())
	b := scan(t, ShapeChatBatch, `{"messages":[[{"a":1},{"b":2}],[{"c":3}],[]]}`)
	for i, want := range [][]string{{`{"a":1}`, `{"b":2}`}, {`{"c":3}`}, nil} {
		one := b.Single(i)
		require.Equal(t, ShapeChat, one.Shape)
		var got []string
		for _, v := range one.Conversation {
			got = append(got, string(one.Text(v)))
		}
		require.Equal(t, want, got)
	}
}

// TestBodiesOfABatchKeepTheirOwnEdits: each conversation's body has its own arguments as text, and what lies outside the list
// as it is sent for all.
func TestBodiesOfABatchKeepTheirOwnEdits(t *testing.T) {
	t.Parallel()
	talk := func(args string) string {
		return `[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"function":{"arguments":` + args + `}},` +
			`{"function":{"arguments":` + args + `}}]}]`
	}
	around := func(first, list, last string) string {
		return `{"kv_transfer_params":` + first + `,"messages":` + list + `,"a":1,"kv_transfer_params":` + last + `}`
	}
	ids := `{"prompt_token_ids":[1],"x":1}`
	talks := make([]string, 0, 5)
	for i := range 5 {
		talks = append(talks, talk(fmt.Sprintf(`{"a":%d}`, i)))
	}
	talks[2] = `[{"role":"user","content":"no call"}]`
	q := scan(t, ShapeChatBatch, around(ids, "["+strings.Join(talks, " , ")+"]", ids))
	for i := range talks {
		want := talk(fmt.Sprintf(`"{\"a\":%d}"`, i))
		if i == 2 {
			want = talks[2]
		}
		require.Equal(t, around(`{"x":1}`, want, `{"x":1}`), string(jsontext.Join(q.Body(Forward{Item: i}))), i)
		one := q.Single(i)
		var got []string
		for _, v := range one.Conversation {
			got = append(got, string(one.Text(v)))
		}
		require.Equal(t, talks[i], "["+strings.Join(got, ",")+"]")
	}
}

func TestScanOtherShapes(t *testing.T) {
	t.Parallel()
	q := scan(t, ShapeMessages, `{"system":"s","messages":[{"role":"user"},{"role":"assistant"}],"tools":[{"n":1}],"max_tokens":3}`)
	require.Len(t, q.Conversation, 4)
	q = scan(t, ShapeResponses, `{"instructions":"i","input":"text","previous_response_id":"resp_1","max_output_tokens":9}`)
	require.Len(t, q.Conversation, 2)
	require.Equal(t, "resp_1", q.PreviousResponse)
	require.Equal(t, 9, q.MaxTokens)
}

// TestScanPutsTheConversationInPromptOrder: a second turn must extend the first one's bytes, wherever the client puts
// what stands before the messages.
func TestScanPutsTheConversationInPromptOrder(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, doc string
		shape     Shape
		want      []string
	}{
		{"messages in order", `{"tools":[1],"system":"s","messages":[3,4]}`, ShapeMessages, []string{"1", `"s"`, "3", "4"}},
		{"system last", `{"messages":[3,4],"tools":[1],"system":"s"}`, ShapeMessages, []string{"1", `"s"`, "3", "4"}},
		{"system in blocks", `{"messages":[3],"system":[1,2]}`, ShapeMessages, []string{"1", "2", "3"}},
		{"messages twice", `{"messages":[3,4],"system":"s","messages":[5]}`, ShapeMessages, []string{`"s"`, "5"}},
		{"responses in order", `{"tools":[1],"instructions":"i","input":"x"}`, ShapeResponses, []string{"1", `"i"`, `"x"`}},
		{"instructions last", `{"input":[2,3],"instructions":"i"}`, ShapeResponses, []string{`"i"`, "2", "3"}},
		{"no conversation", `{"model":"m"}`, ShapeMessages, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			q := scan(t, row.shape, row.doc)
			var got []string
			for _, v := range q.Conversation {
				got = append(got, string(q.Text(v)))
			}
			require.Equal(t, row.want, got)
		})
	}
}

func FuzzScanForwardsTheClientsBytes(f *testing.F) {
	for _, s := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x","tool_calls":[{"function":{"arguments":{"a":1}}}]}],"stream":true}`,
		`{"prompt":["a",[1]]}`, `{"prompt":[[1],[2]],"n":2}`, `{"kv_transfer_params":{"prompt_token_ids":[1],"a":{}}}`, `{"messages":[[{}],[{}]]}`,
		"\ufeff" + `{"messages":[{}],"n":"2","session_id":"s"}`,
		`{"messages":[[{"tool_calls":[{"function":{"arguments":{}}}]}],[]],"messages":[[{"tool_calls":[{"function":{"arguments":{"b":2}}}]}],[{}]]}`,
	} {
		for shape := ShapeOther; shape <= ShapeResponses; shape++ {
			f.Add(uint8(shape), []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, shape uint8, doc []byte) {
		if len(doc) > 1<<14 {
			return
		}
		before := string(doc)
		unmarked := func(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\ufeff")) }
		q, err := Scan(Shape(shape%6), doc, depth)
		if err != nil {
			var fe *fault.Error
			require.True(t, errors.As(err, &fe))
			return
		}
		require.True(t, json.Valid(unmarked(doc)))
		for item := -1; item < min(3, q.Prompts()); item++ {
			if item >= 0 && !q.Prompt.Many && q.Shape != ShapeChatBatch {
				break
			}
			body := unmarked(jsontext.Join(q.Body(Forward{Item: item, Model: "m", AskUsage: true, TokenIDs: []uint32{1}})))
			require.True(t, json.Valid(body), "%q -> %q", doc, body)
			var top map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(body, &top))
			require.Equal(t, `"m"`, string(top["model"]))
		}
		require.Equal(t, before, string(doc))
	})
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []int{1 << 10, 32 << 10} {
		doc := []byte(`{"model":"m","stream":true,"messages":[{"role":"system","content":"You are brief."},{"role":"user","content":"` +
			strings.Repeat("The quick brown fox. ", size/21) + `"}]}`)
		b.Run(map[int]string{1 << 10: "1KB", 32 << 10: "32KB"}[size], func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(ShapeChat, doc, depth); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
