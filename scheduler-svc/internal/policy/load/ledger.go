// Package load keeps a router's book of what is in flight on one target and turns it into the load terms of a view.
//
// A worker prefills in order of arrival and tells nothing until a first token leaves, so the ledger advances the head
// of its queue by the learnt prefill rate and lets every first token correct it: what was sent before that request is
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
	PromptTokens   int     // L
	UncachedTokens int     // u as predicted at dispatch, at least 1
	OutputTokens   int     // expected, not the truth
	AdmitS         float64 // predicted wait for admission
}

// Ticket names an entry of one ledger. The zero ticket is none.
type Ticket uint64

// Unknown stands for a count the worker did not report.
const Unknown = -1

// Settle is how a request ended.
type Settle struct {
	CachedTokens int  // the worker's own count, or Unknown
	OutputTokens int  // produced
	Complete     bool // answered in full; others teach nothing
}

type entry struct {
	ticket    Ticket
	started   time.Duration // dispatch
	first     time.Duration // first token, once prefilled
	prompt    int
	uncached  int
	output    int
	ahead     int // q when it was dispatched
	load      [2]int
	loadFirst [2]int // decoding requests and their tokens at dispatch and at the first token
	computed  int    // tokens the target had prefilled at the first token
	blocked   bool   // had to wait for cache, so its TTFT says nothing of prefill
	answered  bool   // a first token came
	prefilled bool
	gone      bool
}

// Ledger is the book of one target and the model of its speed. It is not safe for concurrent use: the caller's lock of
// the target guards it. Times are offsets on one monotonic clock of the caller's.
type Ledger struct {
	model *learn.Model

	entries  []entry // by ticket, ended ones marked until compacted
	gone     int
	head     int // index of the first entry that may still be prefilling
	last     Ticket
	queued   int // sum of uncached over entries not prefilled
	inflight int
	tokens   int // sum of prompt and expected output
	resident int // sum of uncached over prefilled entries
	computed int // tokens prefilled since the start

	decoding       int // entries with a first token
	decodingTokens int // their prompts and expected outputs

	lifetimeS float64 // mean seconds from first token to end, 0 before the first end

	since  time.Duration // instant from which the head is advanced
	credit float64       // tokens of the head done at since

	reported  time.Duration
	kvUse     float64
	waiting   int
	running   int
	hasReport bool
}

// New returns an empty ledger for a target believed to be as fast as the prior.
func New(prior learn.Coefficients) *Ledger { return &Ledger{model: learn.NewModel(prior)} }

// Suppose replaces the model of the target's speed by one that has learnt nothing; what is booked stays.
func (l *Ledger) Suppose(prior learn.Coefficients) { l.model = learn.NewModel(prior) }

// Dispatch books a request and returns the ticket that First and End take. Requests of other schedulers are booked in
// the same way when their reservation arrives.
func (l *Ledger) Dispatch(now time.Duration, e Entry) Ticket {
	ahead := l.Queued(now)
	if l.queued == 0 {
		l.since, l.credit = now, 0
	}
	l.last++
	e.UncachedTokens = max(1, e.UncachedTokens)
	l.entries = append(l.entries, entry{
		ticket: l.last, started: now, prompt: e.PromptTokens, uncached: e.UncachedTokens, output: e.OutputTokens,
		ahead: ahead, load: [2]int{l.decoding, l.decodingTokens}, blocked: e.AdmitS > 0,
	})
	l.queued += e.UncachedTokens
	l.inflight++
	l.tokens += e.PromptTokens + e.OutputTokens
	return l.last
}

// First records a first token. Calling it again, or after End, does nothing.
func (l *Ledger) First(now time.Duration, t Ticket) {
	i := l.find(t)
	if i < 0 || l.entries[i].prefilled {
		return
	}
	l.entries[i].answered = true
	l.complete(i, now)
}

// End takes a request off the book on every exit path and learns from it. Calling it again does nothing.
func (l *Ledger) End(now time.Duration, t Ticket, s Settle) {
	i := l.find(t)
	if i < 0 {
		return
	}
	if !l.entries[i].prefilled {
		l.complete(i, now)
	}
	e := &l.entries[i]
	if e.answered {
		l.live(now - e.first)
		if s.Complete {
			l.learn(now, e, s)
		}
	}
	l.resident -= e.uncached
	l.decoding--
	l.decodingTokens -= e.prompt + e.output
	e.gone = true
	l.gone++
	l.inflight--
	l.tokens -= e.prompt + e.output
	if l.gone > 32 && l.gone > len(l.entries)/2 {
		l.compact()
	}
}

