package fakevllm_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/capture"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// captured is the configuration of the captured server.
func captured() fakevllm.Config {
	return fakevllm.Config{
		Model: "tiny-qwen3", Root: "./model-qwen3-tiny", MaxModelLen: 8192, BlockSize: 32, NumGPUBlocks: 2048,
		MaxNumSeqs: 16, MaxNumBatchedTokens: 2048, VocabSize: 151936, EOSTokenID: 151645, ReasoningParser: "qwen3",
		Instant: true, LoRAs: []fakevllm.LoRA{{Name: "lora-a", Path: "./lora-a"}, {Name: "lora-b", Path: "./lora-b"}},
		KVEvents: fakevllm.KVEvents{Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0"},
	}
}

// excluded are captured cases that are not compared, with the reason.
func excluded() map[string]string {
	const union = "pydantic walks a union of nine message types; the complaint here is shorter"
	return map[string]string{
		"E message no role":                   union,
		"content null user":                   union,
		"E content number":                    union,
		"E part unknown type":                 union,
		"E invalid utf-8":                     "the capture's text form has lost the invalid bytes; see TestBodiesThatAreNoText",
		"GET /server_info?config_format=json": "a few of some hundred keys are served",
		"GET /metrics":                        "compared by names in TestMetricsNamesAndLabels",
		"abort_requests all":                  "needs a running stream: TestAbortEndsStreams",
		"abort_requests all: the stream":      "needs a running stream: TestAbortEndsStreams",
		"abort_requests by id":                "needs a running stream: TestAbortEndsStreams",
		"abort_requests by id: the stream":    "needs a running stream: TestAbortEndsStreams",
		"pause abort":                         "needs a running stream: TestAbortEndsStreams",
		"pause abort: the stream":             "needs a running stream: TestAbortEndsStreams",
	}
}

// adjusted are cases in which the captured model, which is random, ran into max_tokens at another place than a model
// that answers does. The value is the max_tokens with which the simulated one stops at the same place: in the middle
// of a tool call's arguments or of a JSON document, or behind all that was asked for.
func adjusted() map[string]string {
	return map[string]string{
		"chat tool required": "50", "chat tool required stream": "50", "chat tool named": "45",
		"chat tool named stream": "45", "chat kv ids other stream tools required": "45",
		"chat json_schema": "3", "chat json_object stream": "2", "chat auto tool call forced by regex": "300",
		"chat auto tool call forced by regex stream": "300", "chat auto content then 2 calls stream": "300",
	}
}

// free are the fields whose values depend on the model, the tokenizer, the time or chance; their kinds are compared.
func free() []string {
	return []string{
		"id", "request_id", "token_id", "created", "created_at", "text", "content", "reasoning", "thinking", "token_ids", "prompt_token_ids",
		"prompt_text", "prompt_tokens", "total_tokens", "completion_tokens", "cached_tokens", "created_cache_tokens",
		"reasoning_tokens", "system_fingerprint", "tokens", "token_strs", "count", "arguments", "input_tokens",
		"output_tokens", "original_input_tokens", "signature", "delta", "item_id", "version", "endpoint",
		"replay_endpoint", "prompt", "max_model_len", "logprob", "rank", "decoded_token", "token", "name",
	}
}

// lengths are lists and objects whose number of elements depends on them too: their first element is compared.
func lengths() []string {
	return []string{
		"token_ids", "prompt_token_ids", "tokens", "token_strs", "bytes", "prompt_logprobs", "text_offset",
		"token_logprobs", "top_logprobs",
	}
}

// skeleton writes a value with free values masked, key order kept.
func skeleton(b *strings.Builder, key string, v *pyjson.Value) {
	switch v.Kind {
	case pyjson.Dict:
		if key == "top_logprobs" || key == "prompt_logprobs" { // keyed by token
			b.WriteString("{token: …}")
			return
		}
		b.WriteByte('{')
		for i := range v.Members {
			b.WriteString(strconv.Quote(v.Members[i].Key) + ":")
			skeleton(b, v.Members[i].Key, &v.Members[i].Value)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case pyjson.List:
		b.WriteByte('[')
		for i := range v.Len() {
			item := v.At(i)
			skeleton(b, key, &item)
			b.WriteByte(',')
			if slices.Contains(lengths(), key) {
				break
			}
		}
		b.WriteByte(']')
	case pyjson.Null:
		b.WriteString("null")
	default:
		kind := v.Kind
		if kind == pyjson.Float {
			kind = pyjson.Int
		}
		if key == "stop_reason" && v.Int == 151643 { // the random model ended with its second end token
			b.WriteString("null")
			return
		}
		if slices.Contains(free(), key) || slices.Contains(lengths(), key) {
			fmt.Fprintf(b, "<%d>", kind)
			return
		}
		b.Write(v.Raw)
	}
}

// shape is the skeleton of a JSON text; what is no JSON is its own shape.
func shape(text string) string {
	doc, err := pyjson.Parse([]byte(text))
	if err != nil {
		return text
	}
	var b strings.Builder
	skeleton(&b, "", &doc.Root)
	return b.String()
}

// eventShapes is the sequence of an SSE stream's shapes, equal neighbours taken once: how many tokens there are is the
// model's affair.
func eventShapes(events []string) []string {
	var out []string
	for _, e := range events {
		head, data, _ := strings.Cut(e, "data: ")
		s := head + shape(strings.TrimSuffix(data, "\n\n"))
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}

func headersOf(list [][2]string) []string {
	var out []string
	for _, h := range list {
		name := strings.ToLower(h[0])
		switch name {
		case "date", "content-length", "connection", "transfer-encoding":
			continue
		case "x-request-id", "endpoint-load-metrics":
			out = append(out, name)
			continue
		}
		out = append(out, name+": "+h[1])
	}
	slices.Sort(out)
	return out
}

func TestCapturedRequestsGetTheirShapes(t *testing.T) {
	t.Parallel()
	_, url := start(t, captured())
	skip := excluded()
	compared := 0
	for _, line := range capture.Read(t, "http.jsonl") {
		reason, out := skip[line.Name]
		delete(skip, line.Name)
		if out {
			require.NotEmpty(t, reason)
			continue
		}
		if line.HTTP.Cut {
			continue
		}
		compared++
		if n := adjusted()[line.Name]; n != "" {
			line.HTTP.Body = maxTokens().ReplaceAllString(line.HTTP.Body, `"max_tokens": `+n)
		}
		t.Run(line.Name, func(t *testing.T) { compareCase(t, url, line.HTTP) }) // in order: adapters come and go
	}
	require.Empty(t, skip, "excluded cases that no capture has")
	t.Logf("%d cases compared", compared)
	require.Greater(t, compared, 200)
}

func maxTokens() *regexp.Regexp { return regexp.MustCompile(`"max_tokens": \d+`) }

func compareCase(t *testing.T, url string, x *capture.Exchange) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), x.Method, url+x.Path, strings.NewReader(x.Body))
	require.NoError(t, err)
	for _, h := range x.Headers {
		switch strings.ToLower(h[0]) {
		case "host", "connection", "content-length":
		default:
			req.Header.Set(h[0], h[1])
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	body := readAll(t, res)
	require.Equal(t, x.Status, res.StatusCode, "%s", body)
	if x.Events != nil {
		want, got := eventShapes(x.Events), eventShapes(splitEvents(body))
		if strings.Contains(x.Body, `"n": 2`) { // choices are computed side by side: their order is chance
			slices.Sort(want)
			slices.Sort(got)
			want, got = slices.Compact(want), slices.Compact(got)
		}
		require.Empty(t, cmp.Diff(want, got))
	} else {
		require.Empty(t, cmp.Diff(shape(x.Answer), shape(body)))
	}
	var got [][2]string
	for name := range res.Header {
		got = append(got, [2]string{name, res.Header.Get(name)})
	}
	require.Equal(t, headersOf(x.AnswerHeader), headersOf(got))
}

func splitEvents(body string) []string {
	var out []string
	for e := range strings.SplitSeq(body, "\n\n") {
		if e != "" {
			out = append(out, e+"\n\n")
		}
	}
	return out
}
