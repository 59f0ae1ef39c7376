package receipt

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
)

// Proto returns the receipt as callers see it.
func (r *Record) Proto() *schedulerv1.Receipt {
	out := &schedulerv1.Receipt{
		RequestId: r.RequestID, Time: timestamppb.New(r.Time), Model: r.Model, Attempt: r.Attempt, Kind: r.Kind,
		PromptTokens: r.PromptTokens, Units: r.Units, Policy: r.Policy, Reason: r.Reason,
		Certainty: r.Certainty, CertaintyReason: r.CertaintyReason,
		PredictedHitTokens: r.PredictedTokens, QueuedMs: r.QueuedMS,
		Outcome: r.Result.Outcome, TtftUs: r.Result.TTFTUS, OutputTokens: r.Result.OutputTokens,
	}
	if r.Result.HasActual {
		out.ActualHitTokens = proto.Uint32(r.Result.ActualTokens)
	}
	for i := range r.Candidates {
		out.Candidates = append(out.Candidates, r.Candidates[i].proto(r.Terms))
	}
	for _, e := range r.Excluded {
		out.Excluded = append(out.Excluded, &schedulerv1.Excluded{Target: TargetProto(e.Key), Reason: e.Reason})
	}
	if r.Chosen {
		out.Chosen = TargetProto(r.Candidates[0].Key)
	}
	return out
}

func (c *Candidate) proto(terms []string) *schedulerv1.Candidate {
	out := &schedulerv1.Candidate{
		Target: TargetProto(c.Key), HitTokens: c.HitTokens, ExpectedHitTokens: c.ExpectedTokens,
		QueuedTokens: c.QueuedTokens, Inflight: c.Inflight, Cost: c.Cost, Certainty: c.Certainty,
		Waiting: c.Waiting, KvUse: c.KVUse,
	}
	for i, name := range terms {
		out.Terms = append(out.Terms, &schedulerv1.CostTerm{Name: name, Value: c.Terms[i]})
	}
	return out
}

// TargetProto is the wire form of a key.
func TargetProto(k feed.Key) *schedulerv1.Target {
	return &schedulerv1.Target{WorkerId: k.Worker, Rank: k.Rank}
}
