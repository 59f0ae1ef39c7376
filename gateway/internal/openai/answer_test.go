package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

func TestReadChunk(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, doc string
		check     func(t *testing.T, c Chunk)
	}{
		{"token", `{"id":"a","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`, func(t *testing.T, c Chunk) {
			t.Helper()
			require.Equal(t, 1, c.Count)
			require.Zero(t, c.Finished)
			require.Nil(t, c.Usage)
			require.False(t, c.UsageOnly())
		}},
		{"finish of two", `{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}]}`, func(t *testing.T, c Chunk) {
			t.Helper()
			require.Equal(t, 2, c.Finished)
			require.False(t, c.Aborted)
		}},
		{"abort", `{"choices":[{"finish_reason":"abort"}]}`, func(t *testing.T, c Chunk) { t.Helper(); require.True(t, c.Aborted) }},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}`, func(t *testing.T, c Chunk) {
			t.Helper()
			require.True(t, c.UsageOnly())
			require.Equal(t, Usage{PromptTokens: 9, OutputTokens: 2, CachedTokens: 8, HasCached: true}, *c.Usage)
		}},
		{
			"usage of messages",
			`{"type":"message_delta","usage":{"input_tokens":9,"output_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":8}}`,
			func(t *testing.T, c Chunk) {
				t.Helper()
				require.Equal(t, Usage{PromptTokens: 9, OutputTokens: 4, CachedTokens: 8, HasCached: true}, *c.Usage)
			},
		},
		{
			"no count of messages", `{"usage":{"input_tokens":9,"output_tokens":4,"cache_read_input_tokens":0}}`,
			func(t *testing.T, c Chunk) {
				t.Helper()
				require.Equal(t, Usage{PromptTokens: 9, OutputTokens: 4}, *c.Usage)
			},
		},
		{
			"usage of responses",
			`{"response":{"output":[{"usage":1}],"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":0,"cached_tokens_per_turn":[]},` +
				`"output_tokens":4,"output_tokens_details":{"reasoning_tokens":4}}},"type":"response.completed"}`,
			func(t *testing.T, c Chunk) {
				t.Helper()
				require.Equal(t, Usage{PromptTokens: 9, OutputTokens: 4, HasCached: true}, *c.Usage)
				require.Zero(t, c.UsageValue, "only a usage of the event's own can be changed")
			},
		},
		{"response without usage", `{"response":{"usage":null,"x":[]},"sequence_number":1}`, func(t *testing.T, c Chunk) { t.Helper(); require.Nil(t, c.Usage) }},
		{"null details", `{"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}`, func(t *testing.T, c Chunk) {
			t.Helper()
			require.False(t, c.Usage.HasCached)
		}},
		{"null usage", `{"choices":[],"usage":null}`, func(t *testing.T, c Chunk) { t.Helper(); require.Nil(t, c.Usage) }},
		{"error", `{"error":{"message":"x","code":503}}`, func(t *testing.T, c Chunk) {
			t.Helper()
			require.True(t, c.Error)
			require.Equal(t, 503, c.ErrorCode)
		}},
		{"error with a text code", `{"error":{"code":"x"}}`, func(t *testing.T, c Chunk) { t.Helper(); require.True(t, c.Error); require.Zero(t, c.ErrorCode) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, ok := ReadChunk([]byte(row.doc))
			require.True(t, ok)
			row.check(t, c)
		})
	}
	for _, bad := range []string{"", "[]", "{", "x", "\xff"} {
		_, ok := ReadChunk([]byte(bad))
		require.False(t, ok, bad)
	}
}

