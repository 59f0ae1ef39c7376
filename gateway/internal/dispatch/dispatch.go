// Package dispatch brings one prompt to a worker and its answer back. It asks the scheduler for a target, calls the
// worker, tries another one while nothing of an answer has reached the client, and reports every attempt's end once.
package dispatch

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

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

// Config limits dispatching.
type Config struct {
	// Attempts is how many workers a request may be sent to, at least 1.
	Attempts int
	// StreamIdle is the longest silence between two reads of a stream; 0 does not bound it.
	StreamIdle time.Duration
	// BufferBytes is how much of a plain answer is read before its head goes out.
	BufferBytes int
	// MaxEventBytes bounds one event.
	MaxEventBytes int
	// SendIDs sends token ids along to workers that are proven to take them.
	SendIDs bool
	// Hedge asks a second worker when the first byte is late.
	Hedge Hedge
	// PerWorker bounds the calls that run at one worker; 0 does not. PlaceWait bounds the wait for room; 0 does not.
	PerWorker int
	PlaceWait time.Duration
	// Gateway is this process's name at the scheduler.
	Gateway string
}

// Dispatcher sends jobs. Its methods may be used concurrently.
type Dispatcher struct {
	cfg       Config
	scheduler schedulerv1.SchedulerServiceClient
	client    *wire.Client
	tel       *flight.Telemetry
	buffers   bufferPool
	drains    drains
	hedge     hedger
	places    *places
	stalls    stalls
}

// New makes a dispatcher. Wait must be called before its client is dropped.
func New(cfg Config, s schedulerv1.SchedulerServiceClient, c *wire.Client, t *flight.Telemetry) *Dispatcher {
	return &Dispatcher{
		cfg: cfg, scheduler: s, client: c, tel: t, hedge: hedger{cfg: cfg.Hedge, savings: 1}, places: newPlaces(cfg.PerWorker),
	}
}

// Wait blocks until no connection is being drained and nothing runs in the background.
func (d *Dispatcher) Wait() { d.drains.wait() }

// Background runs f in a goroutine that Wait waits for. f bounds itself.
func (d *Dispatcher) Background(f func()) { d.drains.wg.Go(f) }

// Job is one prompt's request to a worker.
type Job struct {
	// RequestID is the id of the receipt.
	RequestID string
	// Method and Path are the worker's.
	Method, Path string
	// Fields is encoded header lines for the worker.
	Fields []byte
	// Query is the client's body; nil for forms, whose bytes are Form.
	Query *openai.Request
	Form  []byte
	// Item is the index of the prompt in a list, -1 for a request with one.
	Item int
	// Model is what the request's model means.
	Model fleet.Model
	// Prompt is what the route depends on.
	Prompt *prompt.Prompt
	// Tenant is the caller's name.
	Tenant string
	// Stream tells whether events are wanted; HideUsage that the usage chunk was asked for by kvmesh alone.
	Stream, HideUsage bool
	// Generates tells that answers have choices and a usage.
	Generates bool
	// Patient tells that the worker may stand still over the call.
	Patient bool
	// Kind is why the job's attempts are made; Exclude is targets that none of them goes to.
	Kind    schedulerv1.AttemptKind
	Exclude []*schedulerv1.Target
}

// routeRequest is what the scheduler decides on.
func (j *Job) routeRequest(exclude []*schedulerv1.Target, attempt int) *schedulerv1.RouteRequest {
	r := &schedulerv1.RouteRequest{
		RequestId: j.RequestID, Model: j.Model.ID, UnitHashes: j.Prompt.Hashes, UnitTokens: j.Prompt.UnitTokens,
		PromptTokens: j.Prompt.Tokens, Tenant: j.Tenant, Exclude: exclude, Certainty: j.Prompt.Certainty,
		CertaintyReason: j.Prompt.Reason, Attempt: uint32(attempt), Sequences: 1,
		Kind: j.Kind,
	}
	if q := j.Query; q != nil {
		r.MaxOutputTokens, r.Priority, r.Sequences = uint32(q.MaxTokens), q.Priority, uint32(q.N)
		r.Session, r.SkipsReadingCache = q.Session, q.SkipsReadingCache()
	}
	return r
}

// RouteRequest is the request of the first attempt, for explaining.
func (j *Job) RouteRequest() *schedulerv1.RouteRequest { return j.routeRequest(nil, 0) }

