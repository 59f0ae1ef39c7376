package route

import (
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/receipt"
)

// record makes the receipt of the decision as it stands.
func (e *Engine) record(d *decision, chosen *fleet.Target, began time.Time) *receipt.Record {
	r := &receipt.Record{
		RequestID: d.req.GetRequestId(), Time: d.now, Model: d.req.GetModel(), Attempt: max(1, d.req.GetAttempt()),
		Kind:         d.req.GetKind(),
		PromptTokens: uint32(d.asked.PromptTokens), Units: uint32(len(d.units)), Policy: e.p.Policy.Name(),
		Terms: d.ranking.Terms, Chosen: chosen != nil, QueuedMS: uint32(d.now.Sub(began).Milliseconds()),
	}
	kept := d.ranking.Scored[:min(len(d.ranking.Scored), e.cfg.MaxCandidates)]
	r.Candidates = make([]receipt.Candidate, len(kept))
	for i := range kept {
		d.candidate(&kept[i], &r.Candidates[i])
	}
	for i := range d.views {
		if bar := policy.Eligible(&d.asked, &d.views[i]); bar != policy.NotBarred && len(r.Excluded) < e.cfg.MaxCandidates {
			r.Excluded = append(r.Excluded, receipt.Excluded{Key: d.pool.Targets[i].Key, Reason: d.barText(i, bar)})
		}
	}
	r.Certainty, r.Reason = schedulerv1.Certainty_CERTAINTY_FALLBACK, "no candidate"
	if chosen != nil {
		best := &r.Candidates[0]
		r.Certainty, r.CertaintyReason, r.PredictedTokens = best.Certainty, best.CertaintyReason, best.HitTokens
		r.Reason = d.ranking.Why()
	}
	return r
}

func (d *decision) candidate(s *policy.Scored, c *receipt.Candidate) {
	v, a := &d.views[s.Target], &d.about[s.Target]
	*c = receipt.Candidate{
		Key: d.pool.Targets[s.Target].Key, HitTokens: uint32(v.HitTokens), ExpectedTokens: uint32(a.expected),
		QueuedTokens: uint32(max(0, v.PrefillQueuedTokens)), Inflight: uint32(max(0, v.Inflight)),
		Waiting: uint32(max(0, v.Waiting)), KVUse: v.KVUse, Cost: s.Cost, Terms: s.Terms,
		Certainty: wire(v.Certainty), CertaintyReason: a.why,
	}
}

func (d *decision) barText(i int, bar policy.Bar) string {
	if text := d.about[i].bar; text != "" {
		return text
	}
	if bar == policy.BarCapacity {
		return "prompt larger than its cache"
	}
	return bar.String()
}

func wire(c policy.Certainty) schedulerv1.Certainty {
	switch c {
	case policy.Exact:
		return schedulerv1.Certainty_CERTAINTY_EXACT
	case policy.Degraded:
		return schedulerv1.Certainty_CERTAINTY_DEGRADED
	default:
		return schedulerv1.Certainty_CERTAINTY_FALLBACK
	}
}
