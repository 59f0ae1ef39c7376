package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy/load"
)

var start = time.Unix(9000, 0)

// booked is a target that counts, on the real book.
type booked struct {
	book   *load.Ledger
	owners map[uint64]bool
	first  int
	units  int
}

func newBooked() *booked { return &booked{book: load.New(learn.Prior()), owners: map[uint64]bool{}} }

func (b *booked) Reserve(now time.Time, owner uint64, x Booking) load.Ticket {
	b.owners[owner] = true
	b.units += len(x.Units)
	return b.book.Dispatch(now.Sub(start), load.Entry{
		PromptTokens: x.PromptTokens, UncachedTokens: x.UncachedTokens, OutputTokens: x.OutputTokens,
	})
}

func (b *booked) First(now time.Time, t load.Ticket) {
	b.first++
	b.book.First(now.Sub(start), t)
}

func (b *booked) End(now time.Time, owner uint64, t load.Ticket, s load.Settle) {
	delete(b.owners, owner)
	b.book.End(now.Sub(start), t, s)
}

// quiet is a target whose worker says when it was idle.
type quiet struct {
	*booked
	since, until time.Time
}

func (q *quiet) Idle() (since, until time.Time) { return q.since, q.until }

// TestReservationsOfAKilledGatewayEnd: nobody settles them, and their worker has long had nothing to do.
func TestReservationsOfAKilledGatewayEnd(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	rows := []struct {
		name         string
		since, until time.Time
		ends         bool
	}{
		{"never said", time.Time{}, time.Time{}, false},
		{"idle from before the reservation", at(-100), at(60), false},
		{"idle for a moment", at(1), at(3), false},
		{"idle for long", at(1), at(4), true},
		{"idle from the same moment", start, at(60), false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler("s", 0)
			q := &quiet{booked: s.targets["a"], since: row.since, until: row.until}
			id := s.Reserve(start, q, Booking{Worker: "a", PromptTokens: 10, UncachedTokens: 10}, "gone")
			ended := s.Expire(at(60))
			require.Equal(t, row.ends, len(ended) == 1)
			_, open := s.Settle(at(61), id, load.Settle{})
			require.Equal(t, !row.ends, open, "a settle that comes late is none")
			require.Zero(t, q.book.Inflight())
		})
	}
}

// scheduler is a ledger with targets of its own, as a process has.
type scheduler struct {
	*Ledger[string]
	targets map[string]*booked
}

func newScheduler(name string, base uint64) *scheduler {
	s := &scheduler{targets: map[string]*booked{"a": newBooked(), "b": newBooked()}}
	s.Ledger = New[string](Config{MaxAge: time.Hour, PeerExpiry: 10 * time.Second}, name, base,
		func(worker string, _ uint32) Target {
			if t := s.targets[worker]; t != nil {
				return t
			}
			return nil
		})
	return s
}

func (s *scheduler) reserve(worker string, value string) uint64 {
	return s.Reserve(start, s.targets[worker], Booking{
		Worker: worker, PromptTokens: 100, UncachedTokens: 60, OutputTokens: 10, Units: []uint64{1, 2, 3},
	}, value)
}

func (s *scheduler) inflight() map[string]int {
	out := map[string]int{}
	for name, t := range s.targets {
		out[name] = t.book.Inflight()
	}
	return out
}

// meet makes two schedulers know each other.
func (s *scheduler) meet(t *testing.T, other *scheduler) {
	t.Helper()
	require.True(t, s.Peer(start, other.Full()))
	require.True(t, other.Peer(start, s.Take()))
	require.True(t, s.Peer(start, other.Take()))
}

// tell hands everything that waits to the other scheduler and returns whether all messages joined.
func (s *scheduler) tell(other *scheduler, now time.Time) bool {
	joined := true
	for d := s.Take(); d != nil; d = s.Take() {
		joined = other.Peer(now, d) && joined
	}
	return joined
}

func done() load.Settle { return load.Settle{CachedTokens: load.Unknown} }

