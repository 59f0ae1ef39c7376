package feed

import (
	"slices"
	"time"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
)

// mend makes the stream want a snapshot. The first ask is sent at once; one that follows a failure waits.
func (s *stream) mend(now time.Time, cause Cause) {
	if s.State() == Live {
		s.state.Store(uint32(Mending))
	}
	if s.attempt != 0 {
		return // what its answer does not cover leaves a gap behind it, and the gap mends again
	}
	s.machine.hooks.Counts.Mends[cause].Add(1)
	if s.machine.hooks.Mend != nil {
		s.machine.hooks.Mend(s.key, cause)
	}
	if now.Before(s.retryAt) {
		return
	}
	s.ask(now)
}

func (s *stream) ask(now time.Time) {
	s.attempt = s.machine.nextAttempt()
	s.asked = now
	s.machine.hooks.Ask(Ask{Key: s.key, Attempt: s.attempt, Address: s.address, Load: s.holder.Replace()})
}

// tick gives up an ask without an answer and repeats one that is due.
func (s *stream) tick(now time.Time) {
	if s.attempt != 0 && now.Sub(s.asked) > s.machine.limits.AskTimeout {
		s.failed(now)
	}
	if s.State() != Live && s.attempt == 0 && !now.Before(s.retryAt) {
		s.ask(now)
	}
}

// failed ends an ask without success.
func (s *stream) failed(now time.Time) {
	s.machine.hooks.Counts.Failures.Add(1)
	s.attempt = 0
	s.wait(now)
}

// wait sets the moment before which no further ask is sent.
func (s *stream) wait(now time.Time) {
	l := s.machine.limits
	s.backoff = min(max(2*s.backoff, l.RetryMin), l.RetryMax)
	s.retryAt = now.Add(s.backoff)
}

// snapshot takes the answer to the stream's own ask.
func (s *stream) snapshot(now time.Time, ask Ask, a Answer) {
	if a.Err != nil || ask.Load.Lost() == 0 && ask.Load.Digest() != a.Digest {
		ask.Load.Abort()
		s.failed(now)
		return
	}
	s.attempt = 0
	if a.Epoch < s.newest { // made before the stream began anew
		ask.Load.Abort()
		s.repeat(now)
		return
	}
	if a.Epoch > s.newest {
		s.forgetOlder(a.Epoch)
		s.newest = a.Epoch
	}
	ask.Load.Commit()
	s.heardNS.Store(now.UnixNano()) // its adapter has just told all that there is
	s.epoch.Store(a.Epoch)
	s.seq.Store(a.Seq)
	s.machine.hooks.Counts.Snapshots.Add(1)
	joined := s.replay()
	s.changed()
	if !joined {
		s.state.Store(uint32(Mending))
		s.repeat(now)
		return
	}
	s.state.Store(uint32(Live))
	s.settle(now)
}

// settleShare bounds the share of its time that a stream spends with snapshots when they must follow one another.
const settleShare = 20

// settle ends a mend. The next one within RetryMax waits longer and longer, so that a lossy bus or a wrong digest does
// not keep an adapter busy with snapshots; but not longer than settleShare times what this one took: small caches mend
// at once.
func (s *stream) settle(now time.Time) {
	l := s.machine.limits
	if now.Sub(s.settled) < l.RetryMax {
		longest := min(l.RetryMax, max(l.RetryMin, settleShare*now.Sub(s.asked)))
		s.backoff = min(max(2*s.backoff, l.RetryMin), longest)
	} else {
		s.backoff = 0
	}
	s.settled, s.retryAt = now, now.Add(s.backoff)
}

// repeat asks again after a wait.
func (s *stream) repeat(now time.Time) {
	s.machine.hooks.Counts.Mends[CauseSnapshot].Add(1)
	s.wait(now)
}

// replay applies the buffered deltas that come after the snapshot and reports whether they join it. Deltas that leave a
// gap stay buffered for the next snapshot.
func (s *stream) replay() bool {
	slices.SortStableFunc(s.buffer, func(a, b *eventv1.KvDelta) int { return int(int64(a.GetSeq()) - int64(b.GetSeq())) })
	for i, d := range s.buffer {
		seq := s.seq.Load()
		switch {
		case d.GetEpoch() != s.epoch.Load() || d.GetSeq() <= seq:
			continue
		case d.GetSeq() > seq+1:
			s.buffer = s.buffer[i:]
			return false
		}
		s.apply(d)
	}
	s.forgetBuffer()
	return true
}

// keep buffers a delta until the snapshot is there. A buffer that is full is given up whole: the deltas that follow
// leave a gap behind the snapshot, and the gap asks for the next one.
func (s *stream) keep(d *eventv1.KvDelta) {
	units := 1
	for _, t := range d.GetTiers() {
		units += len(t.GetAdded()) + len(t.GetRemoved())
	}
	if s.buffered+units > s.machine.limits.BufferUnits {
		s.machine.hooks.Counts.Overflows.Add(1)
		s.forgetBuffer()
		return
	}
	s.buffer = append(s.buffer, d)
	s.buffered += units
}

func (s *stream) forgetBuffer() {
	s.buffer, s.buffered = nil, 0
}

func (s *stream) forgetOlder(epoch uint64) {
	s.buffer = slices.DeleteFunc(s.buffer, func(d *eventv1.KvDelta) bool { return d.GetEpoch() < epoch })
}
