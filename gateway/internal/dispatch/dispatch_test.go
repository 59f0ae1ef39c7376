package dispatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/prompt"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worker answers its n-th call with the n-th script; the last one repeats. It keeps what it got.
type worker struct {
	url  string
	hung chan struct{} // closed when a call hangs
	mu   sync.Mutex
	got  []string
}

func startWorker(t *testing.T, scripts ...string) *worker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &worker{url: "http://" + ln.Addr().String(), hung: make(chan struct{})}
	var wg sync.WaitGroup
	var conns sync.Map
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Store(c, true)
			wg.Go(func() { defer c.Close(); w.serve(c, scripts) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		conns.Range(func(c, _ any) bool {
			if nc, ok := c.(net.Conn); ok {
				_ = nc.Close()
			}
			return true
		})
		wg.Wait()
	})
	return w
}

func (w *worker) serve(c net.Conn, scripts []string) {
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		b, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.got = append(w.got, r.Header.Get("X-Data-Parallel-Rank")+"|"+string(b))
		n := len(w.got) - 1
		w.mu.Unlock()
		say := scripts[min(n, len(scripts)-1)]
		if say == "hang" {
			close(w.hung)
			_, _ = br.Peek(1)
			return
		}
		if _, err := io.WriteString(c, say); err != nil || strings.HasSuffix(say, "!") {
			return
		}
	}
}

func (w *worker) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.got...)
}

func plain(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// stream is a chunked answer of events, one chunk each, with its end.
func stream(events ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	for _, e := range events {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(e)+2, e+"\n\n")
	}
	return b.String() + "0\r\n\r\n"
}

// scheduler routes to its workers in order, skipping excluded ones, and keeps the settles.
type scheduler struct {
	schedulerv1.SchedulerServiceClient
	workers []*worker
	mode    workerv1.TokenIdsMode

	mu       sync.Mutex
	settled  []*schedulerv1.SettleRequest
	progress int
	routed   []*schedulerv1.RouteRequest
}

func (s *scheduler) Route(_ context.Context, q *schedulerv1.RouteRequest, _ ...grpc.CallOption) (*schedulerv1.RouteResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routed = append(s.routed, q)
	out := map[string]bool{}
	for _, t := range q.GetExclude() {
		out[t.GetWorkerId()] = true
	}
	for i, w := range s.workers {
		id := fmt.Sprintf("w%d", i)
		if !out[id] {
			return &schedulerv1.RouteResponse{
				Reservation: uint64(len(s.routed)), Target: &schedulerv1.Target{WorkerId: id, Rank: 2}, HttpUrl: w.url, SendRank: true,
				PredictedHitTokens: 3, TokenIdsMode: s.mode, Policy: "test",
			}, nil
		}
	}
	return nil, fault.New(faultv1.Reason_REASON_NO_WORKER, "none").WithRetryAfter(2 * time.Second)
}

func (s *scheduler) Progress(context.Context, *schedulerv1.ProgressRequest, ...grpc.CallOption) (*schedulerv1.ProgressResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress++
	return &schedulerv1.ProgressResponse{}, nil
}

func (s *scheduler) Settle(_ context.Context, q *schedulerv1.SettleRequest, _ ...grpc.CallOption) (*schedulerv1.SettleResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, q)
	return &schedulerv1.SettleResponse{}, nil
}

// outcomes is the settles' outcomes in order; every reservation must have exactly one.
func (s *scheduler) outcomes(t *testing.T) []schedulerv1.Outcome {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[uint64]bool{}
	var out []schedulerv1.Outcome
	for _, q := range s.settled {
		require.False(t, seen[q.GetReservation()], "settled twice")
		seen[q.GetReservation()] = true
		out = append(out, q.GetOutcome())
	}
	return out
}

