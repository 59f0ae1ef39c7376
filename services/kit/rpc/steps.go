package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Names of the built-in interceptors, in their order.
const (
	stepRecover  = "recover"
	stepTrace    = "trace"
	stepDeadline = "deadline"
	stepMetrics  = "metrics"
	stepLog      = "log"
	stepFault    = "fault"
	stepValidate = "validate"
)

const (
	// deadlineShave is what a callee has less than its caller: enough for an answer to travel back and say what timed
	// out, small against any call's budget.
	deadlineShave = 20 * time.Millisecond
	// deadlineFloor is the least a call must have left to be worth starting.
	deadlineFloor = 50 * time.Millisecond
)

// around is an interceptor that sees a call as one function: what the two shapes have in common. call runs the rest
// with the given context.
type around func(ctx context.Context, method string, call func(context.Context) error) error

// step makes both shapes of an interceptor from one function.
func step(name string, a around) Interceptor {
	return Interceptor{
		Name: name,
		Unary: func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (resp any, err error) {
			err = a(ctx, info.FullMethod, func(ctx context.Context) error {
				var herr error
				resp, herr = h(ctx, req)
				return herr
			})
			return resp, err
		},
		Stream: func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			outer := ss.Context()
			return a(outer, info.FullMethod, func(ctx context.Context) error {
				if ctx != outer {
					return h(srv, streamContext{ss, ctx})
				}
				return h(srv, ss)
			})
		},
	}
}

// streamContext is a stream with another context.
type streamContext struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // grpc.ServerStream hands out its context
}

func (s streamContext) Context() context.Context { return s.ctx }

// recoverStep turns panics into faults. The caller learns nothing of them; the log has the stack.
func recoverStep(log *slog.Logger) Interceptor {
	return step(stepRecover, func(ctx context.Context, method string, call func(context.Context) error) (err error) {
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
				err = fault.New(faultv1.Reason_REASON_INTERNAL, "panic in %s", method)
			}
		}()
		return call(ctx)
	})
}

// deadlineStep shrinks deadlines hop by hop and refuses what cannot finish.
func deadlineStep(refused func(method string)) Interceptor {
	return step(stepDeadline, func(ctx context.Context, method string, call func(context.Context) error) error {
		due, has := ctx.Deadline()
		if !has {
			return call(ctx)
		}
		if time.Until(due) < deadlineFloor {
			refused(method)
			return fault.New(faultv1.Reason_REASON_DEADLINE_EXCEEDED, "less than %s of the deadline is left for %s",
				deadlineFloor, method)
		}
		ctx, cancel := context.WithDeadline(ctx, due.Add(-deadlineShave))
		defer cancel()
		return call(ctx)
	})
}

// logStep writes one debug line per call. When debug lines are off it costs one check.
func logStep(log *slog.Logger) Interceptor {
	return step(stepLog, func(ctx context.Context, method string, call func(context.Context) error) error {
		if !log.Enabled(ctx, slog.LevelDebug) {
			return call(ctx)
		}
		start := time.Now()
		err := call(ctx)
		log.LogAttrs(ctx, slog.LevelDebug, "rpc", slog.String("method", method), slog.String("reason", outcome(err)),
			slog.Float64("ms", float64(time.Since(start).Microseconds())/1000), slog.String("request_id", RequestID(ctx)))
		return err
	})
}

// faultStep makes every error a fault. The cause of an INTERNAL one goes to the log, because it goes nowhere else.
func faultStep(log *slog.Logger) Interceptor {
	return step(stepFault, func(ctx context.Context, method string, call func(context.Context) error) error {
		err := call(ctx)
		if err == nil {
			return nil
		}
		f := fault.From(err)
		if f.Reason == faultv1.Reason_REASON_INTERNAL {
			log.ErrorContext(ctx, "call failed", "method", method, "err", err, "request_id", RequestID(ctx))
		}
		return f
	})
}

// outcome is a call's result as metrics and logs spell it: "OK" or the reason's name.
func outcome(err error) string {
	if err == nil {
		return "OK"
	}
	return fault.Name(fault.ReasonOf(err))
}

// RequestID is the id of the request that the call in ctx belongs to, empty if it has none.
func RequestID(ctx context.Context) string {
	if v := metadata.ValueFromIncomingContext(ctx, MetadataRequestID); len(v) > 0 {
		return v[0]
	}
	return ""
}

// WithRequestID makes calls from ctx carry the id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, MetadataRequestID, id)
}
