package cases

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// seen is one call as a worker got it.
type seen struct {
	worker int
	path   string
	header http.Header
	body   string
}

// crew is two workers that answer as a row of the table says.
type crew struct {
	servers []*httptest.Server
	answer  func(w http.ResponseWriter, r *http.Request, call seen)

	mu    sync.Mutex
	calls []seen
	left  int // calls whose caller went away before their answer
}

func startCrew(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, call seen)) *crew {
	t.Helper()
	c := &crew{answer: answer}
	for i := range 2 {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				(&gated{}).ServeHTTP(w, r)
				return
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			call := seen{i, r.URL.Path, r.Header, string(body)}
			c.mu.Lock()
			c.calls = append(c.calls, call)
			c.mu.Unlock()
			c.answer(w, r, call)
			if r.Context().Err() != nil {
				c.mu.Lock()
				c.left++
				c.mu.Unlock()
			}
		}))
		t.Cleanup(s.Close)
		c.servers = append(c.servers, s)
	}
	return c
}

// taken is the calls since the last look.
func (c *crew) taken() []seen {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.calls
	c.calls = nil
	return out
}

// rivals is a mesh over a crew.
type rivals struct {
	*meshed
	crew *crew
}

// got is an answer, read to its end.
type got struct {
	status int
	header http.Header
	body   string
	err    error // how the body ended
}

func ask(t *testing.T, url, path, body string, header http.Header) got {
	t.Helper()
	return read(t, open(t, url, path, body, header))
}

// open posts a body and returns at the answer's headers; read takes the rest.
func open(t *testing.T, url, path, body string, header http.Header) *http.Response {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
	require.NoError(t, err)
	q.Header = http.Header{"Content-Type": {"application/json"}}
	for k, v := range header {
		q.Header[k] = v
	}
	q.Close = true
	resp, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	return resp
}

func read(t *testing.T, resp *http.Response) got {
	t.Helper()
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return got{resp.StatusCode, resp.Header, string(raw), err}
}

