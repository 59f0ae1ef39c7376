// Package load keeps a router's book of what is in flight on one target and turns it into the load terms of a view.
//
// A worker prefills in order of arrival and tells nothing until a first token leaves, so the ledger advances the head of
// its queue by the learnt prefill rate and lets every first token correct it: what was sent before that request is
// prefilled, what was sent after it is not.
package load

import (
	"sort"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/learn"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Entry is one request as it is dispatched.
type Entry struct {
	PromptTokens   int // L
	UncachedTokens int // u as predicted at dispatch, at least 1
	OutputTokens   int // expected, not the truth
}

// Ticket names an entry of one ledger. The zero ticket is none.
type Ticket uint64

type entry struct {
	ticket    Ticket
	started   time.Duration // dispatch, then first token
	prompt    int
	uncached  int
	output    int
	prefilled bool
	gone      bool
}

// Ledger is the book of one target. The zero value is empty. It is not safe for concurrent use: the caller's lock of the
// target guards it. Times are offsets on one monotonic clock of the caller's.
type Ledger struct {
	entries  []entry // by ticket, ended ones marked until compacted
	gone     int
	head     int // index of the first entry that may still be prefilling
	last     Ticket
	queued   int // sum of uncached over entries not prefilled
	inflight int
	tokens   int // sum of prompt and expected output
	resident int // sum of uncached over prefilled entries

	lifetimeS float64 // mean seconds from first token to end, 0 before the first end

	since  time.Duration // instant from which the head is advanced
	credit float64       // tokens of the head done at since

	reported  time.Duration
	kvUse     float64
	waiting   int
	running   int
	hasReport bool
}

// Dispatch books a request and returns the ticket that First and End take.
func (l *Ledger) Dispatch(now time.Duration, e Entry) Ticket {
	if l.queued == 0 {
		l.since, l.credit = now, 0
	}
	l.last++
	e.UncachedTokens = max(1, e.UncachedTokens)
	l.entries = append(l.entries, entry{
		ticket: l.last, started: now, prompt: e.PromptTokens, uncached: e.UncachedTokens, output: e.OutputTokens,
	})
	l.queued += e.UncachedTokens
	l.inflight++
	l.tokens += e.PromptTokens + e.OutputTokens
	return l.last
}

// First records a first token. Calling it again, or after End, does nothing.
func (l *Ledger) First(now time.Duration, t Ticket, c learn.Coefficients) {
	i := l.find(t)
	if i < 0 || l.entries[i].prefilled {
		return
	}
	l.advance(now, c)
	l.prefilled(i, now)
}

// End takes a request off the book on every exit path. Calling it again does nothing.
func (l *Ledger) End(now time.Duration, t Ticket, c learn.Coefficients) {
	i := l.find(t)
	if i < 0 {
		return
	}
	if !l.entries[i].prefilled {
		l.advance(now, c)
		l.prefilled(i, now)
	}
	e := &l.entries[i]
	l.live(now - e.started)
	l.resident -= e.uncached
	e.gone = true
	l.gone++
	l.inflight--
	l.tokens -= e.prompt + e.output
	if l.gone > 32 && l.gone > len(l.entries)/2 {
		l.compact()
	}
}

// Report takes the worker's own figures: share of cache in use, requests waiting and running.
func (l *Ledger) Report(now time.Duration, kvUse float64, waiting, running int) {
	l.reported, l.kvUse, l.waiting, l.running, l.hasReport = now, kvUse, waiting, running, true
}

// Fill sets the load terms of the view: q with progress, n, k, and the worker's report. The view's coefficients must be
// set before.
func (l *Ledger) Fill(now time.Duration, promptTokens int, v *policy.View) {
	v.PrefillQueuedTokens = l.Queued(now, v.Coefficients)
	v.PrefillBookedTokens = l.queued
	v.Inflight, v.KVTokens = l.inflight, l.tokens
	v.KVUse, v.Waiting, v.Running = l.kvUse, l.waiting, l.running
	v.AdmitS = l.admitS(max(1, promptTokens-v.HitTokens), v.KVCapacityTokens)
}

// admitS predicts the wait for need tokens of cache. What is held is the worker's last report and what was sent since;
// the requests it reported as waiting hold nothing yet but come first. In steady state the answers' growth takes what
// ended answers free, so room appears at the rate at which computed prompts leave.
func (l *Ledger) admitS(need, capacity int) float64 {
	if capacity <= 0 || !l.hasReport {
		return 0
	}
	ahead, waiting := 0, l.waiting
	for i := len(l.entries) - 1; i >= l.head && i >= 0; i-- {
		e := &l.entries[i]
		if e.gone || e.prefilled {
			continue
		}
		if e.started <= l.reported {
			if waiting == 0 {
				break
			}
			waiting--
		}
		ahead += e.uncached
	}
	deficit := need + ahead - int((1-l.kvUse)*float64(capacity))
	if deficit <= 0 {
		return 0
	}
	lifetime := l.lifetimeS
	if lifetime == 0 {
		lifetime = priorLifetimeS
	}
	return min(maxAdmitS, float64(deficit)*lifetime/float64(max(1, l.resident)))
}

// priorLifetimeS is an answer of 400 tokens at 25 ms, until one has ended. maxAdmitS bounds a prediction.
const (
	priorLifetimeS = 10.0
	maxAdmitS      = 120.0
)

func (l *Ledger) live(d time.Duration) {
	if l.lifetimeS == 0 {
		l.lifetimeS = d.Seconds()
		return
	}
	l.lifetimeS += 0.02 * (d.Seconds() - l.lifetimeS)
}

// Queued returns q at now: booked uncached tokens less the progress of the head.
func (l *Ledger) Queued(now time.Duration, c learn.Coefficients) int {
	return max(0, l.queued-int(l.progress(now, c)))
}

// Inflight returns n, the requests dispatched and not ended.
func (l *Ledger) Inflight() int { return l.inflight }

// progress returns the tokens of the head prefilled by now. It never completes the head: its first token has not come.
func (l *Ledger) progress(now time.Duration, c learn.Coefficients) float64 {
	l.skip()
	if l.head >= len(l.entries) {
		return 0
	}
	done := l.credit
	if rate := c.PrefillRate(l.inflight, l.tokens); now > l.since {
		done += (now - l.since).Seconds() * rate
	}
	return min(done, float64(l.entries[l.head].uncached-1))
}

func (l *Ledger) advance(now time.Duration, c learn.Coefficients) {
	l.credit, l.since = l.progress(now, c), now
}

// prefilled marks entry i, and what was sent before it, as computed. What the head had done beyond is not known, so its
// successor starts at nothing.
func (l *Ledger) prefilled(i int, now time.Duration) {
	e := &l.entries[i]
	l.queued -= e.uncached
	l.resident += e.uncached
	e.prefilled, e.started = true, now
	if i == l.head {
		l.credit, l.since = 0, now
	}
	l.skip()
}

func (l *Ledger) skip() {
	for l.head < len(l.entries) && (l.entries[l.head].prefilled || l.entries[l.head].gone) {
		l.head++
	}
}

func (l *Ledger) find(t Ticket) int {
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].ticket >= t })
	if i == len(l.entries) || l.entries[i].ticket != t || l.entries[i].gone {
		return -1
	}
	return i
}

func (l *Ledger) compact() {
	kept, head := l.entries[:0], 0
	for i, e := range l.entries {
		if i == l.head {
			head = len(kept)
		}
		if !e.gone {
			kept = append(kept, e)
		}
	}
	if l.head >= len(l.entries) {
		head = len(kept)
	}
	l.entries, l.head, l.gone = kept, head, 0
}