func dispatcher(t *testing.T, s *scheduler, change ...func(*Config)) *Dispatcher {
	t.Helper()
	cfg := Config{Attempts: 3, BufferBytes: 1 << 20, MaxEventBytes: 1 << 20}
	for _, c := range change {
		c(&cfg)
	}
	client := wire.NewClient(wire.Config{ConnectTimeout: time.Second, IdleTimeout: time.Minute, MaxIdle: 10})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); client.Run(ctx) }()
	d := New(cfg, s, client, flight.New(slog.New(slog.DiscardHandler), nil, time.Now))
	t.Cleanup(func() { d.Wait(); cancel(); <-done })
	return d
}

func job(t *testing.T, doc string) *Job {
	t.Helper()
	q, err := openai.Scan(openai.ShapeChat, []byte(doc), 100)
	require.NoError(t, err)
	return &Job{
		RequestID: "r", Method: "POST", Path: "/v1/chat/completions", Query: q, Item: -1, Model: fleet.Model{ID: "m", Base: "m"},
		Prompt: &prompt.Prompt{Tokens: 5, IDs: []uint32{1, 2}}, Stream: q.Stream, HideUsage: q.CanAskUsage(), Generates: true,
	}
}

const (
	plainDoc  = `{"messages":[{"role":"user"}]}`
	streamDoc = `{"messages":[{"role":"user"}],"stream":true}`
)

func TestAttempts(t *testing.T) {
	t.Parallel()
	ok := plain(200, `{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`)
	const good, rejected, busy, bad = schedulerv1.Outcome_OUTCOME_OK, schedulerv1.Outcome_OUTCOME_REJECTED, schedulerv1.Outcome_OUTCOME_BUSY,
		schedulerv1.Outcome_OUTCOME_FAILED
	type outcomes []schedulerv1.Outcome
	rows := []struct {
		name    string
		scripts []string // of one worker each
		status  int
		reason  fault.Reason
		want    outcomes
	}{
		{"at once", []string{ok}, 200, 0, outcomes{good}},
		{"500 then good", []string{plain(500, "{}"), ok}, 200, 0, outcomes{bad, good}},
		{"429 is capacity", []string{plain(429, "{}"), ok}, 200, 0, outcomes{busy, good}},
		{"503 is capacity", []string{plain(503, "{}"), ok}, 200, 0, outcomes{busy, good}},
		{"400 is an answer", []string{plain(400, "{}"), ok}, 400, 0, outcomes{rejected}},
		{"501 is an answer", []string{plain(501, "{}"), ok}, 501, 0, outcomes{rejected}},
		{"closed before the head", []string{"!", ok}, 200, 0, outcomes{bad, good}},
		{"cut in the body", []string{"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{!", ok}, 200, 0, outcomes{bad, good}},
		{"HTML", []string{"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx", ok}, 200, 0, outcomes{bad, good}},
		{"a redirection", []string{"HTTP/1.1 307 x\r\nLocation: http://10.0.0.1:8000/\r\nContent-Length: 0\r\n\r\n", ok}, 200, 0, outcomes{bad, good}},
		{"aborted", []string{plain(200, `{"choices":[{"finish_reason":"abort"}]}`), ok}, 200, 0, outcomes{bad, good}},
		{"the word abort is no abort", []string{plain(200, `{"choices":[{"finish_reason":"stop","text":"abort"}]}`)}, 200, 0, outcomes{good}},
		{"three tries at most", []string{plain(500, "{}"), plain(500, "{}"), plain(500, "{}"), ok}, 500, 0, outcomes{bad, bad, bad}},
		{"the last answer is relayed", []string{plain(500, "{}"), plain(429, "{}")}, 429, 0, outcomes{bad, busy}},
		{"an answer is better than none", []string{plain(500, "{}"), "!"}, 500, 0, outcomes{bad, bad}},
		{"no answer at all", []string{"!", "!"}, 0, faultv1.Reason_REASON_WORKER_FAILED, outcomes{bad, bad}},
		{"no worker", nil, 0, faultv1.Reason_REASON_NO_WORKER, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &scheduler{}
			for _, script := range row.scripts {
				s.workers = append(s.workers, startWorker(t, script))
			}
			d := dispatcher(t, s)
			a, err := d.Open(context.Background(), job(t, plainDoc))
			if row.reason != 0 {
				require.Equal(t, row.reason, fault.ReasonOf(err))
			} else {
				require.NoError(t, err)
				require.Equal(t, row.status, a.Status)
				a.Close(d, nil)
			}
			require.Equal(t, []schedulerv1.Outcome(row.want), s.outcomes(t))
			for i, w := range s.workers {
				require.LessOrEqual(t, len(w.calls()), 1, "worker %d", i)
			}
		})
	}
}

