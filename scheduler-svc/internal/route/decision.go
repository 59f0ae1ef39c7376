package route

import (
	"slices"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/fleet"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// decision is the working memory of one choice. It is reused, so that a choice allocates little.
type decision struct {
	req   *schedulerv1.RouteRequest
	units []uint64
	pool  *fleet.Pool
	now   time.Time
	asked policy.Request

	walk    index.Walk
	views   []policy.View
	about   []about
	ranking policy.Ranking
}

// about is what a receipt wants of a view beyond the view itself.
type about struct {
	confirmed int    // units
	expected  int    // tokens of the hit that are only expected
	held      int    // tokens in whole blocks, of which the hit may be a block less
	why       string // why the certainty is not EXACT
	bar       string // why the target is barred
}

// prepare sets the request up. Units past MaxUnits are ignored: the hit is then predicted too short, never too long.
func (e *Engine) prepare(d *decision, req *schedulerv1.RouteRequest, pool *fleet.Pool) {
	d.req, d.pool = req, pool
	d.units = req.GetUnitHashes()[:min(len(req.GetUnitHashes()), e.cfg.MaxUnits)]
	d.asked = policy.Request{
		PromptTokens: max(1, int(req.GetPromptTokens())),
		Priority:     int(req.GetPriority()),
		NeedsLoRA:    pool.Parent != "",
		Seed:         e.nextSeed(),
	}
	d.asked.OutputTokensExpected = e.outputs.expect(req.GetModel(), int(req.GetMaxOutputTokens()))
	if n := len(d.units); n > 0 {
		d.asked.Key = d.units[min(n, keyUnits)-1]
	}
}

// keyUnits is the length of the prefix that consistent hashing goes by: 128 tokens.
const keyUnits = 8

func (e *Engine) nextSeed() uint64 {
	x := e.seed + e.serial.Add(1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// look finds what every target holds and whether it may take the request. It takes no lock that others wait for.
func (e *Engine) look(d *decision, now time.Time) {
	d.now = now
	e.p.Index.Walk(d.units, &d.walk)
	n := len(d.pool.Targets)
	d.views = slices.Grow(d.views[:0], n)[:n]
	d.about = slices.Grow(d.about[:0], n)[:n]
	home, homed := e.sessions.home(d.req)
	for i, t := range d.pool.Targets {
		v := &d.views[i]
		*v = policy.View{Target: i, ID: t.ID, LoRALoaded: true, SessionHome: homed && home == t.Key}
		d.about[i] = about{}
		e.hit(d, i, t)
	}
}

// hit sets the predicted hit of a target: confirmed units, then those that requests in flight will add, cut to whole
// blocks of the worker and to what the last-token rule allows.
func (e *Engine) hit(d *decision, i int, t *fleet.Target) {
	v, a := &d.views[i], &d.about[i]
	v.Certainty, a.why = t.Certainty(d.now)
	switch asked := d.req.GetCertainty(); {
	case asked == schedulerv1.Certainty_CERTAINTY_FALLBACK:
		v.Certainty, a.why = policy.Fallback, d.req.GetCertaintyReason()
	case asked == schedulerv1.Certainty_CERTAINTY_DEGRADED && v.Certainty == policy.Exact:
		v.Certainty, a.why = policy.Degraded, d.req.GetCertaintyReason()
	}
	unit := unitTokens(d.req)
	block := int(t.Card().GetBlockTokens())
	if block == 0 {
		block = unit
	}
	if block%unit != 0 {
		return // hashed at another worker's block size
	}
	var h index.Hit
	if t.Stream != nil && t.HasEvents() {
		h = d.walk.Hit(t.Stream.Number())
	}
	limit := kvblock.HitLimit(d.asked.PromptTokens, block)
	var units int
	if t.Stream != nil && t.Stream.Hybrid() {
		h, units = d.hybridHit(t, h, hybridBounds{units: limit / unit, step: block / unit})
	} else {
		units = h.Units + t.Expect.Extend(d.units[h.Units:], d.now)
	}
	a.confirmed = h.Units
	if d.req.GetSkipsReadingCache() {
		return
	}
	a.held = min(units*unit/block*block, limit)
	v.HitTokens = max(0, a.held-t.Withheld.Blocks()*block)
	v.SlowerHit = min(h.Slow*unit, v.HitTokens)
	a.expected = max(0, v.HitTokens-min(h.Units*unit/block*block, limit))
}

// hybridBounds are the longest hit that the last-token rule allows and the size of a block, in units.
type hybridBounds struct{ units, step int }

// hybridHit cuts a hybrid worker's hit to its deepest boundary within the bounds, since what is held beyond it cannot be
// hit, and returns where the hit will end once requests in flight are done.
func (d *decision) hybridHit(t *fleet.Target, h index.Hit, b hybridBounds) (now index.Hit, then int) {
	limit := min(len(d.units), b.units)
	end := t.Stream.Reach(d.units[:min(h.Units, limit)], b.step)
	then = end + t.Expect.ExtendWhole(d.units[end:limit], b.step, d.now)
	return index.Hit{Units: end, Slow: min(h.Slow, end)}, then
}

func unitTokens(req *schedulerv1.RouteRequest) int {
	if n := int(req.GetUnitTokens()); n > 0 {
		return n
	}
	return kvblock.UnitTokens
}

// weigh fills the loads and bars and ranks. The decide lock is held when the result is to be booked.
func (e *Engine) weigh(d *decision) {
	for i, t := range d.pool.Targets {
		d.views[i].Bar, d.about[i].bar = e.bar(d, t)
		t.Fill(d.now, d.asked.PromptTokens, &d.views[i])
		if d.tooLong(t) { // nor may the size of its cache bar it
			d.views[i].KVCapacityTokens = 0
		}
	}
	e.p.Policy.Rank(&d.asked, d.views, &d.ranking)
}

// bar says why a target cannot take the request now.
func (e *Engine) bar(d *decision, t *fleet.Target) (policy.Bar, string) {
	card := t.Card()
	switch card.GetState() {
	case workerv1.WorkerState_WORKER_STATE_READY:
	case workerv1.WorkerState_WORKER_STATE_DRAINING:
		return policy.BarDraining, "draining"
	case workerv1.WorkerState_WORKER_STATE_ASLEEP:
		return policy.BarHealth, "asleep"
	case workerv1.WorkerState_WORKER_STATE_SICK:
		return policy.BarHealth, "sick"
	default:
		return policy.BarHealth, "starting"
	}
	for _, x := range d.req.GetExclude() {
		if x.GetWorkerId() == t.Key.Worker && x.GetRank() == t.Key.Rank {
			return policy.BarExcluded, "failed this request before"
		}
	}
	if !t.Breaker.Allows(d.now) {
		return policy.BarHealth, "breaker open"
	}
	if d.tooLong(t) {
		return policy.NotBarred, ""
	}
	if t.Full(d.now) {
		return policy.BarCapacity, "at capacity"
	}
	return policy.NotBarred, ""
}

// tooLong reports whether the worker refuses the prompt with a 400 of its own, which the client is to see: any worker
// will do.
func (d *decision) tooLong(t *fleet.Target) bool {
	longest := int(t.Card().GetMaxModelTokens())
	return longest > 0 && d.asked.PromptTokens > longest
}

// saturated reports whether a target could take the request if it were not full.
func (d *decision) saturated() bool {
	for i := range d.views {
		if d.views[i].Bar == policy.BarCapacity {
			return true
		}
	}
	return false
}

// narrow reports whether the last attempt was kept from targets that others of the model may have.
func (d *decision) narrow() bool {
	return len(d.req.GetExclude()) > 0 || slices.ContainsFunc(d.views, func(v policy.View) bool {
		return v.KVCapacityTokens > 0 && v.KVCapacityTokens <= d.asked.PromptTokens
	})
}

// done drops what the decision points to, before it goes back to the pool.
func (d *decision) done() { d.req, d.units, d.pool = nil, nil, nil }