func (l *Ledger) learn(now time.Duration, e *entry, s Settle) {
	uncached := e.uncached
	if s.CachedTokens != Unknown {
		uncached = max(1, e.prompt-s.CachedTokens)
	}
	if !e.blocked {
		l.model.ObservePrefill(learn.Prefill{
			Seconds: (e.first - e.started).Seconds(), Tokens: e.ahead + uncached, Inflight: e.load[0], KVTokens: e.load[1],
		})
	}
	if s.OutputTokens < minDecodeTokens {
		return
	}
	gaps := float64(s.OutputTokens - 1)
	l.model.ObserveDecode(learn.Decode{
		Seconds:       (now - e.first).Seconds() / gaps,
		Inflight:      float64(e.loadFirst[0]+l.decoding) / 2,
		KVTokens:      float64(e.loadFirst[1]+l.decodingTokens) / 2,
		PrefillTokens: float64(l.computed-e.computed) / gaps,
	})
}

// minDecodeTokens is the shortest answer whose mean step is worth learning from.
const minDecodeTokens = 16

// Report takes the worker's own figures: share of cache in use, requests waiting and running. While its cache is nearly
// full, what waits may wait for room and not for prefill, so those requests will not teach.
func (l *Ledger) Report(now time.Duration, kvUse float64, waiting, running int) {
	l.reported, l.kvUse, l.waiting, l.running, l.hasReport = now, kvUse, waiting, running, true
	if waiting == 0 || kvUse < tightUse {
		return
	}
	l.skip()
	for i := l.head; i < len(l.entries); i++ {
		l.entries[i].blocked = true
	}
}

// tightUse is the share of cache in use above which a waiting request may be waiting for room: the longest prompts are
// larger than what is left.
const tightUse = 0.9

// Fill sets what the ledger knows of the view: coefficients, q with progress, n, k, the worker's report and the wait
// for admission, for which the view's hit and capacity must be set before.
func (l *Ledger) Fill(now time.Duration, promptTokens int, v *policy.View) {
	v.Coefficients = l.model.Coefficients()
	v.PrefillQueuedTokens, v.PrefillBookedTokens = l.Queued(now), l.queued
	v.Inflight, v.KVTokens = l.inflight, l.tokens
	v.KVUse, v.Waiting, v.Running = l.kvUse, l.waiting, l.running
	v.AdmitS = l.admitS(now, max(1, promptTokens-v.HitTokens), v.KVCapacityTokens)
}

// Model returns the learnt model, under the ledger's lock.
func (l *Ledger) Model() *learn.Model { return l.model }

// Queued returns q at now: booked uncached tokens less the progress of the head.
func (l *Ledger) Queued(now time.Duration) int { return max(0, l.queued-int(l.progress(now))) }

// Inflight returns n, the requests dispatched and not ended.
func (l *Ledger) Inflight() int { return l.inflight }

// progress returns the tokens of the head prefilled by now. It never completes the head: its first token has not come.
func (l *Ledger) progress(now time.Duration) float64 {
	l.skip()
	if l.head >= len(l.entries) {
		return 0
	}
	done := l.credit
	if now > l.since {
		done += float64((now - l.since).Seconds() * l.model.Coefficients().PrefillRate(l.decoding, l.decodingTokens))
	}
	return min(done, float64(l.entries[l.head].uncached-1))
}

// complete marks entry i as computed. What the worker had done beyond the head is not known, so the next head starts at
// nothing; an entry that ends out of turn leaves the head's progress alone.
func (l *Ledger) complete(i int, now time.Duration) {
	if i == l.head {
		l.credit, l.since = 0, now
	} else {
		l.credit, l.since = l.progress(now), now
	}
	e := &l.entries[i]
	l.queued -= e.uncached
	l.resident += e.uncached
	l.computed += e.uncached
	l.decoding++
	l.decodingTokens += e.prompt + e.output
	e.prefilled, e.first = true, now
	e.loadFirst, e.computed = [2]int{l.decoding, l.decodingTokens}, l.computed
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