func TestNobodyReachable(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := &worker{url: "http://" + ln.Addr().String()}
	require.NoError(t, ln.Close())
	s := &scheduler{workers: []*worker{dead}}
	_, err = dispatcher(t, s).Open(context.Background(), job(t, plainDoc))
	f := fault.From(err)
	require.Equal(t, faultv1.Reason_REASON_NO_WORKER, f.Reason)
	require.Positive(t, f.RetryAfter)
	require.NotContains(t, f.Message, "127.0.0.1", "no addresses in errors")
}

func TestSettleReportsWhatTheWorkerCounted(t *testing.T) {
	t.Parallel()
	s := &scheduler{workers: []*worker{startWorker(t, plain(200, `{"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}`))}}
	d := dispatcher(t, s)
	for _, doc := range []string{plainDoc, `{"messages":[{}],"n":2}`} {
		a, err := d.Open(context.Background(), job(t, doc))
		require.NoError(t, err)
		a.Close(d, nil)
		a.Close(d, errors.New("again"))
	}
	require.Len(t, s.outcomes(t), 2)
	require.EqualValues(t, 4, s.settled[0].GetCachedTokens())
	require.EqualValues(t, 5, s.settled[0].GetPromptTokens())
	require.EqualValues(t, 2, s.settled[0].GetOutputTokens())
	require.Nil(t, s.settled[1].CachedTokens, "with n > 1 vLLM's number is of one sequence alone")
	require.Equal(t, "2|"+plainDoc, s.workers[0].calls()[0], "the rank is sent, the body is the client's")
}

func TestCancelDuringTheCall(t *testing.T) {
	t.Parallel()
	s := &scheduler{workers: []*worker{startWorker(t, "hang"), startWorker(t, plain(200, "{}"))}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-s.workers[0].hung
		cancel()
	}()
	_, err := dispatcher(t, s).Open(ctx, job(t, plainDoc))
	require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(err))
	require.Equal(t, []schedulerv1.Outcome{schedulerv1.Outcome_OUTCOME_CANCELLED}, s.outcomes(t))
	require.Empty(t, s.workers[1].calls(), "nothing is tried after the client has left")
}

func TestTokenIDsTravelOnlyWhereTheyAreProven(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		mode workerv1.TokenIdsMode
		on   bool
		want bool
	}{
		"proven and on":  {workerv1.TokenIdsMode_TOKEN_IDS_MODE_KV_TRANSFER_PARAMS, true, true},
		"proven and off": {workerv1.TokenIdsMode_TOKEN_IDS_MODE_KV_TRANSFER_PARAMS, false, false},
		"not proven":     {workerv1.TokenIdsMode_TOKEN_IDS_MODE_UNSPECIFIED, true, false},
	} {
		s := &scheduler{workers: []*worker{startWorker(t, plain(200, "{}"))}, mode: row.mode}
		d := dispatcher(t, s, func(c *Config) { c.SendIDs = row.on })
		a, err := d.Open(context.Background(), job(t, plainDoc))
		require.NoError(t, err)
		a.Close(d, nil)
		require.Equal(t, row.want, strings.Contains(s.workers[0].calls()[0], `"prompt_token_ids":[1,2]`), name)
	}
}

func TestAnswersBeyondTheBufferAreReadOn(t *testing.T) {
	t.Parallel()
	body := `{"x":"` + strings.Repeat("y", 300_000) + `"}`
	s := &scheduler{workers: []*worker{startWorker(t, plain(200, body))}}
	d := dispatcher(t, s, func(c *Config) { c.BufferBytes = 8192 })
	a, err := d.Open(context.Background(), job(t, plainDoc))
	require.NoError(t, err)
	require.True(t, a.More)
	require.EqualValues(t, len(body), a.Length())
	got, err := io.ReadAll(a.Reader())
	require.NoError(t, err)
	require.Equal(t, body, string(got))
	a.Close(d, nil)
	require.Equal(t, []schedulerv1.Outcome{schedulerv1.Outcome_OUTCOME_OK}, s.outcomes(t))
}