func TestAReservationEndsOnce(t *testing.T) {
	t.Parallel()
	s := newScheduler("s", 1<<32)
	id := s.reserve("a", "mine")
	require.Equal(t, uint64(1<<32+1), id)
	require.Equal(t, map[string]int{"a": 1, "b": 0}, s.inflight())
	v, ok := s.First(start, id)
	require.True(t, ok)
	require.Equal(t, "mine", v)
	_, ok = s.First(start, id)
	require.False(t, ok, "a second first token")
	v, ok = s.Settle(start, id, done())
	require.True(t, ok)
	require.Equal(t, "mine", v)
	_, ok = s.Settle(start, id, done())
	require.False(t, ok)
	_, ok = s.First(start, id)
	require.False(t, ok)
	require.Equal(t, map[string]int{"a": 0, "b": 0}, s.inflight())
	require.Equal(t, 1, s.targets["a"].first)
	require.Empty(t, s.targets["a"].owners)
	require.Zero(t, s.Open())
}

func TestUnsettledReservationsExpire(t *testing.T) {
	t.Parallel()
	s := newScheduler("s", 0)
	s.reserve("a", "old")
	require.Empty(t, s.Expire(start.Add(time.Hour)))
	require.Equal(t, []string{"old"}, s.Expire(start.Add(time.Hour+1)))
	require.Equal(t, map[string]int{"a": 0, "b": 0}, s.inflight())
}

// TestReservationsEndWithTheirGateway: those of a gateway that says nothing more, however busy their worker is.
func TestReservationsEndWithTheirGateway(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	const lease = 5 * time.Second
	rows := []struct {
		name    string
		gateway string
		signs   []float64 // of the gateway g
		expire  float64
		ends    bool
	}{
		{"alive", "g", []float64{0, 2, 4}, 8, false},
		{"at the lease's very end", "g", []float64{0, 3}, 8, false},
		{"gone", "g", []float64{0, 2.9}, 8, true},
		{"of another gateway", "h", []float64{0}, 60, false},
		{"of nobody", "", []float64{0}, 60, false},
		{"never a sign", "g", nil, 60, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newScheduler("s", 0)
			for _, sign := range row.signs {
				s.Alive(at(sign), "g", lease)
			}
			b := Booking{Worker: "a", PromptTokens: 10, UncachedTokens: 10, Gateway: row.gateway}
			id := s.Reserve(start, s.targets["a"], b, "mine")
			require.Equal(t, row.ends, len(s.Expire(at(row.expire))) == 1)
			require.Empty(t, s.Expire(at(row.expire)), "once")
			_, open := s.Settle(at(row.expire), id, done())
			require.Equal(t, !row.ends, open)
			require.Equal(t, map[string]int{"a": 0, "b": 0}, s.inflight())
		})
	}
}

// TestLeasesEqualANaiveModel: reservations of gateways that come, say so for a while, fall silent and come back.
func TestLeasesEqualANaiveModel(t *testing.T) {
	t.Parallel()
	names := []string{"", "g", "h"}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		s, now := newScheduler("s", 0), start
		until, open := map[string]time.Time{}, map[uint64]string{}
		for range 200 {
			now = now.Add(time.Duration(r.IntN(1500)) * time.Millisecond)
			gateway := names[r.IntN(len(names))]
			switch r.IntN(4) {
			case 0:
				lease := time.Duration(1+r.IntN(8)) * time.Second
				s.Alive(now, gateway, lease)
				until[gateway] = now.Add(lease)
			case 1:
				id := s.Reserve(now, s.targets["a"], Booking{Worker: "a", Gateway: gateway}, gateway)
				open[id] = gateway
			case 2:
				if ids := slices.Sorted(maps.Keys(open)); len(ids) > 0 {
					id := ids[r.IntN(len(ids))]
					_, ok := s.Settle(now, id, done())
					require.True(t, ok, "seed %d", seed)
					delete(open, id)
				}
			default:
				want := 0
				for id, gateway := range open {
					if end, known := until[gateway]; known && now.After(end) {
						delete(open, id)
						want++
					}
				}
				for gateway, end := range until {
					if now.After(end) {
						delete(until, gateway)
					}
				}
				require.Len(t, s.Expire(now), want, "seed %d", seed)
			}
			require.Equal(t, len(open), s.Open(), "seed %d", seed)
			require.Equal(t, len(open), s.inflight()["a"], "seed %d", seed)
		}
	}
}

