package cases

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// keeper is a worker that keeps the responses it made, as vLLM with its store does.
type keeper struct {
	name string

	mu    sync.Mutex
	made  int
	calls []string
	mood  string // "broken" and "still" answer nothing about responses
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const responses = "/v1/responses"
	if !strings.HasPrefix(r.URL.Path, responses) {
		(&gated{}).ServeHTTP(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, r.Method+" "+r.RequestURI)
	switch k.mood {
	case "broken":
		panic(http.ErrAbortHandler)
	case "still":
		k.mu.Unlock()
		<-r.Context().Done()
		k.mu.Lock()
		return
	}
	mine := func(text string) bool { return strings.Contains(text, "resp_"+k.name+"_") }
	switch {
	case r.Method == http.MethodPost && r.URL.Path == responses:
		if strings.Contains(string(body), `"previous_response_id"`) && !mine(string(body)) {
			w.WriteHeader(http.StatusNotFound)
			answerJSON(w, `{"error":{"message":"Response not found.","type":"invalid_request_error","param":null,"code":404}}`)
			return
		}
		k.made++
		answerJSON(w, fmt.Sprintf(`{"id":"resp_%s_%d","object":"response","output":[]}`, k.name, k.made))
	case !mine(r.URL.Path):
		w.WriteHeader(http.StatusNotFound)
		answerJSON(w, `{"error":{"message":"Response not found.","type":"invalid_request_error","param":null,"code":404}}`)
	case r.URL.Query().Get("stream") == "true":
		answerEvents(w, "event: response.created\ndata: {\"sequence_number\":0}\n\n")
	default:
		answerJSON(w, `{"id":"`+strings.TrimPrefix(r.URL.Path, responses+"/")+`","object":"response"}`)
	}
}

// taken is the calls since the last look.
func (k *keeper) taken() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.calls
	k.calls = nil
	return out
}

// idOf is the id in an answer.
func idOf(t *testing.T, a got) string {
	t.Helper()
	require.Equal(t, http.StatusOK, a.status, a.body)
	_, rest, ok := strings.Cut(a.body, `"id":"`)
	require.True(t, ok, a.body)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func fetch(t *testing.T, url string) got {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, string(raw), err}
}

// TestResponsesStayAtTheirMaker: every turn of a conversation goes to the worker that keeps the turns before, also the third,
// and also when another gateway, or one that has started since, brought the earlier ones.
func TestResponsesStayAtTheirMaker(t *testing.T) {
	keepers := []*keeper{{name: "a"}, {name: "b"}}
	urls := make([]string, len(keepers))
	servers := make([]*httptest.Server, len(keepers))
	for i, k := range keepers {
		servers[i] = httptest.NewServer(k)
		t.Cleanup(servers[i].Close)
		urls[i] = servers[i].URL
	}
	m := startDoors(t, urls, nil)
	turn := func(url, previous string) string {
		return idOf(t, ask(t, url, "/v1/responses", fmt.Sprintf(`{"model":%q,"input":"Hello"%s}`, base, previous), nil))
	}
	after := func(id string) string { return `,"previous_response_id":"` + id + `"` }
	for _, door := range m.doors {
		for range 4 {
			first := turn(door.url, "")
			id := first
			for range 4 {
				id = turn(door.url, after(id))
				require.Equal(t, first[:len("resp_a")], id[:len("resp_a")], "the conversation left its worker")
			}
		}
		for _, elsewhere := range []string{"resp_a_elsewhere", "resp_b_elsewhere"} {
			require.Equal(t, elsewhere[:len("resp_a")], turn(door.url, after(elsewhere))[:len("resp_a")])
		}
		a := ask(t, door.url, "/v1/responses", `{"input":"x"`+after("resp_c_1")+`}`, nil)
		require.Equal(t, http.StatusNotFound, a.status, "what nobody has is the worker's to refuse")
		require.Contains(t, a.body, "Response not found.")
	}
	for _, door := range m.doors {
		t.Run("read "+door.name, func(t *testing.T) { responsesRead(t, keepers, door.url) })
	}
	for i, door := range m.doors {
		for mood, want := range map[string]int{"broken": http.StatusBadGateway, "still": http.StatusServiceUnavailable} {
			keepers[1].mu.Lock()
			keepers[1].mood = mood
			keepers[1].mu.Unlock()
			a := fetch(t, door.url+fmt.Sprintf("/v1/responses/resp_b_%s%d", mood, i))
			require.Equal(t, want, a.status, "a worker that cannot say may have it: %s", a.body)
			require.Equal(t, mood == "still", a.header.Get("Retry-After") != "")
			require.NotContains(t, a.body, "127.0.0.1")
			require.Equal(t, http.StatusOK, fetch(t, door.url+fmt.Sprintf("/v1/responses/resp_a_%s%d", mood, i)).status)
		}
	}
}

