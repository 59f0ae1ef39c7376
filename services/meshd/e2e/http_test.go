package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requestLimit bounds every request of the suite: a request that hangs is a failure, not a wait.
const requestLimit = 30 * time.Second

// caller speaks to one address of the mesh as a plain HTTP client.
type caller struct {
	base string
	http *http.Client
}

func newCaller(base string) *caller {
	return &caller{base: base, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// answer is a whole reply.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// post sends JSON and reads the reply to its end.
func (c *caller) post(ctx context.Context, path string, body any) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var raw []byte
	if text, ok := body.(string); ok {
		raw = []byte(text)
	} else {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return answer{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.do(req)
}

// get reads a path.
func (c *caller) get(ctx context.Context, path string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	return c.do(req)
}

func (c *caller) do(req *http.Request) (answer, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, err
}

// mustPost is post for replies that must come with a status.
func (c *caller) mustPost(t *testing.T, path string, body any, status int) answer {
	t.Helper()
	got, err := c.post(t.Context(), path, body)
	require.NoError(t, err)
	require.Equal(t, status, got.status, string(got.body))
	return got
}

// stream is an open stream of server-sent events.
type stream struct {
	resp   *http.Response
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

// open starts a streamed request and waits for its head.
func (c *caller) open(t *testing.T, path string, body any) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), requestLimit)
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(raw))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	require.NoError(t, err)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	s := &stream{resp: resp, lines: lines, cancel: cancel}
	t.Cleanup(s.close)
	return s
}

// next gives the data of the next event; ok is false at the end of the stream.
func (s *stream) next() (data string, ok bool) {
	for s.lines.Scan() {
		if text, found := strings.CutPrefix(s.lines.Text(), "data: "); found {
			return text, true
		}
	}
	return "", false
}

// rest reads events to the end.
func (s *stream) rest() []string {
	var out []string
	for {
		data, ok := s.next()
		if !ok {
			return out
		}
		out = append(out, data)
	}
}

// close leaves the stream, as a client that goes away does.
func (s *stream) close() {
	s.cancel()
	s.resp.Body.Close()
}

// message is one turn of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// conversation makes a first turn that shares no unit with any other topic and fills many blocks.
func conversation(topic string) []message {
	system := strings.Repeat(fmt.Sprintf("Topic %s: answer briefly and name the harbour, the tide and the wind. ", topic), 12)
	return []message{{"system", topic + " " + system}, {"user", "What is the first thing to know?"}}
}

// completion is what the suite reads of a chat completion.
type completion struct {
	Choices []struct {
		Message      message `json:"message"`
		Delta        message `json:"delta"`
		Text         string  `json:"text"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          *struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
	} `json:"error"`
}

func decode(t *testing.T, body []byte) completion {
	t.Helper()
	var c completion
	require.NoError(t, json.Unmarshal(body, &c), string(body))
	return c
}
