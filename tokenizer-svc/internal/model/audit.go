package model

import (
	"context"
	"slices"
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

// sample owns copies of text and ids and a reference to the model.
type sample struct {
	model      *Model
	text       []byte
	ids        []uint32
	addSpecial bool
}

// NewAuditor returns an auditor that takes every n-th request of a model; 0 takes none. report is called for each
// sample, from Run's goroutine or from Offer's.
func NewAuditor(every int, report func(*Model, Outcome)) *Auditor {
	return &Auditor{every: uint64(max(every, 0)), report: report, queue: make(chan sample, auditQueue)}
}

// Offer gives a finished request to the auditor, which samples it. It never blocks; text and ids are copied if taken.
func (a *Auditor) Offer(m *Model, text []byte, ids []uint32, addSpecial bool) {
	if a.every == 0 || m.requests.Add(1)%a.every != 0 || m.active.Load() == nil {
		return
	}
	if len(text) > auditMaxBytes || !m.Retain() {
		a.report(m, Dropped)
		return
	}
	select {
	case a.queue <- sample{model: m, text: slices.Clone(text), ids: slices.Clone(ids), addSpecial: addSpecial}:
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

// compare encodes the sample with the reference and distrusts the model when the ids differ.
func (s sample) compare() Outcome {
	want, err := s.model.reference.AppendIDs(nil, s.text, s.addSpecial)
	if err != nil {
		return Failed
	}
	if equal(want, s.ids) {
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
