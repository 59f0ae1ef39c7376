package route

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// life is a rig with what the test itself knows of it: who holds what, and what is in flight.
type life struct {
	*rig
	r       *rand.Rand
	held    map[string]map[uint64]bool
	open    []*schedulerv1.RouteResponse
	prompts [][]uint64
}

func newLife(t *testing.T, seed uint64) *life {
	names := policy.Names()
	l := &life{
		rig: newRig(t, setup{policy: names[seed%uint64(len(names))]}), r: rand.New(rand.NewPCG(seed, 4)),
		held: map[string]map[uint64]bool{},
	}
	for i := range 2 + l.r.IntN(4) {
		id := fmt.Sprint("w", i)
		l.worker(id, func(c *workerv1.WorkerCard) { c.BlockTokens = uint32(16 << l.r.IntN(3)) })
		l.held[id] = map[uint64]bool{}
	}
	for i := range 4 {
		l.prompts = append(l.prompts, prompt(fmt.Sprint(i/2), 10+10*(i%2)+l.r.IntN(20)))
	}
	return l
}

// naiveHit is the confirmed hit of a prompt by the book: whole blocks, last token computed.
func (l *life) naiveHit(worker string, units []uint64, tokens int) int {
	n := 0
	for n < len(units) && l.held[worker][units[n]] {
		n++
	}
	block := int(l.fleet.View().Target(worker, 0).Card().GetBlockTokens())
	return min(n*16/block*block, (tokens-1)/block*block)
}

func (l *life) step() {
	p := l.prompts[l.r.IntN(len(l.prompts))]
	worker := fmt.Sprint("w", l.r.IntN(len(l.held)))
	l.clock.Advance(time.Duration(l.r.IntN(20)) * time.Millisecond)
	switch l.r.IntN(6) {
	case 0:
		part := p[:1+l.r.IntN(len(p))]
		l.store(worker, part)
		for _, u := range part {
			l.held[worker][u] = true
		}
	case 1:
		part := p[l.r.IntN(len(p)):]
		l.event(worker, 0, &eventv1.TierDelta{Tier: workerv1.Tier_TIER_GPU, Removed: part})
		for _, u := range part {
			delete(l.held[worker], u)
		}
	case 2, 3:
		l.open = append(l.open, l.checkedRoute(p))
	default:
		if len(l.open) == 0 {
			return
		}
		i := l.r.IntN(len(l.open))
		if l.r.IntN(2) == 0 {
			l.engine.Progress(&schedulerv1.ProgressRequest{Reservation: l.open[i].GetReservation()})
			return
		}
		l.end(l.open[i], []schedulerv1.Outcome{ok, rejected, schedulerv1.Outcome_OUTCOME_CANCELLED}[l.r.IntN(3)], -1)
		l.open = append(l.open[:i], l.open[i+1:]...)
	}
}

// checkedRoute explains, routes, and compares both with what the test knows.
func (l *life) checkedRoute(p []uint64) *schedulerv1.RouteResponse {
	req := ask(p)
	req.PromptTokens = uint32(len(p)*16 + l.r.IntN(16))
	receipt, err := l.engine.Explain(req)
	require.NoError(l.t, err)
	require.Len(l.t, receipt.GetCandidates(), len(l.held))
	for i, c := range receipt.GetCandidates() {
		confirmed := int(c.GetHitTokens() - c.GetExpectedHitTokens())
		require.Equal(l.t, l.naiveHit(c.GetTarget().GetWorkerId(), p, int(req.GetPromptTokens())), confirmed)
		if i > 0 {
			require.LessOrEqual(l.t, receipt.GetCandidates()[i-1].GetCost(), c.GetCost(), "best first")
		}
		sum := 0.0
		for _, term := range c.GetTerms() {
			sum += term.GetValue()
		}
		require.InDelta(l.t, c.GetCost(), sum, 1e-6*max(1, c.GetCost()), "terms add up to the cost")
	}
	resp := l.route(req)
	require.LessOrEqual(l.t, resp.GetPredictedHitTokens(), req.GetPromptTokens()-1)
	return resp
}

// TestDecisionsAgreeWithTheObviousModel: for every policy, hits are what the events say, costs are in order and add up,
// and in-flight counts are those of the open reservations.
func TestDecisionsAgreeWithTheObviousModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3 * len(policy.Names())) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			l := newLife(t, seed)
			for range 150 {
				l.step()
			}
			inflight := map[string]int{}
			for _, o := range l.open {
				inflight[o.GetTarget().GetWorkerId()]++
			}
			for worker := range l.held {
				requests, _ := l.fleet.View().Target(worker, 0).Inflight(l.clock.Now())
				require.Equal(t, inflight[worker], requests, worker)
			}
			for _, o := range l.open {
				l.end(o, ok, -1)
			}
			require.Zero(t, l.ledger.Open())
		})
	}
}
