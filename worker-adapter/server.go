package workeradapter

import (
	"context"
	"time"

	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// server answers WorkerService.
type server struct {
	workerv1.UnimplementedWorkerServiceServer
	svc *Service
}

// Snapshot streams what a rank holds. It is refused while nothing was ever heard of the rank: a list that is empty for
// want of knowledge must not be taken for an empty cache.
func (s server) Snapshot(
	req *workerv1.SnapshotRequest, out grpc.ServerStreamingServer[workerv1.SnapshotResponse],
) error {
	if req.GetWorkerId() != s.svc.cfg.ID {
		return fault.New(faultv1.Reason_REASON_NOT_FOUND, "this adapter serves worker %q", s.svc.cfg.ID)
	}
	streams := s.svc.follow.all()
	if len(streams) == 0 {
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "worker %q has no event stream", s.svc.cfg.ID).
			WithRetryAfter(time.Second)
	}
	rs := s.svc.follow.rank(req.GetRank())
	if rs == nil {
		return fault.New(faultv1.Reason_REASON_NOT_FOUND, "worker %q has %d ranks", s.svc.cfg.ID, len(streams))
	}
	s.svc.metrics.snapshots.Inc()
	return rs.Snapshot().Parts(out.Send)
}

// GetCard answers with the card as it would be published now.
func (s server) GetCard(context.Context, *workerv1.GetCardRequest) (*workerv1.GetCardResponse, error) {
	return &workerv1.GetCardResponse{Card: s.svc.makeCard()}, nil
}

// Drain takes the worker out of routing and waits for its requests, or puts it back.
func (s server) Drain(ctx context.Context, req *workerv1.DrainRequest) (*workerv1.DrainResponse, error) {
	if req.GetResume() {
		s.svc.setDraining("")
		return &workerv1.DrainResponse{Running: s.svc.running()}, nil
	}
	s.svc.setDraining("drained by request")
	t := time.NewTicker(s.svc.cfg.PollBusy)
	defer t.Stop()
	// The gateway stops sending when it sees the card; until then running may still be 0. Two polls are waited for.
	for idle := 0; idle < 2; {
		select {
		case <-ctx.Done():
			return &workerv1.DrainResponse{Running: s.svc.running()}, nil
		case <-t.C:
			if idle++; s.svc.running() > 0 {
				idle = 0
			}
		}
	}
	return &workerv1.DrainResponse{}, nil
}

// setDraining starts or ends a drain and publishes it at once.
func (s *Service) setDraining(why string) {
	s.mu.Lock()
	s.draining = why
	s.mu.Unlock()
	s.nudge()
}

// running is the number of requests that the worker has, waiting ones included. A worker that does not answer has none.
func (s *Service) running() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view.Life != vllm.Ready && s.view.Life != vllm.Asleep {
		return 0
	}
	n := uint32(0)
	for _, r := range s.view.Metrics.Ranks {
		n += r.Running + r.Waiting
	}
	return n
}

// leave takes the worker out of routing at shutdown: draining first, then the lease. Whoever stops vLLM does so after
// this adapter has ended.
func (s *Service) leave(work context.Context, w *vllm.Watcher) {
	ctx, cancel := context.WithTimeout(work, s.cfg.DrainTimeout)
	defer cancel()
	s.setDraining("its adapter shuts down")
	for idle := 0; idle < 2 && ctx.Err() == nil; idle++ {
		s.step(ctx, work, w)
		if s.running() > 0 {
			idle = -1
		}
		s.pauseFor(ctx, s.cfg.PollBusy)
	}
	if n := s.running(); n > 0 {
		s.log.Warn("drain timed out", "running", n)
	}
}

// withdraw gives the lease back. No card is published after it.
func (s *Service) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*putTimeout)
	defer cancel()
	if err := s.deps.Bus.DeleteCard(ctx, s.cfg.ID); err != nil {
		s.log.Warn("card not withdrawn: its lease ends by itself", "error", err)
	}
}

// pauseFor waits.
func (s *Service) pauseFor(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