func chunk(content, finish string) string {
	text, _ := json.Marshal(content)
	return fmt.Sprintf(`data: {"id":"c","choices":[{"index":0,"delta":{"content":%s},"finish_reason":%s}]}`, text, finish)
}

// stampedUsage is a usage chunk with the member that vLLM otherwise puts on the ends of choices.
const stampedUsage = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3},"system_fingerprint":"vllm-0.32.0-ab"}`

const usageChunk = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`

// drainStream reads a stream to its end.
func drainStream(s *Stream) (string, error) {
	out := append([]byte(nil), s.First()...)
	for {
		b, err := s.Next()
		out = append(out, b...)
		if err != nil {
			return string(out), err
		}
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	tok, fin, done := chunk("a", "null"), chunk("", `"stop"`), "data: [DONE]"
	stamped := strings.TrimSuffix(fin, "}") + `,"system_fingerprint":"vllm-0.32.0-ab"}`
	join := func(es ...string) string { return strings.Join(es, "\n\n") + "\n\n" }
	rows := []struct {
		name    string
		events  []string
		doc     string
		want    string
		ends    string // "eof", "unmarked", or a reason
		outcome schedulerv1.Outcome
	}{
		{"whole", []string{tok, fin, done}, streamDoc, join(tok, fin, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"usage for kvmesh alone is hidden", []string{tok, fin, usageChunk, done}, streamDoc, join(tok, fin, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"the fingerprint of the hidden usage goes on the end", []string{tok, fin, stampedUsage, done}, streamDoc, join(tok, stamped, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"a comment between the two", []string{tok, fin, ": hi", stampedUsage, done}, streamDoc, join(tok, fin, ": hi", done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"an end that has its fingerprint", []string{tok, stamped, stampedUsage, done}, streamDoc, join(tok, stamped, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"nothing before the end", []string{fin, stampedUsage, done}, streamDoc, join(stamped, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"the last of two choices", []string{tok, fin, fin, stampedUsage, done}, `{"messages":[{}],"stream":true,"n":2}`, join(tok, fin, stamped, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"two ends of one choice", []string{tok, fin, fin, stampedUsage, done}, streamDoc, join(tok, fin, stamped, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"an error behind the end", []string{fin, `data: {"error":{"code":500}}`, done}, streamDoc, join(fin, `data: {"error":{"code":500}}`, done), "eof", schedulerv1.Outcome_OUTCOME_FAILED},
		{"an abort behind the end", []string{fin, chunk("", `"abort"`), done}, streamDoc, join(fin), "STREAM_BROKEN", schedulerv1.Outcome_OUTCOME_FAILED},
		{
			"usage that was asked for is shown",
			[]string{tok, fin, usageChunk, done},
			`{"messages":[{}],"stream":true,"stream_options":{"include_usage":true}}`, join(tok, fin, usageChunk, done), "eof", schedulerv1.Outcome_OUTCOME_OK,
		},
		{"nothing behind the end", []string{tok, fin, done, tok}, streamDoc, join(tok, fin, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"the end mark inside text", []string{chunk("data: [DONE]\n\n", "null"), fin, done}, streamDoc, join(chunk("data: [DONE]\n\n", "null"), fin, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"no end mark, finished", []string{tok, fin}, streamDoc, join(tok, fin), "unmarked", schedulerv1.Outcome_OUTCOME_OK},
		{"no end mark, unfinished", []string{tok, tok}, streamDoc, join(tok, tok), "STREAM_BROKEN", schedulerv1.Outcome_OUTCOME_FAILED},
		{"one of two finished", []string{tok, fin}, `{"messages":[{}],"stream":true,"n":2}`, join(tok, fin), "STREAM_BROKEN", schedulerv1.Outcome_OUTCOME_FAILED},
		{"abort", []string{tok, chunk("", `"abort"`), done}, streamDoc, join(tok), "STREAM_BROKEN", schedulerv1.Outcome_OUTCOME_FAILED},
		{"the worker's own error", []string{tok, `data: {"error":{"code":500}}`, done}, streamDoc, join(tok, `data: {"error":{"code":500}}`, done), "eof", schedulerv1.Outcome_OUTCOME_FAILED},
		{"the worker's own error and no end mark", []string{tok, `data: {"error":{"code":500}}`}, streamDoc, join(tok, `data: {"error":{"code":500}}`), "eof", schedulerv1.Outcome_OUTCOME_FAILED},
		{"comments first", []string{": hi", tok, fin, done}, streamDoc, join(": hi", tok, fin, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"no JSON", []string{"data: hello", tok, fin, done}, streamDoc, join("data: hello", tok, fin, done), "eof", schedulerv1.Outcome_OUTCOME_OK},
		{"named events need no end mark", []string{"event: a\ndata: {}"}, streamDoc, join("event: a\ndata: {}"), "eof", schedulerv1.Outcome_OUTCOME_OK},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &scheduler{workers: []*worker{startWorker(t, stream(row.events...))}}
			d := dispatcher(t, s)
			a, err := d.Open(context.Background(), job(t, row.doc))
			require.NoError(t, err)
			require.NotNil(t, a.Stream)
			got, err := drainStream(a.Stream)
			require.Equal(t, row.want, got)
			switch row.ends {
			case "eof":
				require.ErrorIs(t, err, io.EOF)
				err = nil
			case "unmarked":
				require.True(t, Unmarked(err))
				err = nil
			default:
				require.Equal(t, "REASON_"+row.ends, fault.ReasonOf(err).String())
			}
			a.Close(d, err)
			require.Equal(t, []schedulerv1.Outcome{row.outcome}, s.outcomes(t))
		})
	}
}

// TestAnErrorAsTheFirstEvent is no stream: another worker is asked where that may help, and the last one's is relayed with
// its own status.
func TestAnErrorAsTheFirstEvent(t *testing.T) {
	t.Parallel()
	good := stream(chunk("a", `"stop"`), "data: [DONE]")
	named := func(kind string) string {
		return stream(`event: error` + "\n" + `data: {"type":"error","error":{"type":"` + kind + `","message":"no"}}`)
	}
	for name, row := range map[string]struct {
		scripts []string
		status  int
		body    string
		asked   int
	}{
		"full":                   {[]string{stream(`data: {"error":{"code":503}}`, "data: [DONE]"), good}, 200, "", 2},
		"comments before it":     {[]string{stream(": hi", `data: {"error":{"code":503}}`), good}, 200, "", 2},
		"bad request":            {[]string{stream(`data: {"error":{"code":400}}`), good}, 400, `{"error":{"code":400}}`, 1},
		"no code":                {[]string{stream(`data: {"error":{"message":"x"}}`), good}, 200, "", 2},
		"named":                  {[]string{named("internal_error"), good}, 200, "", 2},
		"named, overloaded":      {[]string{named("overloaded_error"), good}, 200, "", 2},
		"named, a bad request":   {[]string{named("invalid_request_error"), good}, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`, 1},
		"named, at every worker": {[]string{named("api_error"), named("api_error")}, 500, `{"type":"error","error":{"type":"api_error","message":"no"}}`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scheduler{}
			for _, script := range row.scripts {
				s.workers = append(s.workers, startWorker(t, script))
			}
			d := dispatcher(t, s)
			a, err := d.Open(context.Background(), job(t, streamDoc))
			require.NoError(t, err)
			require.Equal(t, row.status, a.Status)
			require.Equal(t, row.status == 200, a.Stream != nil)
			if a.Stream == nil {
				require.Equal(t, row.body, string(a.Body))
				require.Equal(t, "application/json", a.ContentType)
			}
			a.Close(d, nil)
			require.Len(t, s.outcomes(t), row.asked)
		})
	}
}

func TestStreamUsageIsSettled(t *testing.T) {
	t.Parallel()
	s := &scheduler{workers: []*worker{startWorker(t, stream(chunk("a", "null"), chunk("", `"stop"`), usageChunk, "data: [DONE]"))}}
	d := dispatcher(t, s)
	a, err := d.Open(context.Background(), job(t, streamDoc))
	require.NoError(t, err)
	_, err = drainStream(a.Stream)
	require.ErrorIs(t, err, io.EOF)
	n, ok := a.Stream.Cached()
	require.True(t, ok)
	require.EqualValues(t, 8, n)
	a.Close(d, nil)
	require.EqualValues(t, 8, s.settled[0].GetCachedTokens())
	require.EqualValues(t, 3, s.settled[0].GetOutputTokens())
	require.Contains(t, s.workers[0].calls()[0], `"stream_options":{"include_usage":true}`)
}

func TestAnEventBeyondTheLimitEndsTheStream(t *testing.T) {
	t.Parallel()
	s := &scheduler{workers: []*worker{startWorker(t, stream(chunk("a", "null"), chunk(strings.Repeat("x", 50_000), "null")))}}
	d := dispatcher(t, s, func(c *Config) { c.MaxEventBytes = 10_000 })
	a, err := d.Open(context.Background(), job(t, streamDoc))
	require.NoError(t, err)
	got, err := drainStream(a.Stream)
	require.Equal(t, chunk("a", "null")+"\n\n", got)
	require.Equal(t, faultv1.Reason_REASON_STREAM_BROKEN, fault.ReasonOf(err))
	a.Close(d, err)
}

// TestShapeNeverHidesWhatMatters: an event that fits a learnt shape says the same as one that is read whole.
func TestShapeNeverHidesWhatMatters(t *testing.T) {
	t.Parallel()
	var s shape
	base := []byte(chunk("tok", "null") + "\n\n")
	s.learn(base)
	require.True(t, s.fits([]byte(chunk("other words", "null")+"\n\n")))
	require.True(t, s.fits([]byte(chunk("", "null")+"\n\n")))
	for _, e := range []string{
		chunk("a", `"stop"`), usageChunk, "data: [DONE]", `data: {"error":{}}`, chunk(`say "x"`, "null"), chunk(`\`, "null"), "data: {", "",
		strings.Replace(chunk("a", "null"), `"c"`, `"d"`, 1), strings.Replace(chunk("a", "null"), "}]}", `}],"usage":{}}`, 1),
	} {
		fits := s.fits([]byte(e + "\n\n"))
		if !fits {
			continue
		}
		c, ok := openai.ReadChunk(bytes.TrimPrefix([]byte(e), []byte("data: ")))
		require.True(t, ok, e)
		require.Zero(t, c.Finished, e)
		require.Nil(t, c.Usage, e)
		require.False(t, c.Error, e)
	}
}

func FuzzShape(f *testing.F) {
	f.Add(chunk("a", "null"), chunk("b", `"stop"`))
	f.Add(chunk(`x\"`, "null"), chunk("", "null"))
	f.Add(chunk("a", "null"), usageChunk)
	f.Fuzz(func(t *testing.T, first, second string) {
		read := func(e string) (openai.Chunk, bool) { return openai.ReadChunk([]byte(strings.TrimPrefix(e, "data: "))) }
		a, ok := read(first)
		if !ok || !strings.HasPrefix(first, "data: {") || strings.ContainsAny(first+second, "\r\n") || a.Finished > 0 || a.Usage != nil || a.Error {
			return
		}
		if !strings.Contains(first, string(markOpen)) || strings.Contains(first, string(markUsage)) || strings.Contains(first, string(markError)) {
			return
		}
		var s shape
		s.learn([]byte(first + "\n\n"))
		if !s.fits([]byte(second + "\n\n")) {
			return
		}
		if c, ok := read(second); ok {
			require.Zero(t, c.Finished)
			require.Nil(t, c.Usage)
			require.False(t, c.Error)
		}
	})
}
