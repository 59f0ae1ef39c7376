package fleet

import (
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// HasEvents reports whether the worker's events reach the index at all.
func (t *Target) HasEvents() bool {
	if t.Stream == nil {
		return false
	}
	switch t.Card().GetEventState() {
	case workerv1.EventState_EVENT_STATE_OFF, workerv1.EventState_EVENT_STATE_SILENT:
		return false
	default:
		return true
	}
}

// Certainty says how far the index can be trusted for this target, and why not further.
func (t *Target) Certainty(now time.Time) (policy.Certainty, string) {
	if t.Stream == nil {
		return policy.Fallback, "index full"
	}
	switch t.Card().GetEventState() {
	case workerv1.EventState_EVENT_STATE_OFF:
		return policy.Fallback, "events off"
	case workerv1.EventState_EVENT_STATE_SILENT:
		return policy.Fallback, "events silent"
	case workerv1.EventState_EVENT_STATE_HYBRID:
		if !t.Stream.Hybrid() { // a cache group's rule is not known: nothing is claimed
			return policy.Degraded, "hybrid cache"
		}
	case workerv1.EventState_EVENT_STATE_CATCHING_UP:
		return policy.Degraded, "worker gap"
	}
	switch t.Stream.State() {
	case feed.Empty:
		return policy.Degraded, "no snapshot yet"
	case feed.Mending:
		return policy.Degraded, "gap"
	}
	heard, ok := t.Stream.Heard()
	switch {
	case ok && now.Sub(heard) > t.fleet.cfg.LateAfter:
		return policy.Degraded, "events late"
	case t.Stream.Bounded():
		return policy.Degraded, "index full"
	case t.Drift.High():
		return policy.Degraded, "drift"
	case t.differs():
		return policy.Degraded, "parity"
	}
	return policy.Exact, ""
}

// differs reports whether the adapter has seen kvmesh's prompts differ from the worker's own, in any feature: a
// request does not say which of them it uses. What was never compared is trusted.
func (t *Target) differs() bool {
	for _, r := range t.Card().GetParity() {
		if r.GetState() == workerv1.ParityState_PARITY_STATE_DIFFERS {
			return true
		}
	}
	return false
}

// Drift compares predicted with reported hits. It forgets with a weight of one in driftWindow requests.
type Drift struct {
	mu        sync.Mutex
	phantom   float64 // tokens predicted and not served, recent mean
	predicted float64
	samples   int
}

const (
	driftWindow = 32
	driftShare  = 0.05 // of predicted tokens: fifty times the goal for phantom hits
	driftLeast  = 8    // requests before anything is concluded
)

// Observe takes one request's predicted and actual hit tokens.
func (d *Drift) Observe(predicted, actual int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.samples++
	d.phantom += (float64(max(0, predicted-actual)) - d.phantom) / driftWindow
	d.predicted += (float64(predicted) - d.predicted) / driftWindow
}

// Forget begins anew: what the predictions were made by has changed.
func (d *Drift) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.phantom, d.predicted, d.samples = 0, 0, 0
}

// High reports whether predictions promise more than the worker serves.
func (d *Drift) High() bool { return d.Share() > driftShare }

// Share is the recent share of predicted tokens that was not served.
func (d *Drift) Share() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.samples < driftLeast || d.predicted < 1 {
		return 0
	}
	return d.phantom / d.predicted
}