// responsesRead: a query is the worker's, and what it asks for may be a stream.
func responsesRead(t *testing.T, keepers []*keeper, url string) {
	for _, k := range keepers {
		k.taken()
	}
	a := fetch(t, url+"/v1/responses/resp_b_7?stream=true&starting_after=3&include[]=x%20y")
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, "event: response.created\ndata: {\"sequence_number\":0}\n\n", a.body)
	require.True(t, strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream"))
	require.Equal(t, []string{"GET /v1/responses/resp_b_7?stream=true&starting_after=3&include[]=x%20y"}, keepers[1].taken())
	require.Equal(t, http.StatusNotFound, fetch(t, url+"/v1/responses/resp_c_1").status)
}

// TestManyPromptsOfOddWorkers: what a worker answers to one of many prompts is never lost in the answer to all.
func TestManyPromptsOfOddWorkers(t *testing.T) {
	const refusal = "{\"error\":{\"message\":\"too long\",\r\n\"type\":\"BadRequestError\",\"param\":\"input_tokens\",\"code\":400}}"
	begun := make(chan struct{}) // the client has the other prompt's first event
	c := startCrew(t, func(w http.ResponseWriter, r *http.Request, call seen) {
		two := `{"id":"x","choices":[{"index":0,"text":"a"},{"index":1,"text":"b"}]}`
		switch {
		case r.Header.Get("X-Odd") == "plain":
			answerJSON(w, two)
		case r.Header.Get("X-Odd") == "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "application/json")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, two)
			_ = z.Close()
		case r.Header.Get("X-Odd") == "refuse" && strings.Contains(call.body, "bad"):
			select {
			case <-begun:
			case <-r.Context().Done():
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			answerJSON(w, refusal)
		case r.Header.Get("X-Odd") == "refuse":
			answerEvents(w, piece)
			<-r.Context().Done()
		default:
			answerJSON(w, two)
		}
	})
	m := startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, nil)
	prompts := func(more string) string { return fmt.Sprintf(`{"model":%q,"prompt":["one","bad"]%s}`, base, more) }
	for _, door := range m.doors {
		t.Run(door.name, func(t *testing.T) {
			a := ask(t, door.url, "/v1/completions", prompts(`,"stream":true`), http.Header{"X-Odd": {"plain"}})
			require.Equal(t, http.StatusBadGateway, a.status, "an answer that is no stream is not dropped: %s", a.body)

			resp := open(t, door.url, "/v1/completions", prompts(`,"stream":true`), http.Header{"X-Odd": {"refuse"}})
			require.Equal(t, http.StatusOK, resp.StatusCode)
			begun <- struct{}{}
			a = read(t, resp)
			begin, end, _ := strings.Cut(a.body, "data: {\"error\"")
			require.Contains(t, begin, `"content":"one"`)
			require.Equal(t, strings.ReplaceAll(strings.TrimPrefix(refusal, `{"error"`), "\r\n", "  ")+"\n\n", end,
				"the worker's own error is the last event")

			const four = `{"id":"x","choices":[{"index":0,"text":"a"},{"index":1,"text":"b"},{"index":2,"text":"a"},{"index":3,"text":"b"}]}`
			for _, n := range []string{`2`, `"2"`, `2.0`} {
				require.Equal(t, four, ask(t, door.url, "/v1/completions", prompts(`,"n":`+n), nil).body, n)
			}
			a = ask(t, door.url, "/v1/completions", prompts(`,"n":2`), http.Header{"X-Odd": {"gzip"}})
			require.Equal(t, four, a.body, "compressed answers are merged as what they say")
			require.Empty(t, a.header.Get("Content-Encoding"))
		})
	}
}

