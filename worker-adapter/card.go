package workeradapter

import (
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// lifeNames are for logs.
var lifeNames = [...]string{vllm.Starting: "starting", vllm.Ready: "ready", vllm.Asleep: "asleep", vllm.Sick: "sick"}

// makeCard is the card as of now.
func (s *Service) makeCard() *workerv1.WorkerCard {
	s.mu.Lock()
	v, draining, findings := s.view, s.draining, s.findings
	s.mu.Unlock()
	c := &workerv1.WorkerCard{
		WorkerId: s.cfg.ID, HttpUrl: s.cfg.PublicURL, AdapterAddress: s.cfg.Advertise,
		Version: v.Version, BlockTokens: v.Metrics.BlockTokens, GpuBlocks: v.Metrics.GPUBlocks,
		AdapterEpoch: s.epoch, Updated: timestamppb.New(s.clock()), MaxSequences: v.MaxSequences,
		Simulated: strings.Contains(v.Version, "simulated"), Parity: findings.Results,
		Capabilities: &workerv1.Capabilities{CachedTokens: findings.CachedTokens, RuntimeLora: v.RuntimeLoRA},
	}
	if findings.TokenIDs && s.cfg.Parity.TokenIDs != EventsOff {
		c.Capabilities.TokenIdsMode = workerv1.TokenIdsMode_TOKEN_IDS_MODE_KV_TRANSFER_PARAMS
	}
	base, _ := vllm.Base(v.Models)
	c.Models, c.MaxModelTokens = served(v.Models, base.ID), base.MaxTokens
	c.State, c.StateDetail = stateOf(&v, draining)
	c.EventState, c.EventDetail = s.follow.eventState()
	if v.Life == vllm.Starting && s.follow.deaf() {
		c.EventDetail = "the worker does not answer, and neither does its publisher: both are tried again"
	}
	s.fillLoads(c, &v)
	return c
}

// served is the worker's list of models. An engine has one model: what has no parent is a name of it (--served-model-name takes
// several), and it is every adapter's parent, whatever the base_model_name of --lora-modules calls it.
func served(models []vllm.Model, base string) (out []*workerv1.ServedModel) {
	for _, m := range models {
		s := &workerv1.ServedModel{Id: m.ID, Root: m.Root, EntryJson: m.Raw}
		switch {
		case m.Parent != "" && base != "":
			s.Parent = base
		case m.Parent != "":
			s.Parent = m.Parent
		case m.ID != base:
			s.AliasOf = base
		}
		out = append(out, s)
	}
	return out
}

// stateOf is the worker's life, with a drain on top of it.
func stateOf(v *vllm.View, draining string) (workerv1.WorkerState, string) {
	switch v.Life {
	case vllm.Ready:
		if draining != "" {
			return workerv1.WorkerState_WORKER_STATE_DRAINING, draining
		}
		return workerv1.WorkerState_WORKER_STATE_READY, v.Detail
	case vllm.Asleep:
		return workerv1.WorkerState_WORKER_STATE_ASLEEP, v.Detail
	case vllm.Sick:
		return workerv1.WorkerState_WORKER_STATE_SICK, v.Detail
	}
	return workerv1.WorkerState_WORKER_STATE_STARTING, v.Detail
}

// fillLoads writes the ranks' loads, and the block size from events where the worker's metrics do not tell it.
func (s *Service) fillLoads(c *workerv1.WorkerCard, v *vllm.View) {
	age := s.clock().Sub(v.MetricsAt)
	for _, r := range v.Metrics.Ranks {
		c.Loads = append(c.Loads, &workerv1.RankLoad{
			Running: r.Running, Waiting: r.Waiting, KvUse: r.KVUse, AgeMs: uint32(min(age, time.Hour).Milliseconds()),
		})
	}
	streams := s.follow.all()
	c.Ranks = uint32(max(1, len(v.Metrics.Ranks), len(streams)))
	if c.BlockTokens == 0 && len(streams) > 0 {
		c.BlockTokens = uint32(streams[0].Status().Mirror.BlockTokens)
	}
}
