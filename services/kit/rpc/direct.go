package rpc

import (
	"context"
	"log/slog"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// directCalls does for a unary call in memory what the built-in interceptors do for any call, in their order (recover,
// deadline, metrics, faults, validation), in one function: the chain's closures and contexts cost more than most
// handlers. TestDirectIsTheChain holds the two against each other.
type directCalls struct {
	core      *core
	metrics   *serverMetrics
	validator *Validator
	log       *slog.Logger
}

// direct is nil for servers with steps that only the chain has.
func (s *Server) direct(deps ServerDeps) *directCalls {
	if len(deps.Interceptors) > 0 || traces(deps.Tracer) {
		return nil
	}
	return &directCalls{core: &s.core, metrics: s.metrics, validator: s.validator, log: deps.Log}
}

// logs tells whether each call gets a line, which only the chain writes.
func (d *directCalls) logs() bool { return d.log.Enabled(context.Background(), slog.LevelDebug) }

// run calls the handler in the caller's goroutine.
func (d *directCalls) run(c *memCall, m memMethod, copier *copier, args any) (resp any, err error) {
	d.core.running.Add(m.counted)
	defer d.core.running.Add(-m.counted)
	start := time.Now()
	if due, has := c.Deadline(); has {
		if due.Sub(start) < deadlineFloor {
			d.metrics.refuse(c.method)
			return nil, hopeless(c.method)
		}
		c.Sooner(deadlineShave)
	}
	m.metrics.running.Inc()
	returned := false
	defer func() {
		if !returned {
			err = fault.New(faultv1.Reason_REASON_INTERNAL, "panic in %s", c.method)
			if p := recover(); p != nil {
				resp, err = nil, panicked(c, d.log, c.method, p)
			}
		}
		m.metrics.seconds.Observe(time.Since(start).Seconds())
		m.metrics.running.Dec()
		d.metrics.count(m.metrics, err)
	}()
	resp, err = m.unary.Handler(m.impl, c, func(in any) error {
		if err := copier.copy(in, args); err != nil {
			return err
		}
		return d.validator.Check(in)
	}, nil)
	err = faulty(c, d.log, c.method, err)
	returned = true
	return resp, err
}
