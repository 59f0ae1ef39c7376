// Package flight keeps what is known about one request from its first byte to its end, and turns it into one log line
// and the gateway's metrics. Nothing of a prompt or a secret enters a record.
package flight

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Record is one request's life. It has one owner at a time; prompts that run in parallel report through Add.
type Record struct {
	// ID is the request's id, in and out.
	ID string
	// Operation is the route's fixed name, a metric label.
	Operation string
	// Start is when the request's head was read.
	Start time.Time
	// Tenant is the name of the caller's key, empty without keys.
	Tenant string
	// Model is the name as resolved, empty before.
	Model string
	// Stream tells whether events were asked for.
	Stream bool
	// Status is the HTTP status that went out, 499 when nobody was there to take it.
	Status int
	// Reason names the fault, empty for answers of workers.
	Reason string
	// Cause is the inner error of a fault, for the log alone.
	Cause error
	// BytesIn is the size of the request body.
	BytesIn int

	mu sync.Mutex
	Counts
}

// Counts are what one attempt or prompt adds to a record.
type Counts struct {
	// Worker and Rank served the request, the last one of several.
	Worker string
	Rank   uint32
	// Policy, Certainty are of the last route.
	Policy, Certainty, CertaintyReason string
	// Attempts is how many workers were tried; Prompts how many prompts the request held.
	Attempts, Prompts int
	// PromptTokens, PredictedTokens, CachedTokens, OutputTokens are summed over prompts. CachedTokens is -1 while unknown.
	PromptTokens, PredictedTokens, CachedTokens, OutputTokens int64
	// Events is how many events were relayed.
	Events int64
	// Prepare, Queued, Held, TTFT are durations; the longest of several prompts. Queued is the wait for a place of the
	// gateway, Held the wait in the scheduler's queue while every worker was full.
	Prepare, Queued, Held, TTFT time.Duration
}

// Probe is the operation of health and readiness paths.
const Probe = "probe"

type key struct{}

// With puts a record into a context.
func With(ctx context.Context, r *Record) context.Context { return context.WithValue(ctx, key{}, r) }

// From is the context's record, nil without one.
func From(ctx context.Context) *Record {
	r, _ := ctx.Value(key{}).(*Record)
	return r
}

// Add reports one prompt's counts.
func (r *Record) Add(c Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Worker != "" {
		r.Worker, r.Rank, r.Policy = c.Worker, c.Rank, c.Policy
		r.Certainty, r.CertaintyReason = c.Certainty, c.CertaintyReason
	}
	r.Attempts += c.Attempts
	r.Prompts++
	r.PromptTokens += c.PromptTokens
	r.PredictedTokens += c.PredictedTokens
	r.CachedTokens += c.CachedTokens
	r.OutputTokens += c.OutputTokens
	r.Events += c.Events
	r.Prepare = max(r.Prepare, c.Prepare)
	r.Queued = max(r.Queued, c.Queued)
	r.Held = max(r.Held, c.Held)
	r.TTFT = max(r.TTFT, c.TTFT)
}

// log writes the request's line. What is as usual (one attempt, one prompt, rank 0, no queue) is left out.
func (r *Record) log(log *slog.Logger, now time.Time) {
	level := slog.LevelInfo
	switch {
	case r.Operation == Probe:
		level = slog.LevelDebug // probes come every second
	case r.Status >= 500:
		level = slog.LevelWarn
	}
	if !log.Enabled(context.Background(), level) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	attrs := make([]slog.Attr, 0, 24)
	unless := func(name string, v, usual int64) {
		if v != usual {
			attrs = append(attrs, slog.Int64(name, v))
		}
	}
	attrs = append(attrs,
		slog.String("request_id", r.ID), slog.String("operation", r.Operation), slog.Int("status", r.Status),
		slog.String("model", r.Model), slog.Bool("stream", r.Stream), slog.Int("bytes_in", r.BytesIn),
		slog.Float64("duration_ms", ms(now.Sub(r.Start))))
	if r.Tenant != "" {
		attrs = append(attrs, slog.String("tenant", r.Tenant))
	}
	if r.Worker != "" {
		attrs = append(attrs,
			slog.String("worker", r.Worker), slog.String("policy", r.Policy), slog.String("certainty", r.Certainty),
			slog.Int64("prompt_tokens", r.PromptTokens), slog.Int64("predicted_hit_tokens", r.PredictedTokens),
			slog.Int64("cached_tokens", r.CachedTokens), slog.Int64("output_tokens", r.OutputTokens),
			slog.Float64("prepare_ms", ms(r.Prepare)), slog.Float64("ttft_ms", ms(r.TTFT)))
		unless("rank", int64(r.Rank), 0)
		unless("attempts", int64(r.Attempts), 1)
		unless("prompts", int64(r.Prompts), 1)
		unless("queued_ms", r.Queued.Milliseconds(), 0)
		unless("scheduler_queued_ms", r.Held.Milliseconds(), 0)
	}
	if r.CertaintyReason != "" {
		attrs = append(attrs, slog.String("certainty_reason", r.CertaintyReason))
	}
	if r.Reason != "" {
		attrs = append(attrs, slog.String("fault", r.Reason))
	}
	if r.Cause != nil {
		attrs = append(attrs, slog.String("cause", r.Cause.Error()))
	}
	// Without the place in the source, which no handler prints and which costs a walk over the stack.
	line := slog.NewRecord(now, level, "request", 0)
	line.AddAttrs(attrs...)
	_ = log.Handler().Handle(context.Background(), line)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