// TestHalfClosedClients: a client that closes its own direction behind its request cannot be told from one that left. Its
// request ends, at the worker too, and what it can still read is an error.
func TestHalfClosedClients(t *testing.T) {
	c := startCrew(t, func(w http.ResponseWriter, r *http.Request, call seen) {
		if streams(call) {
			answerEvents(w, piece)
		}
		<-r.Context().Done()
	})
	m := startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, nil)
	for _, door := range m.doors {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%v", door.name, stream), func(t *testing.T) {
				conn, err := net.Dial("tcp", strings.TrimPrefix(door.url, "http://"))
				require.NoError(t, err)
				defer conn.Close()
				body := hello(stream)
				_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
					"Content-Length: %d\r\n\r\n%s", len(body), body)
				require.NoError(t, err)
				kittest.Eventually(t, func() error {
					c.mu.Lock()
					defer c.mu.Unlock()
					if len(c.calls) == 0 {
						return fmt.Errorf("no worker has the request yet")
					}
					return nil
				})
				c.taken()
				tcp, ok := conn.(*net.TCPConn)
				require.True(t, ok)
				reader := bufio.NewReader(conn)
				if stream {
					_, err = reader.Peek(1)
					require.NoError(t, err)
				}
				require.NoError(t, tcp.CloseWrite())
				resp, err := http.ReadResponse(reader, nil)
				require.NoError(t, err)
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.Contains(t, string(raw), `{"error":{"message":"The client went away.`)
				require.NotContains(t, string(raw), "[DONE]")
				if !stream {
					require.Equal(t, 499, resp.StatusCode)
				}
				kittest.Eventually(t, func() error {
					c.mu.Lock()
					defer c.mu.Unlock()
					if c.left == 0 {
						return fmt.Errorf("the worker still computes")
					}
					return nil
				})
				c.mu.Lock()
				c.left = 0
				c.mu.Unlock()
			})
		}
	}
}

// TestNamesAreBoundedInErrors: a client's own text comes back shortened.
func TestNamesAreBoundedInErrors(t *testing.T) {
	c := startCrew(t, func(w http.ResponseWriter, _ *http.Request, _ seen) { answerJSON(w, whole) })
	m := startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, nil)
	for _, door := range m.doors {
		long := strings.Repeat("é", 500_000)
		a := ask(t, door.url, "/v1/chat/completions", strings.Replace(hello(false), base, long, 1), nil)
		require.Equal(t, http.StatusNotFound, a.status)
		require.Less(t, len(a.body), 1024)
		require.Contains(t, a.body, `"code":"model_not_found"`)

		a = ask(t, door.url, "/v1/chat/completions", strings.Replace(hello(false), "{", `{"session_id":"`+long+`",`, 1), nil)
		require.Equal(t, http.StatusOK, a.status, "the length of a session's name is the worker's to judge: %.200s", a.body)

		a = ask(t, door.url, "/predictions/"+strings.ReplaceAll(base, "/", "%2F")+"/1.0/v1/completions", `{"prompt":"x"}`, nil)
		require.Equal(t, http.StatusOK, a.status, a.body)
		a = fetch(t, door.url+"/predictions/nobody%2Fx/1.0/v1/models/nobody%2Fx")
		require.Equal(t, http.StatusNotFound, a.status)
		require.Contains(t, a.body, "`nobody/x`")
	}
}

// TestLargeAnswers: what is larger than the gateway's buffer passes as it comes, with a length and in chunks, and compressed
// answers are decoded for clients that did not offer to take them. Half of such an answer never looks whole.
func TestLargeAnswers(t *testing.T) {
	big := `{"id":"x","choices":[{"index":0,"text":"` + strings.Repeat("0123456789abcdef", 600_000) + `","finish_reason":"stop"}]}`
	c := startCrew(t, func(w http.ResponseWriter, r *http.Request, _ seen) {
		w.Header().Set("Content-Type", "application/json")
		how := r.Header.Get("X-How")
		switch how {
		case "length", "cut length":
			w.Header().Set("Content-Length", fmt.Sprint(len(big)))
		case "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, big)
			_ = z.Close()
			return
		}
		if strings.HasPrefix(how, "cut") {
			_, _ = io.WriteString(w, big[:6<<20])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, big)
	})
	m := startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, nil)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	for _, door := range m.doors {
		for _, how := range []string{"length", "chunks", "gzip", "cut length", "cut chunks"} {
			t.Run(door.name+" "+how, func(t *testing.T) {
				body := fmt.Sprintf(`{"model":%q,"prompt":"x"}`, base)
				q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, door.url+"/v1/completions", strings.NewReader(body))
				require.NoError(t, err)
				q.Header = http.Header{"Content-Type": {"application/json"}, "X-How": {how}}
				resp, err := client.Do(q)
				require.NoError(t, err)
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				if strings.HasPrefix(how, "cut") {
					require.Error(t, err, "half an answer must not look whole")
					return
				}
				require.NoError(t, err)
				require.True(t, big == string(raw), "%d bytes of %d", len(raw), len(big))
				require.Empty(t, resp.Header.Get("Content-Encoding"))
			})
		}
	}
}

