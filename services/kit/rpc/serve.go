package rpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// hardWait is how long Stop waits for handlers after it has cancelled them. A handler that does not watch its context
// keeps its goroutine; Stop reports that and goes on.
const hardWait = time.Second

// Start listens and returns; calls are served until Stop. An address that is in use is a fault that names it.
func (s *Server) Start(_ context.Context) error {
	if s.ep != nil {
		if err := s.slot.take(s.ep); err != nil {
			return err
		}
		s.health.start(s.services)
		return nil
	}
	lis, err := Listen(s.cfg.Address)
	if err != nil {
		return err
	}
	s.lis, s.bound = lis, boundAddress(lis)
	go func() {
		defer close(s.done)
		if err := s.grpc.Serve(lis); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			s.log.Error("grpc server ended", "address", s.bound, "err", err)
		}
	}()
	s.health.start(s.services)
	return nil
}

// Stop ends the server: health says no, new calls are refused, running ones may finish until ctx ends or StopGrace has
// passed, whichever is first; then they are cancelled. It returns an error if calls had to be cut. It is safe to call
// it without Start and more than once.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		s.health.stop()
		ctx, cancel := context.WithTimeout(ctx, s.cfg.StopGrace)
		defer cancel()
		if s.ep != nil {
			s.stopErr = s.stopMem(ctx)
		} else {
			s.stopErr = s.stopGRPC(ctx)
		}
	})
	return s.stopErr
}

// stopMem leaves the name first, so that callers who wait meet the next server and not a refusal.
func (s *Server) stopMem(ctx context.Context) error {
	s.slot.leave(s.ep)
	idle := s.ep.drain()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	running := s.core.running.Load()
	s.ep.cancelAll()
	return s.cut(idle, running)
}

// stopGRPC hands over from GracefulStop to Stop: the first then returns too, as its handlers have been cancelled.
func (s *Server) stopGRPC(ctx context.Context) error {
	idle := make(chan struct{})
	go func() { // ends with the handlers
		defer close(idle)
		s.grpc.GracefulStop()
	}()
	select {
	case <-idle:
		s.waitServe()
		return nil
	case <-ctx.Done():
	}
	running := s.core.running.Load()
	stopped := make(chan struct{})
	go func() { // Stop waits for handlers too; see grpc.WaitForHandlers
		defer close(stopped)
		s.grpc.Stop()
	}()
	err := s.cut(stopped, running)
	s.waitServe()
	return err
}

// waitServe waits for the accept loop of a server that was started.
func (s *Server) waitServe() {
	if s.lis != nil {
		<-s.done
	}
}

// cut waits for cancelled handlers and says how many there were.
func (s *Server) cut(idle <-chan struct{}, running int64) error {
	timer := time.NewTimer(hardWait)
	defer timer.Stop()
	select {
	case <-idle:
		if running == 0 { // there was no time, but nothing that needed any
			return nil
		}
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE,
			"%d calls at %s were cut when the server stopped", running, s.bound)
	case <-timer.C:
		return fault.New(faultv1.Reason_REASON_INTERNAL, "calls at %s ignore their cancellation", s.bound)
	}
}