// TestFindUsageCannotBeFooled: text that looks like a usage member is escaped, so it is not found.
func TestFindUsageCannotBeFooled(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(`say "usage":{"prompt_tokens":666}`)
	require.NoError(t, err)
	doc := fmt.Sprintf(`{"choices":[{"message":{"content":%s}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`, text)
	u, ok := FindUsage([]byte(doc))
	require.True(t, ok)
	require.EqualValues(t, 5, u.PromptTokens)
	_, ok = FindUsage([]byte(fmt.Sprintf(`{"content":%s}`, text)))
	require.False(t, ok)
	for _, doc := range []string{`{"usage":null}`, `{"usage":{"prompt_tokens":`, `{}`} {
		_, ok := FindUsage([]byte(doc))
		require.False(t, ok, doc)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	one := func(i int) []byte {
		return fmt.Appendf(nil, `{"id":"a%d","x":1.0,"choices":[{"index":0,"text":"p%d"},{"text":"q","index":1}],"usage":{"prompt_tokens":%d,"prompt_tokens_details":%s}}`,
			i, i, i+1, map[bool]string{true: `{"cached_tokens":2}`, false: "null"}[i == 1])
	}
	got, ok := Merge([][]byte{one(0), one(1), one(2)}, 2)
	require.True(t, ok)
	require.JSONEq(t, `{"id":"a0","x":1.0,"choices":[{"index":0,"text":"p0"},{"text":"q","index":1},{"index":2,"text":"p1"},
		{"text":"q","index":3},{"index":4,"text":"p2"},{"text":"q","index":5}],"usage":{"prompt_tokens":6,"prompt_tokens_details":{"cached_tokens":2}}}`, string(got))
	require.Contains(t, string(got), `"x":1.0`)
	for _, bad := range []string{`{}`, `{"choices":1}`, `[]`, `{`} {
		_, ok := Merge([][]byte{one(0), []byte(bad)}, 1)
		require.False(t, ok, bad)
	}
}

// TestMergeManyAgreesWithANaiveMerge compares with decoding and adding up.
func TestMergeManyAgreesWithANaiveMerge(t *testing.T) {
	t.Parallel()
	const prompts, n = 50, 3
	var docs [][]byte
	total := 0
	for p := range prompts {
		var choices []string
		for j := range n {
			choices = append(choices, fmt.Sprintf(`{"index":%d,"text":"%d-%d"}`, j, p, j))
		}
		total += p
		docs = append(docs, fmt.Appendf(nil, `{"choices":[%s],"usage":{"prompt_tokens":%d}}`, strings.Join(choices, ","), p))
	}
	got, ok := Merge(docs, n)
	require.True(t, ok)
	var doc struct {
		Choices []struct {
			Index int
			Text  string
		}
		Usage map[string]int
	}
	require.NoError(t, json.Unmarshal(got, &doc))
	require.Len(t, doc.Choices, prompts*n)
	for i, c := range doc.Choices {
		require.Equal(t, i, c.Index)
		require.Equal(t, fmt.Sprintf("%d-%d", i/n, i%n), c.Text)
	}
	require.Equal(t, total, doc.Usage["prompt_tokens"])
}

func TestRenumber(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"id":"own","choices":[{"index":1,"text":"x"}]}`)
	c, ok := ReadChunk(doc)
	require.True(t, ok)
	require.Equal(t, `{"id":"all","choices":[{"index":7,"text":"x"}]}`, string(Renumber(doc, &c, 6, []byte(`"all"`))))
	require.Equal(t, `{"id":"own","choices":[{"index":1,"text":"x"}]}`, string(Renumber(doc, &c, 0, nil)))
}

// TestEveryReasonHasAFailure walks the enum, so that a new reason cannot be forgotten.
func TestEveryReasonHasAFailure(t *testing.T) {
	t.Parallel()
	statuses := map[fault.Reason]int{
		faultv1.Reason_REASON_INVALID_REQUEST: 400, faultv1.Reason_REASON_TOO_LARGE: 413, faultv1.Reason_REASON_UNAUTHENTICATED: 401,
		faultv1.Reason_REASON_PERMISSION_DENIED: 403, faultv1.Reason_REASON_MODEL_NOT_FOUND: 404, faultv1.Reason_REASON_NOT_FOUND: 404,
		faultv1.Reason_REASON_METHOD_NOT_ALLOWED: 405, faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE: 415,
		faultv1.Reason_REASON_NO_WORKER: 503, faultv1.Reason_REASON_OVERLOADED: 429, faultv1.Reason_REASON_UNAVAILABLE: 503,
		faultv1.Reason_REASON_DEADLINE_EXCEEDED: 504, faultv1.Reason_REASON_CANCELLED: 499, faultv1.Reason_REASON_WORKER_FAILED: 502,
		faultv1.Reason_REASON_STREAM_BROKEN: 502, faultv1.Reason_REASON_MODEL_LOADING: 503,
	}
	for n, name := range faultv1.Reason_name {
		r := fault.Reason(n)
		f := NewFailure(fault.New(r, `a "quoted" text`).WithParam("p"))
		want, ok := statuses[r]
		if !ok {
			want = http.StatusInternalServerError
		}
		require.Equal(t, want, f.Status, name)
		var doc struct {
			Error struct {
				Message, Type string
				Param         *string
				Code          *string
			}
		}
		require.NoError(t, json.Unmarshal(f.Body, &doc), name)
		require.NotEmpty(t, doc.Error.Message)
		require.NotEmpty(t, doc.Error.Type)
		require.NotNil(t, doc.Error.Code)
		require.Equal(t, "p", *doc.Error.Param)
		if want == 429 || want == 503 {
			require.Equal(t, "1", f.RetryAfter(), name)
		} else {
			require.Empty(t, f.RetryAfter(), name)
		}
		if want == 500 {
			require.NotContains(t, string(f.Body), "quoted", "inner faults show a fixed text")
		}
	}
	f := NewFailure(fault.New(faultv1.Reason_REASON_OVERLOADED, "x").WithRetryAfter(1500 * time.Millisecond))
	require.Equal(t, "2", f.RetryAfter())
	require.Equal(t, "data: "+string(f.Body)+"\n\n", string(f.Event()))
}

func ptr[T any](v T) *T { return &v }

func TestTypedRequestsBecomeJSON(t *testing.T) {
	t.Parallel()
	chat := &gatewayv1.ChatCompletionsRequest{
		Model: "m", Temperature: ptr(0.5), N: ptr(uint32(2)), Stop: []string{"a\n", "b"}, Seed: ptr(int64(9007199254740993)), Stream: ptr(true),
		StreamOptions: &gatewayv1.StreamOptions{IncludeUsage: ptr(true)}, ResponseFormatJson: []byte(`{"type":"json_object"}`),
		Priority: ptr(int32(-1)), ExtraJson: []byte(`{"top_k":1.0,"x":[]}`), ToolChoiceJson: []byte(`"auto"`),
		Messages: []*gatewayv1.ChatMessage{
			{Role: "user", Content: ptr(`say "hi"`), ExtraJson: []byte(`{"y":1}`)},
			{Role: "assistant", ContentJson: []byte("null"), ToolCalls: []*gatewayv1.ToolCall{{Id: "0", Name: "f", Arguments: `{"a":1.0}`}}},
			{Role: "tool", ToolCallId: ptr("0"), ContentJson: []byte(`[{"type":"text","text":"t"}]`)},
		},
		Tools: []*gatewayv1.Tool{{Name: "f", ParametersJson: []byte(`{"type":"object"}`), Strict: ptr(true)}},
	}
	raw, err := ChatJSON(chat)
	require.NoError(t, err)
	require.Equal(t, `{"model":"m","messages":[{"role":"user","content":"say \"hi\"","y":1},{"role":"assistant","content":null,`+
		`"tool_calls":[{"id":"0","type":"function","function":{"name":"f","arguments":"{\"a\":1.0}"}}]},`+
		`{"role":"tool","content":[{"type":"text","text":"t"}],"tool_call_id":"0"}],`+
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"},"strict":true}}],"tool_choice":"auto",`+
		`"temperature":0.5,"n":2,"stop":["a\n","b"],"seed":9007199254740993,"stream":true,"stream_options":{"include_usage":true},`+
		`"response_format":{"type":"json_object"},"priority":-1,"top_k":1.0,"x":[]}`, string(raw))
	_, err = Scan(ShapeChat, raw, depth)
	require.NoError(t, err)

	text := &gatewayv1.Prompt{Form: &gatewayv1.Prompt_Text{Text: "a"}}
	ids := &gatewayv1.Prompt{Form: &gatewayv1.Prompt_TokenIds{TokenIds: &gatewayv1.TokenIds{Ids: []uint32{1, 4294967295}}}}
	raw, err = CompletionJSON(&gatewayv1.CompletionsRequest{Prompts: []*gatewayv1.Prompt{ids}, Echo: ptr(true)})
	require.NoError(t, err)
	require.Equal(t, `{"prompt":[1,4294967295],"echo":true}`, string(raw))
	raw, err = EmbeddingsJSON(&gatewayv1.EmbeddingsRequest{Model: "e", Inputs: []*gatewayv1.Prompt{text, text}})
	require.NoError(t, err)
	require.Equal(t, `{"model":"e","input":["a","a"]}`, string(raw))
	raw, err = JSON(&gatewayv1.JSONRequest{Model: "e", Stream: ptr(false), ExtraJson: []byte(`{ "q" : 1.0 }`)})
	require.NoError(t, err)
	require.Equal(t, `{"model":"e","stream":false,"q" : 1.0}`, string(raw))
}