// TestGatewaysAreForgotten: names of processes that are gone take no room for long, and no more than a bound.
func TestGatewaysAreForgotten(t *testing.T) {
	t.Parallel()
	s := newScheduler("s", 0)
	for i := range 2 * maxGateways {
		s.Alive(start, fmt.Sprint(i), time.Second)
	}
	require.Len(t, s.gateways, maxGateways)
	s.Alive(start.Add(time.Minute), "0", time.Second)
	s.Expire(start.Add(time.Minute))
	require.Len(t, s.gateways, 1)
}

func TestPeersSeeEachOthersLoad(t *testing.T) {
	t.Parallel()
	one, two := newScheduler("one", 1<<32), newScheduler("two", 2<<32)
	one.meet(t, two)
	x, y := one.reserve("a", ""), one.reserve("b", "")
	require.NotEmpty(t, one.Dirty())
	require.True(t, one.tell(two, start))
	require.Equal(t, map[string]int{"a": 1, "b": 1}, two.inflight())
	require.Equal(t, 3, two.targets["a"].units, "peers expect the units too")
	one.First(start, x)
	one.Settle(start, y, done())
	require.True(t, one.tell(two, start))
	require.Equal(t, map[string]int{"a": 1, "b": 0}, two.inflight())
	require.Equal(t, 1, two.targets["a"].first)
	require.True(t, one.Peer(start, one.Bye()), "its own messages come back and mean nothing")
	require.Equal(t, map[string]int{"a": 1, "b": 0}, one.inflight())
	peers, theirs := two.Peers()
	require.Equal(t, 1, peers)
	require.Equal(t, 1, theirs)
}

func TestTheShareOfASilentPeerExpires(t *testing.T) {
	t.Parallel()
	one, two := newScheduler("one", 0), newScheduler("two", 0)
	one.meet(t, two)
	one.reserve("a", "")
	one.tell(two, start)
	two.Expire(start.Add(10 * time.Second))
	require.Equal(t, 1, two.inflight()["a"])
	two.Peer(start.Add(10*time.Second), one.Full()) // a sign of life
	two.Expire(start.Add(20 * time.Second))
	require.Equal(t, 1, two.inflight()["a"])
	two.Expire(start.Add(21 * time.Second))
	require.Zero(t, two.inflight()["a"])
}

func TestByeEndsAShareAtOnce(t *testing.T) {
	t.Parallel()
	one, two := newScheduler("one", 0), newScheduler("two", 0)
	one.meet(t, two)
	one.reserve("a", "")
	one.tell(two, start)
	require.Equal(t, 1, two.inflight()["a"])
	two.Peer(start, one.Bye())
	require.Zero(t, two.inflight()["a"])
	two.Peer(start, newScheduler("stranger", 0).Bye())
}

func TestUnknownTargetsOfPeersAreIgnored(t *testing.T) {
	t.Parallel()
	s := newScheduler("s", 0)
	s.Peer(start, &eventv1.InflightDelta{SchedulerId: "p", Seq: 1, Changes: []*eventv1.InflightChange{
		{Reservation: 1, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_RESERVED, WorkerId: "nobody"},
		{Reservation: 1, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_SETTLED},
		{Reservation: 2, Phase: eventv1.InflightPhase_INFLIGHT_PHASE_DECODING},
	}})
	require.Equal(t, map[string]int{"a": 0, "b": 0}, s.inflight())
}