// hello is a chat request, streamed or not.
func hello(stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"Hello"}]}`, base, stream)
}

const (
	whole = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"content":"one"},"finish_reason":"stop"}]}`
	piece = `data: {"id":"x","choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}` + "\n\n"
	last  = `data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + "data: [DONE]\n\n"
)

func answerJSON(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

func answerEvents(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, events)
	_ = http.NewResponseController(w).Flush()
}

func streams(call seen) bool { return strings.Contains(call.body, `"stream":true`) }

// odd is a body with all that a second serialisation would change: white space, order, repeated and unknown members,
// number spelling, escapes, nulls and empty values.
func odd(members string) string {
	return "{ \"zeta\" : 1.0 ,\n\t\"model\":\"" + base + "\" , " + members + ` , "seed":9007199254740993, "temperature":1e-0,` +
		` "alpha":null, "n\u0061me":"\u00e9\/", "empty":{}, "none":[], "zeta" : 2E+1 , "deep":{"b":[[[{}]]],"a":-0} }` + "\r\n"
}

// TestWhatRivalsGetWrong: one row for each fault that other gateways show, played through both doors.
func TestWhatRivalsGetWrong(t *testing.T) {
	quiet := func(w http.ResponseWriter, _ *http.Request, call seen) {
		if streams(call) {
			answerEvents(w, piece+last)
			return
		}
		answerJSON(w, whole)
	}
	rows := []struct {
		name   string
		answer func(w http.ResponseWriter, r *http.Request, call seen)
		check  func(t *testing.T, m *rivals, url string)
	}{
		{"bodies are re-serialised", quiet, bodiesKept},
		{"custom headers are lost", headersBack, headersKept},
		{"a retry goes to the same worker", refusesFirst(), retriesElsewhere},
		{"[DONE] after a broken stream", breaksOff, brokenShows},
		{"half a plain answer looks whole", breaksOff, halfShows},
		{"plain requests are not cancelled", waits, plainCancelled},
		{"dispatch before the body has ended", quiet, bodyFirst},
		{"500 with an address when all are dead, and a health of 200", quiet, allDead},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := startCrew(t, row.answer)
			m := &rivals{startDoors(t, []string{c.servers[0].URL, c.servers[1].URL}, nil), c}
			for _, door := range m.doors {
				t.Run(door.name, func(t *testing.T) { row.check(t, m, door.url) })
			}
		})
	}
}

func bodiesKept(t *testing.T, m *rivals, url string) {
	for path, members := range map[string]string{
		"/v1/chat/completions":      `"messages":[{"content":"caf\u00e9", "x":0.10 ,"role":"user"}]`,
		"/v1/completions":           `"prompt":"a\tb"`,
		"/v1/embeddings":            `"input":["a", "b"]`,
		"/v1/responses":             `"input":[ {"role":"user","content":"x"}]`,
		"/v1/messages":              `"max_tokens":1,"messages":[{"role":"user","content":"x"}]`,
		"/v1/messages/count_tokens": `"messages":[{"role":"user","content":"x"}]`,
		"/pooling":                  `"input":"x"`, "/classify": `"input":"x"`, "/score": `"text_1":"a","text_2":"b"`,
		"/rerank": `"query":"a","documents":["b"]`, "/tokenize": `"prompt":"x"`, "/detokenize": `"tokens":[1]`,
	} {
		body := odd(members)
		require.Equal(t, http.StatusOK, ask(t, url, path, body, nil).status, path)
		calls := m.crew.taken()
		require.Len(t, calls, 1, path)
		require.Equal(t, path, calls[0].path)
		require.Equal(t, body, calls[0].body, path)
	}
}

func headersBack(w http.ResponseWriter, _ *http.Request, _ seen) {
	w.Header().Set("X-Engine-Note", "warm")
	w.Header().Add("X-Many", "one")
	w.Header().Add("X-Many", "two")
	answerJSON(w, whole)
}

func headersKept(t *testing.T, m *rivals, url string) {
	sent := http.Header{
		"X-Session-Id": {"s-1"}, "X-Custom": {"a", "b, c"}, "X-Vllm-Priority": {"3"}, "X-Empty": {""},
		"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "User-Agent": {"mine/1"}, "X-Note-Bin": {"plain text"},
	}
	a := ask(t, url, "/v1/chat/completions", hello(false), sent)
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "warm", a.header.Get("X-Engine-Note"))
	require.Equal(t, []string{"one", "two"}, a.header["X-Many"])
	calls := m.crew.taken()
	require.Len(t, calls, 1)
	for name, values := range sent {
		require.Equal(t, values, calls[0].header[name], name)
	}
}

// refusesFirst has the worker that a round comes to first fail that round for good, in the way that the request says.
func refusesFirst() func(w http.ResponseWriter, r *http.Request, call seen) {
	failing := map[string]int{}
	var mu sync.Mutex
	return func(w http.ResponseWriter, r *http.Request, call seen) {
		how := r.Header.Get("X-Fault") + r.Header.Get("X-Round")
		mu.Lock()
		if _, begun := failing[how]; !begun {
			failing[how] = call.worker
		}
		fails := failing[how] == call.worker
		mu.Unlock()
		switch {
		case !fails && streams(call):
			answerEvents(w, piece+last)
		case !fails:
			answerJSON(w, whole)
		case strings.HasPrefix(how, "reset"):
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(how, "first event"):
			answerEvents(w, `data: {"error":{"message":"queue is full","type":"x","param":null,"code":503}}`+"\n\ndata: [DONE]\n\n")
		default:
			http.Error(w, `{"error":{"message":"no","type":"x","param":null,"code":503}}`, http.StatusServiceUnavailable)
		}
	}
}

func retriesElsewhere(t *testing.T, m *rivals, url string) {
	for _, fault := range []string{"reset", "refused", "first event"} {
		a := ask(t, url, "/v1/chat/completions", hello(fault == "first event"), http.Header{"X-Fault": {fault}, "X-Round": {url}})
		require.Equal(t, http.StatusOK, a.status, "%s: %s", fault, a.body)
		require.NotContains(t, a.body, "error", fault)
		calls := m.crew.taken()
		if fault == "reset" && len(calls) == 3 {
			// A connection from the pool that breaks before a byte came may have been closed by the worker's idleness: the
			// request goes over a new one, once.
			require.Equal(t, calls[0].worker, calls[1].worker)
			calls = calls[1:]
		}
		require.Len(t, calls, 2, fault)
		require.NotEqual(t, calls[0].worker, calls[1].worker, fault)
		require.Equal(t, calls[0].body, calls[1].body, fault)
		require.Equal(t, fmt.Sprintf("w%d", calls[1].worker), a.header.Get("X-Kvmesh-Worker"), fault)
	}
}

// breaksOff sends the half of an answer and closes.
func breaksOff(w http.ResponseWriter, _ *http.Request, call seen) {
	if streams(call) {
		answerEvents(w, piece+piece)
	} else {
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
		answerJSON(w, whole[:len(whole)/2])
	}
	panic(http.ErrAbortHandler)
}

func brokenShows(t *testing.T, m *rivals, url string) {
	a := ask(t, url, "/v1/chat/completions", hello(true), nil)
	require.Equal(t, http.StatusOK, a.status)
	require.True(t, strings.HasPrefix(a.body, piece+piece+`data: {"error":{`), a.body)
	require.NotContains(t, a.body, "[DONE]")
	require.NotContains(t, a.body, "127.0.0.1")
	require.Len(t, m.crew.taken(), 1, "nothing is sent again once a byte is out")
}

func halfShows(t *testing.T, m *rivals, url string) {
	a := ask(t, url, "/v1/chat/completions", hello(false), nil)
	require.Equal(t, http.StatusBadGateway, a.status)
	require.Contains(t, a.body, `"code":"upstream_failed"`)
	require.NotContains(t, a.body, "127.0.0.1")
	require.Len(t, m.crew.taken(), 2, "nothing was out, so the other worker was tried")
}

// waits answers when its caller is gone.
func waits(_ http.ResponseWriter, r *http.Request, _ seen) { <-r.Context().Done() }

func plainCancelled(t *testing.T, m *rivals, url string) {
	holds := func(what func() bool) {
		t.Helper()
		kittest.Eventually(t, func() error {
			m.crew.mu.Lock()
			defer m.crew.mu.Unlock()
			if !what() {
				return fmt.Errorf("%d calls at the workers, of %d the caller left", len(m.crew.calls), m.crew.left)
			}
			return nil
		})
	}
	conn := send(t, url, "wait", false)
	holds(func() bool { return len(m.crew.calls) == 1 })
	require.NoError(t, conn.Close())
	holds(func() bool { return m.crew.left == 1 })
	m.crew.left = 0
	require.Len(t, m.crew.taken(), 1, "nobody is asked again")
}

// bodyFirst sends half a body and no more: no worker may hear of it.
func bodyFirst(t *testing.T, m *rivals, url string) {
	body := hello(true)
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body[:len(body)-1])
	require.NoError(t, err)
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.CloseWrite())
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Empty(t, m.crew.taken())

	// A large body reaches the worker whole before its first event can come.
	long := strings.Replace(body, "Hello", strings.Repeat("Hello ", 200_000), 1)
	a := ask(t, url, "/v1/chat/completions", long, nil)
	require.Equal(t, piece+last, a.body)
	calls := m.crew.taken()
	require.Len(t, calls, 1)
	require.Contains(t, calls[0].body, strings.Repeat("Hello ", 200_000))
}

// allDead closes the workers. The gateway still knows them: what it tells is 503, without an address. Its health says the
// same as soon as the adapters have noticed.
func allDead(t *testing.T, m *rivals, url string) {
	for _, s := range m.crew.servers {
		s.Listener.Close()
		s.CloseClientConnections()
	}
	for _, stream := range []bool{false, true} {
		a := ask(t, url, "/v1/chat/completions", hello(stream), nil)
		require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.Contains(t, a.body, `"type":"server_error"`)
		require.NotContains(t, a.body, "127.0.0.1")
		require.NotContains(t, a.body, "refused")
	}
	for _, path := range []string{"/health", "/ready"} {
		kittest.Eventually(t, func() error {
			resp, err := http.Get(url + path)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusServiceUnavailable {
				return fmt.Errorf("%s says %d", path, resp.StatusCode)
			}
			return nil
		})
	}
}