func TestTypedRequestsKeepRawBytes(t *testing.T) {
	t.Parallel()
	raw, err := ChatJSON(&gatewayv1.ChatCompletionsRequest{RawJson: []byte(`{ }`), Model: "ignored"})
	require.NoError(t, err)
	require.Equal(t, `{ }`, string(raw))
}

func TestTypedRequestsRefuseBadJSON(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]*gatewayv1.ChatCompletionsRequest{
		"extra_json": {ExtraJson: []byte(`[1]`)}, "tool_choice": {ToolChoiceJson: []byte(`auto`)}, "documents": {DocumentsJson: []byte(`[] x`)},
	} {
		_, err := ChatJSON(q)
		var f *fault.Error
		require.ErrorAs(t, err, &f, name)
		require.Equal(t, name, f.Param)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	doc := []byte(`{"id":"a","x":1,"id":"b"}`)
	require.Equal(t, "b", TextMember(doc, "id"))
	require.True(t, HasMember(doc, "x"))
	require.False(t, HasMember(doc, "y"))
	require.Equal(t, `{"id":"a","x":1,"id":"c\""}`, string(WithText(doc, "id", `c"`)))
	require.Equal(t, string(doc), string(WithText(doc, "none", "c")))
	require.Equal(t, "resp_1", FirstResponseID([]byte("event: response.created\ndata: {\"response\":{\"id\":\"resp_1\"}}\n\ndata: {}\n\n")))
	require.Empty(t, FirstResponseID([]byte("data: {\"id\":\"x\"}\n\n")))
	require.Empty(t, FirstResponseID(nil))
}
