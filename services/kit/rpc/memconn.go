package rpc

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// memConn is a client connection to a mem:// name.
type memConn struct {
	slot   *slot
	prep   *preparer
	wait   bool
	closed atomic.Bool
	copier copier
}

// Invoke calls a unary method in the caller's goroutine. Call options for headers, trailers and the peer are honoured;
// those about bytes (codecs, sizes, compression) have nothing to act on.
func (c *memConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := c.invoke(ctx, unaryCall{method: method, args: args, reply: reply, opts: opts})
	onFinish(opts, err)
	return err
}

// unaryCall is what Invoke was asked for.
type unaryCall struct {
	method      string
	args, reply any
	opts        []grpc.CallOption
}

// invoke returns what the handler answers even if ctx ended meanwhile: the work is done, and a caller that cares looks
// at its context.
func (c *memConn) invoke(ctx context.Context, u unaryCall) error {
	ep, m, call, err := c.open(ctx, u.method, c.prep.due(ctx))
	if err != nil {
		return err
	}
	defer ep.end(call)
	if m.unary == nil {
		return fault.New(faultv1.Reason_REASON_INTERNAL, "rpc: %s is not unary", u.method)
	}
	var resp any
	if ep.direct != nil && !ep.direct.logs() {
		resp, err = ep.direct.run(call, m, &c.copier, u.args)
	} else {
		resp, err = m.unary.Handler(m.impl, call, func(in any) error { return c.copier.copy(in, u.args) }, ep.unary)
	}
	call.finish(u.opts, ep.peer)
	if err == nil {
		err = c.copier.copy(u.reply, resp)
	}
	return ep.result(call, err)
}

// open finds the server and the method and admits the call; the caller owes ep.end(call).
func (c *memConn) open(ctx context.Context, method string, due time.Time) (*endpoint, memMethod, *memCall, error) {
	for {
		if c.closed.Load() {
			return nil, memMethod{}, nil, fault.New(faultv1.Reason_REASON_CANCELLED, "the connection is closed")
		}
		if err := ctx.Err(); err != nil {
			return nil, memMethod{}, nil, fault.From(err).Remote()
		}
		ep, err := c.slot.endpoint(ctx, c.wait, due)
		if err != nil {
			return nil, memMethod{}, nil, err
		}
		m, ok := ep.methods[method]
		if !ok {
			return nil, m, nil, fault.New(faultv1.Reason_REASON_METHOD_NOT_ALLOWED,
				"unknown method %s at %s", method, ep.addr)
		}
		// A server leaves its name before it drains: the next round of a waiting call waits for its successor.
		call, err := ep.begin(ctx, method, c.prep, due)
		if err == nil || !c.wait {
			return ep, m, call, err
		}
	}
}

// Close makes further calls fail. Calls that run are not touched.
func (c *memConn) Close() error {
	c.closed.Store(true)
	return nil
}

// finish hands headers, trailers and the peer to the call options that ask for them.
func (t *memTransport) finish(opts []grpc.CallOption, p *peer.Peer) {
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = t.headerCopy()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = t.trailerCopy()
		case grpc.PeerCallOption:
			*o.PeerAddr = *p
		}
	}
}

// onFinish runs the callbacks of grpc.OnFinish.
func onFinish(opts []grpc.CallOption, err error) {
	for _, o := range opts {
		if f, ok := o.(grpc.OnFinishCallOption); ok {
			f.OnFinish(err)
		}
	}
}