// TestCommentsFillSilence: with a keep-alive interval a stream has comments before its first event and between two, never
// inside one; what the client would have got without them it gets still.
func TestCommentsFillSilence(t *testing.T) {
	const comment = ": keep-alive\n\n"
	usage := `data: {"id":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	heard := make(chan struct{})
	c := startCrew(t, func(w http.ResponseWriter, r *http.Request, call seen) {
		select {
		case <-heard: // the client has a comment
		case <-r.Context().Done():
			return
		}
		if strings.Contains(call.path, "messages") {
			w.WriteHeader(http.StatusBadRequest)
			answerJSON(w, "{\"type\":\"error\",\n\"error\":{\"type\":\"invalid_request_error\"}}")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		half := len(piece) / 2
		_, _ = io.WriteString(w, piece[:half])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-heard:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, piece[half:]+strings.Replace(last, "data: [DONE]", usage+"data: [DONE]", 1))
	})
	m := startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, func(cfg *mesh.Config) {
		cfg.Gateway.Own.KeepaliveInterval = 10 * time.Millisecond
	})
	// open posts a request and waits for n comments, after each of which the worker says more.
	open := func(t *testing.T, url, path, body string, n int) (*http.Response, *bufio.Reader) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
		require.NoError(t, err)
		q.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(q)
		require.NoError(t, err)
		t.Cleanup(func() { resp.Body.Close() })
		reader := bufio.NewReader(resp.Body)
		for range n {
			got := make([]byte, len(comment))
			_, err = io.ReadFull(reader, got)
			require.NoError(t, err)
			require.Equal(t, comment, string(got))
			heard <- struct{}{}
		}
		return resp, reader
	}
	for _, door := range m.doors {
		t.Run(door.name, func(t *testing.T) {
			resp, reader := open(t, door.url, "/v1/chat/completions", hello(true), 2)
			rest, err := io.ReadAll(reader)
			require.NoError(t, err)
			require.Equal(t, piece+last, strings.ReplaceAll(string(rest), comment, ""))
			require.Equal(t, "4", resp.Trailer.Get("X-Kvmesh-Cached-Tokens"))

			_, reader = open(t, door.url, "/v1/messages", `{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"x"}]}`, 1)
			rest, err = io.ReadAll(reader)
			require.NoError(t, err)
			text := strings.ReplaceAll(string(rest), comment, "")
			require.Equal(t, "event: error\ndata: {\"type\":\"error\", \"error\":{\"type\":\"invalid_request_error\"}}\n\n", text)
		})
	}
}

// TestNamedStreamsBreakOffInTheirOwnWords: an error that ends a stream has the form that clients of its API look for.
func TestNamedStreamsBreakOffInTheirOwnWords(t *testing.T) {
	const begun = "event: %s\ndata: {\"type\":%q}\n\n"
	c := startCrew(t, func(w http.ResponseWriter, _ *http.Request, call seen) {
		kind := map[string]string{"/v1/messages": "message_start", "/v1/responses": "response.created"}[call.path]
		answerEvents(w, fmt.Sprintf(begun, kind, kind)+"event: half\nda")
		panic(http.ErrAbortHandler)
	})
	m := startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, nil)
	for _, door := range m.doors {
		for path, row := range map[string]struct{ body, kind, end string }{
			"/v1/messages": {
				`{"max_tokens":1,"stream":true,"messages":[{"role":"user","content":"x"}]}`, "message_start",
				"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"The worker's stream ended early.\"," +
					"\"param\":null,\"code\":\"upstream_lost\"}}\n\n",
			},
			"/v1/responses": {
				`{"stream":true,"input":"x"}`, "response.created",
				"data: {\"error\":{\"message\":\"The worker's stream ended early.\",\"type\":\"server_error\",\"param\":null,\"code\":\"upstream_lost\"}}\n\n",
			},
		} {
			a := ask(t, door.url, path, row.body, nil)
			require.Equal(t, http.StatusOK, a.status, a.body)
			require.Equal(t, fmt.Sprintf(begun, row.kind, row.kind)+row.end, a.body, "%s %s", door.name, path)
		}
	}
}
