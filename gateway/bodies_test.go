package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway"
)

// maxBody is the limit of these tests' gateway.
const maxBody = 8 << 20

// jsonRoutes is every route that takes JSON, with the members that it needs.
func jsonRoutes() map[string]string {
	return map[string]string{
		"/v1/chat/completions":      `"messages":[{"role":"user","content":"x"}]`,
		"/v1/completions":           `"prompt":"x"`,
		"/v1/embeddings":            `"input":"x"`,
		"/v1/responses":             `"input":"x"`,
		"/v1/messages":              `"messages":[{"role":"user","content":"x"}]`,
		"/v1/messages/count_tokens": `"messages":[{"role":"user","content":"x"}]`,
		"/pooling":                  `"input":"x"`,
		"/classify":                 `"input":"x"`,
		"/score":                    `"text_1":"x","text_2":"y"`,
		"/v1/score":                 `"text_1":"x","text_2":"y"`,
		"/rerank":                   `"query":"x","documents":["y"]`,
		"/v1/rerank":                `"query":"x","documents":["y"]`,
		"/v2/rerank":                `"query":"x","documents":["y"]`,
		"/tokenize":                 `"prompt":"x"`,
		"/detokenize":               `"tokens":[1]`,
	}
}

// bodies is a gateway in front of a worker that keeps what it got.
type bodies struct {
	url string
	got chan string
}

func startBodies(t *testing.T) *bodies {
	t.Helper()
	b := &bodies{got: make(chan string, 4)}
	url := worker(t, func(c net.Conn, body string) {
		b.got <- body
		reply(c, `{"choices":[]}`)
	})
	b.url = run(t, gateway.Config{MaxBodyBytes: maxBody, MaxDepth: 64}, url, io.Discard).url
	return b
}

// send posts a body, with a length or in chunks.
func (b *bodies) send(t *testing.T, path, body string, chunked bool) (status int, answer string) {
	t.Helper()
	var reader io.Reader = strings.NewReader(body)
	if chunked {
		reader = struct{ io.Reader }{reader}
	}
	resp, err := http.Post(b.url+path, "application/json", reader)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(raw)
}

// passes requires that a body reaches the worker byte for byte.
func (b *bodies) passes(t *testing.T, path, body string, chunked bool) {
	t.Helper()
	status, answer := b.send(t, path, body, chunked)
	require.Equal(t, http.StatusOK, status, "%s: %s", path, answer)
	got := <-b.got
	require.Equal(t, len(body), len(got), path)
	require.True(t, body == got, "%s: the worker got other bytes", path)
}

// refused requires an error object, with a param unless it is empty, and that no worker hears of the request.
func (b *bodies) refused(t *testing.T, path, body string, status int, param string) {
	t.Helper()
	got, answer := b.send(t, path, body, false)
	require.Equal(t, status, got, "%s: %s", path, answer)
	var object struct {
		Error struct{ Message, Type, Code, Param *string }
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &object), answer)
	require.NotNil(t, object.Error.Message, answer)
	require.NotEmpty(t, *object.Error.Message)
	if param != "" {
		require.NotNil(t, object.Error.Param, "%s: %s", path, answer)
		require.Equal(t, param, *object.Error.Param, "%s: %s", path, answer)
	}
	require.Empty(t, b.got, "%s reached the worker", path)
}

// filled is a route's body of exactly n bytes.
func filled(members string, n int) string {
	head, tail := `{"model":"m",`+members+`,"fill":"`, `"}`
	return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
}

// TestBodySizes: bodies of all sizes up to the limit pass on every route, with a length and in chunks; one byte over is 413.
func TestBodySizes(t *testing.T) {
	t.Parallel()
	b := startBodies(t)
	for path, members := range jsonRoutes() {
		for _, n := range []int{32<<10 - 1, 32 << 10, 32<<10 + 1} {
			b.passes(t, path, filled(members, n), false)
			b.passes(t, path, filled(members, n), true)
		}
		b.refused(t, path, "", http.StatusBadRequest, "")
		b.refused(t, path, " \r\n\t", http.StatusBadRequest, "body")
	}
	members := jsonRoutes()["/v1/chat/completions"]
	for _, chunked := range []bool{false, true} {
		b.passes(t, "/v1/chat/completions", filled(members, 1<<20), chunked)
		b.passes(t, "/v1/chat/completions", filled(members, maxBody), chunked)
		status, answer := b.send(t, "/v1/chat/completions", filled(members, maxBody+1), chunked)
		require.Equal(t, http.StatusRequestEntityTooLarge, status)
		require.Contains(t, answer, `"code":"request_too_large"`)
		require.Empty(t, b.got)
	}
}

