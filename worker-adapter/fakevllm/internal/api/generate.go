package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// sequence is one choice of an answer.
type sequence struct {
	index  int
	prompt int // number of its prompt
	plan   *plan
	seq    *engine.Seq
	sent   int          // tokens that a stream has passed on
	state  engine.State // when the stream last looked
	done   bool
}

// generation is one HTTP request in the engine.
type generation struct {
	h       *Handler
	engine  *engine.Engine
	id      string // "cmpl-…" or "chatcmpl-…"
	created int64  // Unix seconds
	model   string // as the client named it, the served name if it did not
	common  *request.Common
	prompts [][]uint32
	seqs    []*sequence
	notify  chan struct{}
	rank    int
	chat    bool
}

// start turns prompts and scripts into queued jobs. It returns the error that the client gets.
func (g *generation) start(ctx context.Context, scripts []*script) error {
	g.notify = make(chan struct{}, 1)
	g.created = time.Now().Unix()
	g.engine = g.h.pick(g.rank)
	scope := g.h.deps.LoRAs.scope(g.common.Model)
	scope.Salt = g.common.CacheSalt
	jobs := make([]*engine.Seq, 0, len(scripts))
	per := max(1, g.common.Sampling.N)
	for i, s := range scripts {
		p, err := g.h.plan(ctx, s)
		if err != nil {
			return err
		}
		if p.broken != nil {
			return p.broken
		}
		q := engine.NewSeq(engine.Job{
			ID: g.id + "-" + strconv.Itoa(i/per), Prompt: s.prompt, Output: p.ids, Scope: scope,
			SkipRead: g.skipsCache(), ReportFull: g.common.ReportFull, Session: g.common.SessionID, Cut: p.finish == "length",
			Priority: g.common.Priority, Notify: g.notify,
		}, g.h.set.BlockSize)
		if !g.engine.Fits(len(s.prompt) + len(p.ids)) {
			return request.Bad("The prompt and its output need more KV cache blocks than the engine has.")
		}
		g.seqs = append(g.seqs, &sequence{index: i, prompt: i / per, plan: p, seq: q})
		jobs = append(jobs, q)
	}
	return g.engine.Submit(jobs...)
}

// skipsCache tells that prompt logprobs are wanted, which only computing gives.
func (g *generation) skipsCache() bool {
	s := &g.common.Sampling
	return s.PromptLogprobs != request.Unset || !g.chat && g.common.Echo && s.Logprobs != request.Unset
}

// wait returns when all sequences have ended; false if the client went away first, which aborts them.
func (g *generation) wait(ctx context.Context) bool {
	for {
		if !slices.ContainsFunc(g.seqs, func(s *sequence) bool { return !s.seq.Ended() }) {
			return true
		}
		select {
		case <-ctx.Done():
			g.drop()
			return false
		case <-g.notify:
		}
	}
}

// drop aborts the sequences of a client that has gone; vLLM counts them nowhere.
func (g *generation) drop() {
	for _, s := range g.seqs {
		g.engine.Abort(engine.Dropped, s.seq)
	}
}

// finish returns finish_reason and stop_reason after n tokens of the sequence.
func (s *sequence) finish() (reason, stop string) {
	if s.seq.State() == engine.Aborted {
		return "abort", "null"
	}
	return s.plan.finish, s.plan.stop
}

// usage are the numbers of a whole answer.
type usage struct {
	prompt, completion, cached, created, thought int
}

// usage adds up what exists now. cached is the last prompt's number, as a real server reports it for several.
func (g *generation) usage() usage {
	var u usage
	for _, p := range g.prompts {
		u.prompt += len(p)
	}
	for _, s := range g.seqs {
		n := s.seq.Produced()
		u.completion += n
		u.thought += min(n, s.plan.thought)
	}
	last := g.seqs[len(g.seqs)-1]
	u.cached = last.seq.Cached()
	bs := g.h.set.BlockSize
	u.created = max(0, len(last.seq.Prompt)/bs*bs-u.cached)
	return u
}

// fail answers what start returned.
func (g *generation) fail(w http.ResponseWriter, err error) {
	e := g.h.asError(err)
	late := e.Status == http.StatusServiceUnavailable || e.Message[:min(len(e.Message), 8)] == "Grammar "
	if !g.common.Stream || !late {
		writeError(w, e)
		return
	}
	// The stream has begun by the time the engine refuses: status 200, the error as its first event.
	w.Header().Set("Content-Type", sseType)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(appendErrorEvent(nil, e), doneEvent...))
}

// asError turns what went wrong into an answer. Only its own errors and a full queue have texts for clients.
func (h *Handler) asError(err error) *request.Error {
	switch e := err.(type) { //nolint:errorlint // neither is ever wrapped
	case *request.Error:
		return e
	default:
		if err == engine.ErrBusy { //nolint:errorlint // a sentinel, returned as it is
			h.deps.Metrics.Rejected()
			return errBusy()
		}
		level := slog.LevelError
		if errors.Is(err, context.Canceled) { // the client has gone, which is its right
			level = slog.LevelDebug
		}
		h.deps.Log.Log(context.Background(), level, "request failed", "error", err)
		return &request.Error{Status: 500, Type: "InternalServerError", Message: "Internal server error"}
	}
}