// TestLostMessagesAreMendedByTheNextFullState runs two schedulers over a bus that loses, repeats and swaps messages: after
// one full state that arrives, both see the same load.
func TestLostMessagesAreMendedByTheNextFullState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		one, two := newScheduler("one", 0), newScheduler("two", 0)
		one.meet(t, two)
		var open []uint64
		lost := false
		for range 60 {
			switch n := len(open); {
			case n == 0 || r.IntN(2) == 0:
				open = append(open, one.reserve([]string{"a", "b"}[r.IntN(2)], ""))
			case r.IntN(3) == 0:
				one.First(start, open[r.IntN(n)])
			default:
				i := r.IntN(n)
				one.Settle(start, open[i], done())
				open = append(open[:i], open[i+1:]...)
			}
			if r.IntN(3) > 0 {
				continue
			}
			d := one.Take()
			if d == nil {
				continue
			}
			if r.IntN(4) == 0 {
				lost = true
				continue
			}
			joined := two.Peer(start, d)
			require.Equal(t, !lost, joined, "seed %d: a gap is seen, and only a gap", seed)
			lost = false
			if r.IntN(4) == 0 {
				two.Peer(start, d)
			}
		}
		require.True(t, two.Peer(start, one.Full()))
		require.Equal(t, one.inflight(), two.inflight(), "seed %d", seed)
		for _, id := range open {
			one.Settle(start, id, done())
		}
		one.tell(two, start)
		require.Equal(t, map[string]int{"a": 0, "b": 0}, two.inflight(), "seed %d", seed)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	t.Parallel()
	s := newScheduler("s", 0)
	s.meet(t, newScheduler("other", 0))
	for range maxBatch + 5 {
		s.reserve("a", "")
	}
	require.Len(t, s.Take().GetChanges(), maxBatch)
	require.Len(t, s.Take().GetChanges(), 5)
	require.Nil(t, s.Take())
	long := Booking{Worker: "a", Units: make([]uint64, MaxSharedUnits+1)}
	s.Reserve(start, s.targets["a"], long, "")
	require.Len(t, s.Take().GetChanges()[0].GetUnits(), MaxSharedUnits)
	require.Nil(t, s.Full().GetChanges()[0].GetUnits())
}

// TestAloneTellsNobody: nothing is gathered while there is no peer; one that appears is told everything at once.
func TestAloneTellsNobody(t *testing.T) {
	t.Parallel()
	one, two := newScheduler("one", 1<<32), newScheduler("two", 2<<32)
	x := one.reserve("a", "")
	gone := one.reserve("b", "")
	one.First(start, x)
	one.Settle(start, gone, done())
	require.Empty(t, one.Dirty())
	require.Nil(t, one.Take())

	one.Peer(start, two.Full())
	require.NotEmpty(t, one.Dirty())
	require.True(t, one.tell(two, start))
	require.Equal(t, one.inflight(), two.inflight())
	require.Equal(t, 3, two.targets["a"].units, "what is expected of reservations that were not told")
	require.Equal(t, 1, two.targets["a"].first)

	require.True(t, one.Peer(start, two.Bye()))
	<-one.Dirty()
	one.reserve("a", "")
	require.Nil(t, one.Take(), "alone again")
	require.Empty(t, one.Dirty())
}

// TestGreetingIsBounded leaves out units past the bound, never reservations.
func TestGreetingIsBounded(t *testing.T) {
	t.Parallel()
	one := newScheduler("one", 0)
	const n = 2*greetUnits/MaxSharedUnits + 1
	for range n {
		one.Reserve(start, one.targets["a"], Booking{Worker: "a", Units: make([]uint64, MaxSharedUnits+1)}, "")
	}
	one.Peer(start, newScheduler("two", 0).Full())
	d := one.Take()
	require.True(t, d.GetFull())
	require.Len(t, d.GetChanges(), n)
	units := 0
	for _, c := range d.GetChanges() {
		units += len(c.GetUnits())
	}
	require.Equal(t, greetUnits/MaxSharedUnits*MaxSharedUnits, units)
}