// TestOddBodiesPass: what is legal JSON goes on as it is, whatever its spelling, on every route.
func TestOddBodiesPass(t *testing.T) {
	t.Parallel()
	b := startBodies(t)
	rows := map[string]string{
		"unknown members":    `"kvmesh_unknown":{"a":[1,{"b":null}]},"":0`,
		"nulls":              `"n":null,"stream":null,"max_tokens":null,"stream_options":null,"cache_salt":null,"priority":null,"user":null`,
		"empty values":       `"a":{},"b":[],"c":"","d":false,"e":0`,
		"number spelling":    `"a":1.0,"b":1e5,"c":1E+05,"d":-0,"e":-0.0,"f":9007199254740993,"g":0.1e-7,"h":1e400,"i":123456789012345678901234567890`,
		"duplicate keys":     `"a":1,"a":2,"model":"nobody","model":"m"`,
		"case of keys":       `"MODEL":"nobody","Model":"nobody","STREAM":true`,
		"escapes":            `"a":"\u00e9\ud83d\ude00\/\b\f","\u0061":"\\\""`,
		"lone surrogate":     `"a":"\ud800"`,
		"unicode":            "\"a\":\"é😀\u2028\u2029\ufeff\u0085\"",
		"white space":        " \"a\" \t:\r\n [ 1 , 2 ] ,\n\"b\":{ } ",
		"long strings":       `"a":"` + strings.Repeat(`\n`, 5000) + `"`,
		"many members":       strings.Repeat(`"a":1,`, 5000) + `"b":2`,
		"deep nesting":       `"a":` + strings.Repeat("[", 62) + strings.Repeat("]", 62),
		"deep objects":       `"a":` + strings.Repeat(`{"b":`, 62) + "0" + strings.Repeat("}", 62),
		"what looks like it": `"a":"\"model\":\"nobody\"","b":{"model":"nobody","stream":true,"messages":1}`,
	}
	for path, members := range jsonRoutes() {
		for name, row := range rows {
			t.Log(path, name)
			b.passes(t, path, `{`+members+`,"model":"m",`+row+`}`, false)
			b.passes(t, path, "\n{"+row+`,"model":"m",`+members+"}\r\n", false)
			b.passes(t, path, "\ufeff {"+row+`,"model":"m",`+members+"}", false)
		}
	}
}

// TestBadBodiesAreRefused: what is no JSON object is 400 on every route, without a word of it in the error.
func TestBadBodiesAreRefused(t *testing.T) {
	t.Parallel()
	b := startBodies(t)
	rows := map[string]string{
		"cut":                `{"model":"m","secret":"marker`,
		"cut after a comma":  `{"model":"m","secret":"marker",`,
		"array":              `["marker"]`,
		"text":               `"marker"`,
		"number":             `12`,
		"null":               `null`,
		"two objects":        `{"model":"m"}{"secret":"marker"}`,
		"text behind":        `{"model":"m"} marker`,
		"trailing comma":     `{"model":"m",}`,
		"single quotes":      `{'model':'marker'}`,
		"no quotes":          `{model:"marker"}`,
		"comment":            `{/*marker*/"model":"m"}`,
		"NaN":                `{"model":"m","a":NaN}`,
		"leading zero":       `{"model":"m","a":01}`,
		"plus sign":          `{"model":"m","a":+1}`,
		"lone dot":           `{"model":"m","a":1.}`,
		"wrong literal":      `{"model":"m","a":True}`,
		"control character":  "{\"model\":\"m\",\"a\":\"marker\x01\"}",
		"bad escape":         `{"model":"m","a":"\x"}`,
		"short unicode":      `{"model":"m","a":"\u12"}`,
		"invalid UTF-8":      "{\"model\":\"m\",\"a\":\"marker\xff\"}",
		"invalid UTF-8 name": "{\"model\":\"m\",\"\xc3\x28\":1}",
		"two byte marks":     "\ufeff\ufeff{\"model\":\"m\"}",
		"only a byte mark":   "\ufeff",
		"too deep":           `{"model":"m","a":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`,
		"too deep and cut":   `{"a":` + strings.Repeat(`{"a":`, 100000),
		"unbalanced":         `{"model":"m","a":[}]}`,
		"colon missing":      `{"model" "m"}`,
		"NUL":                "{\"model\":\"m\"\x00}",
		"form":               `model=m&prompt=marker`,
	}
	for path := range jsonRoutes() {
		for name, body := range rows {
			t.Log(path, name)
			b.refused(t, path, body, http.StatusBadRequest, "")
		}
		_, answer := b.send(t, path, rows["cut"], false)
		require.NotContains(t, answer, "marker")
	}
}

// TestWrongTypesNameTheField: members that kvmesh reads are checked, the others are the worker's to judge.
func TestWrongTypesNameTheField(t *testing.T) {
	t.Parallel()
	b := startBodies(t)
	values := map[string]string{"number": `1`, "text": `"x"`, "object": `{"a":1}`, "list": `[1]`, "true": `true`, "null": `null`}
	for _, row := range []struct {
		paths, member string
		good          string // kinds that are no fault
	}{
		{"/v1/chat/completions /v1/completions /v1/embeddings /v1/responses /v1/messages /pooling /score /rerank /tokenize", "model", "text null"},
		{"/v1/chat/completions /v1/completions /v1/responses /v1/messages", "stream", "true null"},
		{"/v1/chat/completions", "messages", ""},
		{"/v1/completions", "prompt", "text list null"},
	} {
		for path := range strings.FieldsSeq(row.paths) {
			for kind, value := range values {
				if strings.Contains(row.good, kind) {
					continue
				}
				body := `{"model":"m",` + jsonRoutes()[path] + `,"` + row.member + `":` + value + `}`
				t.Log(path, row.member, kind)
				b.refused(t, path, body, http.StatusBadRequest, row.member)
			}
		}
	}
	for _, member := range []string{"temperature", "top_p", "stop", "seed", "tools", "tool_choice", "logprobs", "response_format", "user", "metadata"} {
		for kind, value := range values {
			t.Log(member, kind)
			b.passes(t, "/v1/chat/completions", fmt.Sprintf(`{"model":"m",%s,%q:%s}`, jsonRoutes()["/v1/chat/completions"], member, value), false)
		}
	}
}
