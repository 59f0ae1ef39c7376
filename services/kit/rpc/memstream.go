package rpc

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// streamQueue is how many messages a sender may be ahead of its receiver, each way. It lets a relay run a few tokens
// ahead; memory per stream stays bounded by it times the largest message.
const streamQueue = 16

// memStream is what the two ends of a stream share.
type memStream struct {
	*memCall
	copier *copier

	toServer chan any // closed by CloseSend
	toClient chan any // closed by the handler's goroutine when it is over, after err is set
	headers  chan struct{}
	err      error // the handler's result as the caller sees it; read after toClient is closed
}

// NewStream starts a streaming call. Its handler runs in a goroutine that ends when the handler returns; the handler's
// context ends with ctx, and with the server's hard stop.
func (c *memConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	ep, m, call, err := c.open(ctx, method, time.Time{})
	if err != nil {
		onFinish(opts, err)
		return nil, err
	}
	if m.stream == nil {
		ep.end(call)
		return nil, fault.New(faultv1.Reason_REASON_INTERNAL, "rpc: %s is not a stream", method)
	}
	s := &memStream{
		memCall:  call,
		copier:   &c.copier,
		toServer: make(chan any, streamQueue),
		toClient: make(chan any, streamQueue),
		headers:  make(chan struct{}),
	}
	s.onSent = func() { close(s.headers) }
	go s.serve(ep, m)
	return &memClientStream{memStream: s, serverStreams: desc.ServerStreams, opts: opts, ep: ep}, nil
}

// serve runs the handler. What it must leave behind in any case (also when a handler ends its goroutine) is deferred.
func (s *memStream) serve(ep *endpoint, m memMethod) {
	err := error(fault.New(faultv1.Reason_REASON_INTERNAL, "the handler ended without a result"))
	defer func() {
		s.err = ep.result(s.memCall, err)
		s.flush()
		ep.end(s.memCall)
		close(s.toClient)
	}()
	info := &grpc.StreamServerInfo{
		FullMethod: s.method, IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams,
	}
	err = ep.stream(m.impl, &memServerStream{memStream: s}, info, m.stream.Handler)
}

// memServerStream is the handler's end.
type memServerStream struct{ *memStream }

// Context is the handler's.
func (s *memServerStream) Context() context.Context { return s.memCall }

// SetTrailer adds to the trailer.
func (s *memServerStream) SetTrailer(md metadata.MD) { _ = s.memStream.SetTrailer(md) }

// SendMsg queues m, which belongs to the receiver from then on. It waits while the queue is full.
func (s *memServerStream) SendMsg(m any) error {
	s.flush()
	if s.memCall.Err() != nil { // select picks at random; an ended call must not take more messages
		return fault.From(s.memCall.Err())
	}
	select {
	case s.toClient <- m:
		return nil
	case <-s.memCall.Done():
		return fault.From(s.memCall.Err())
	}
}

// RecvMsg takes the caller's next message, io.EOF after its last.
func (s *memServerStream) RecvMsg(m any) error {
	select {
	case in, ok := <-s.toServer:
		if !ok {
			return io.EOF
		}
		return s.copier.copy(m, in)
	case <-s.memCall.Done():
		return fault.From(s.memCall.Err())
	}
}

// memClientStream is the caller's end. As with gRPC one goroutine may send while another receives.
type memClientStream struct {
	*memStream
	serverStreams bool
	opts          []grpc.CallOption
	ep            *endpoint
	sendClosed    bool // guarded by the rule that only one goroutine sends
	finished      bool // guarded by the rule that only one goroutine receives
}

// Context is the caller's.
func (s *memClientStream) Context() context.Context { return s.caller }

// Header waits for the handler's header.
func (s *memClientStream) Header() (metadata.MD, error) {
	select {
	case <-s.headers:
		return s.headerCopy(), nil
	case <-s.caller.Done():
		return nil, fault.From(s.caller.Err()).Remote()
	}
}

// Trailer is the handler's trailer, complete once RecvMsg has returned an error.
func (s *memClientStream) Trailer() metadata.MD { return s.trailerCopy() }

// CloseSend tells the handler that no more messages come.
func (s *memClientStream) CloseSend() error {
	if !s.sendClosed {
		s.sendClosed = true
		close(s.toServer)
	}
	return nil
}

// SendMsg queues m, which belongs to the handler from then on. When the call is over it returns io.EOF and RecvMsg has
// the reason.
func (s *memClientStream) SendMsg(m any) error {
	if s.sendClosed {
		return fault.New(faultv1.Reason_REASON_INTERNAL, "rpc: SendMsg after CloseSend")
	}
	if s.memCall.Err() != nil {
		return io.EOF
	}
	select {
	case s.toServer <- m:
		return nil
	case <-s.memCall.Done():
		return io.EOF
	}
}

// RecvMsg takes the handler's next message; io.EOF or the handler's fault after its last.
func (s *memClientStream) RecvMsg(m any) error {
	err := s.recv(m)
	if err == nil && !s.serverStreams {
		err = s.recvEnd()
	}
	if err != nil || !s.serverStreams {
		s.finishOnce(err)
	}
	return err
}

// recv takes what is queued before the handler's result: the queue is closed, not emptied, when the handler ends.
func (s *memClientStream) recv(m any) error {
	select {
	case in, ok := <-s.toClient:
		if ok {
			return s.copier.copy(m, in)
		}
		if s.err != nil {
			return s.err
		}
		return io.EOF
	case <-s.caller.Done():
		return fault.From(s.caller.Err()).Remote()
	}
}

// recvEnd waits for the result of a call that has one response: an error after the response replaces it.
func (s *memClientStream) recvEnd() error {
	select {
	case _, more := <-s.toClient:
		if more {
			return fault.New(faultv1.Reason_REASON_INTERNAL, "rpc: %s sent two responses", s.method)
		}
		return s.err
	case <-s.caller.Done():
		return fault.From(s.caller.Err()).Remote()
	}
}

// finishOnce serves the call options when the call is over.
func (s *memClientStream) finishOnce(err error) {
	if s.finished {
		return
	}
	s.finished = true
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.finish(s.opts, s.ep.peer)
	onFinish(s.opts, err)
}