// body is the worker's body for a target.
func (j *Job) body(r *schedulerv1.RouteResponse, sendIDs bool) [][]byte {
	if j.Query == nil {
		if len(j.Form) == 0 {
			return nil
		}
		return [][]byte{j.Form}
	}
	f := openai.Forward{Item: j.Item, AskUsage: j.HideUsage}
	if j.Model.Rename {
		f.Model = j.Model.ID
	}
	if sendIDs && r.GetTokenIdsMode() == workerv1.TokenIdsMode_TOKEN_IDS_MODE_KV_TRANSFER_PARAMS {
		f.TokenIDs = j.Prompt.IDs
	}
	return j.Query.Body(f)
}

// fields adds the target's lines.
func (j *Job) fields(r *schedulerv1.RouteResponse) []byte {
	if !r.GetSendRank() {
		return j.Fields
	}
	b := append(make([]byte, 0, len(j.Fields)+32), j.Fields...)
	b = append(b, "X-data-parallel-rank: "...)
	b = strconv.AppendUint(b, uint64(r.GetTarget().GetRank()), 10)
	return append(b, '\r', '\n')
}

// Open finds an answer worth relaying: a worker's success, or the last refusal when no other worker may be tried. The
// answer must be closed. Faults: those of the scheduler's Route, WORKER_FAILED, CANCELLED, DEADLINE_EXCEEDED.
func (d *Dispatcher) Open(ctx context.Context, j *Job) (*Answer, error) {
	var last *Answer
	var lastErr error
	exclude := slices.Clone(j.Exclude)
	for n := 1; n <= d.cfg.Attempts; n++ {
		r, err := d.route(ctx, j, exclude, n)
		if ctx.Err() != nil {
			if err == nil {
				newLease(ctx, d, r).Settle(Result{Outcome: schedulerv1.Outcome_OUTCOME_CANCELLED})
			}
			return nil, ended(ctx)
		}
		if err != nil {
			if n > 1 {
				break
			}
			return nil, fault.From(err)
		}
		if n == 1 {
			d.tel.Routed(certaintyWord(r.GetCertainty()), j.Prompt.Reason)
		}
		a, more, err := d.try(ctx, j, r, n)
		if ctx.Err() != nil && err != nil {
			return nil, ended(ctx)
		}
		switch {
		case err != nil:
			lastErr = err
		case !a.retryable:
			if d.cfg.Hedge.On() {
				d.hedge.observe(a.Lease.TTFT())
			}
			return a, nil
		default:
			last = a
		}
		exclude = append(exclude, r.GetTarget())
		if more != nil {
			exclude = append(exclude, more)
			n++
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, lastErr
}

// certaintyWord is the metric label of a certainty.
func certaintyWord(c schedulerv1.Certainty) string {
	switch c {
	case schedulerv1.Certainty_CERTAINTY_EXACT:
		return "exact"
	case schedulerv1.Certainty_CERTAINTY_DEGRADED:
		return "degraded"
	case schedulerv1.Certainty_CERTAINTY_FALLBACK:
		return "fallback"
	default:
		return "unknown"
	}
}

// ended is the fault of a context that is over.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(faultv1.Reason_REASON_DEADLINE_EXCEEDED, "The request's deadline passed before it was answered.")
	}
	return fault.New(faultv1.Reason_REASON_CANCELLED, "The client went away.")
}

// endedOutcome is how an attempt ended whose context is over.
const endedOutcome = schedulerv1.Outcome_OUTCOME_CANCELLED

// failed is the fault of a worker that gave no answer. It names no address.
func failed(err error) error {
	var we *wire.Error
	if errors.As(err, &we) && we.Phase == wire.PhaseConnect {
		return fault.Wrap(faultv1.Reason_REASON_NO_WORKER, err, "No worker could be reached; try again.").
			WithRetryAfter(time.Second)
	}
	return fault.Wrap(faultv1.Reason_REASON_WORKER_FAILED, err, "The worker did not give a complete answer.")
}

// retryableStatus tells whether another worker may answer better.
func retryableStatus(code int) bool {
	switch code {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// outcomeOf is how an answer with this status counts. Queue limits of vLLM come as 503 and are capacity, as is 429.
func outcomeOf(code int) schedulerv1.Outcome {
	switch {
	case code < 400:
		return schedulerv1.Outcome_OUTCOME_OK
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return schedulerv1.Outcome_OUTCOME_BUSY
	case code < 500, code == http.StatusNotImplemented:
		return schedulerv1.Outcome_OUTCOME_REJECTED
	}
	return schedulerv1.Outcome_OUTCOME_FAILED
}
