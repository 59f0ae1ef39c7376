package model

import (
	"context"
	"slices"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

const (
	// auditQueue bounds the texts that wait; more are dropped, so an audit never slows a request or holds much memory.
	auditQueue = 4
	// auditMaxBytes bounds a text: the reference needs 0.3 µs per byte.
	auditMaxBytes = 256 << 10
)

// Outcome is how an audit ended.
type Outcome string

const (
	// Equal says that both engines gave the same ids.
	Equal Outcome = "equal"
	// Differs says that they did not; the model uses the reference from now on.
	Differs Outcome = "differs"
	// Failed says that the reference could not encode the text.
	Failed Outcome = "failed"
	// Dropped says that the sample was not compared: the queue was full or the text too long.
	Dropped Outcome = "dropped"
)

// Auditor compares a sample of served encodings with the reference, on its own goroutine.
type Auditor struct {
	every  uint64
	report func(m *Model, o Outcome)
	queue  chan sample
}

// Served is an encoding that was answered with.
type Served struct {
	// Request is what was asked for, without cuts.
	Request Request
	// IDs are the ids, nil where only Units were made.
	IDs []uint32
	// Units and Tokens are the hashes of the full units and the number of ids.
	Units  []uint64
	Tokens int
}

// sample owns copies of what was served and a reference to the model.
type sample struct {
	model  *Model
	served Served
}

// NewAuditor returns an auditor that takes every n-th request of a model; 0 takes none. report is called for each
// sample, from Run's goroutine or from Offer's.
func NewAuditor(every int, report func(*Model, Outcome)) *Auditor {
	return &Auditor{every: uint64(max(every, 0)), report: report, queue: make(chan sample, auditQueue)}
}

// Offer gives a finished request to the auditor, which samples it. It never blocks; what is taken is copied.
func (a *Auditor) Offer(m *Model, s Served) {
	if a.every == 0 || m.requests.Add(1)%a.every != 0 || m.active.Load() == nil {
		return
	}
	if len(s.Request.Text) > auditMaxBytes || !m.Retain() {
		a.report(m, Dropped)
		return
	}
	s.Request.Text, s.IDs, s.Units = slices.Clone(s.Request.Text), slices.Clone(s.IDs), slices.Clone(s.Units)
	select {
	case a.queue <- sample{model: m, served: s}:
	default:
		m.Release()
		a.report(m, Dropped)
	}
}

// Run compares samples until ctx ends.
func (a *Auditor) Run(ctx context.Context) {
	for {
		select {
		case s := <-a.queue:
			a.report(s.model, s.compare())
			s.model.Release()
		case <-ctx.Done():
			a.drain()
			return
		}
	}
}

// drain releases what waits, so that models can close.
func (a *Auditor) drain() {
	for {
		select {
		case s := <-a.queue:
			s.model.Release()
		default:
			return
		}
	}
}

// compare encodes the sample with the reference and distrusts the model when what was served differs.
func (s sample) compare() Outcome {
	r := &s.served.Request
	want, err := s.model.reference.AppendIDs(nil, r.Text, r.AddSpecial)
	if err != nil {
		return Failed
	}
	same := equal(want, s.served.IDs)
	if s.served.IDs == nil {
		same = len(want) == s.served.Tokens && slices.Equal(kvblock.AppendUnits(nil, r.Root, want, r.Salt), s.served.Units)
	}
	if same {
		return Equal
	}
	s.model.distrust()
	return Differs
}

// distrust leaves the reference alone, for good: the fast engine or the cache gave other ids.
func (m *Model) distrust() {
	why := "an audited request differed from the reference"
	m.fastRefused.Store(&why)
	m.active.Store(nil)
}
