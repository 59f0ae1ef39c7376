package rpc

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
)

// Interceptor is a named step around every call of a server, in both shapes.
type Interceptor struct {
	// Name is unique in a server; it is what ordering tests and logs show.
	Name string
	// Unary wraps unary calls.
	Unary grpc.UnaryServerInterceptor
	// Stream wraps streaming calls.
	Stream grpc.StreamServerInterceptor
}

// checkInterceptors refuses a list in which a step is missing for one shape or named twice: a limit that holds for
// unary calls only would be a hole.
func checkInterceptors(list []Interceptor) error {
	seen := map[string]bool{}
	for _, i := range list {
		switch {
		case i.Name == "" || seen[i.Name]:
			return fmt.Errorf("interceptor name %q is empty or used twice", i.Name)
		case i.Unary == nil || i.Stream == nil:
			return fmt.Errorf("interceptor %q must wrap both unary and streaming calls", i.Name)
		}
		seen[i.Name] = true
	}
	return nil
}

// core is the built-in steps as one interceptor. A call walks them with one small allocation in all, where a chain of
// ordinary interceptors needs two closures for each.
type core struct {
	steps   []around
	running atomic.Int64 // calls, so that a stop can say whether it cut any
}

// around is a built-in step: it runs c.next, once at most, with its own or another context.
type around func(ctx context.Context, c *call) error

// call is one call's way through the steps.
type call struct {
	method string
	steps  []around
	run    func(context.Context) error
}

// next runs the steps that are left and then the handler.
func (c *call) next(ctx context.Context) error {
	if len(c.steps) == 0 {
		return c.run(ctx)
	}
	first := c.steps[0]
	c.steps = c.steps[1:]
	return first(ctx, c)
}

// counted is 1 for calls that do somebody's work, 0 for health checks.
func counted(method string) int64 {
	if strings.HasPrefix(method, "/grpc.health.v1.Health/") {
		return 0
	}
	return 1
}

// unary is the core as a grpc.UnaryServerInterceptor.
func (k *core) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	n := counted(info.FullMethod)
	k.running.Add(n)
	defer k.running.Add(-n)
	var resp any
	c := call{method: info.FullMethod, steps: k.steps, run: func(ctx context.Context) error {
		var err error
		resp, err = h(ctx, req)
		return err
	}}
	err := c.next(ctx)
	return resp, err
}

// stream is the core as a grpc.StreamServerInterceptor. A step that changed the context changes the stream's.
func (k *core) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	n := counted(info.FullMethod)
	k.running.Add(n)
	defer k.running.Add(-n)
	outer := ss.Context()
	c := call{method: info.FullMethod, steps: k.steps, run: func(ctx context.Context) error {
		if ctx != outer {
			return h(srv, streamContext{ss, ctx})
		}
		return h(srv, ss)
	}}
	return c.next(outer)
}

// streamContext is a stream with another context.
type streamContext struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc.ServerStream hands out its context
}

func (s streamContext) Context() context.Context { return s.ctx }

// chainUnary makes one interceptor of many, the first outermost.
func chainUnary(list []Interceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		return unaryStep(list, info, h)(ctx, req)
	}
}

// unaryStep makes the handler that runs list and then h. The common list of two costs two closures a call.
func unaryStep(list []Interceptor, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) grpc.UnaryHandler {
	if len(list) == 0 {
		return h
	}
	return func(ctx context.Context, req any) (any, error) {
		return list[0].Unary(ctx, req, info, unaryStep(list[1:], info, h))
	}
}

// chainStream is chainUnary for streams.
func chainStream(list []Interceptor) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
		return streamStep(list, info, h)(srv, ss)
	}
}

func streamStep(list []Interceptor, info *grpc.StreamServerInfo, h grpc.StreamHandler) grpc.StreamHandler {
	if len(list) == 0 {
		return h
	}
	return func(srv any, ss grpc.ServerStream) error {
		return list[0].Stream(srv, ss, info, streamStep(list[1:], info, h))
	}
}
