package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

const (
	// deadlineShave is what a callee has less than its caller: enough for an answer to travel back and say what timed
	// out, small against any call's budget.
	deadlineShave = 20 * time.Millisecond
	// deadlineFloor is the least a call must have left to be worth starting.
	deadlineFloor = 50 * time.Millisecond
)

// recoverStep turns panics into faults.
func recoverStep(log *slog.Logger) around {
	return func(ctx context.Context, c *call) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = panicked(ctx, log, c.method, p)
			}
		}()
		return c.next(ctx)
	}
}

// panicked is the fault of a panic. The caller learns nothing of it; the log has the stack.
func panicked(ctx context.Context, log *slog.Logger, method string, p any) error {
	log.ErrorContext(ctx, "handler panicked", "method", method, "panic", p, "stack", string(debug.Stack()))
	return fault.New(faultv1.Reason_REASON_INTERNAL, "panic in %s", method)
}

// deadlineStep shrinks deadlines hop by hop and refuses what cannot finish.
func deadlineStep(refused func(method string)) around {
	return func(ctx context.Context, c *call) error {
		due, has := ctx.Deadline()
		if !has {
			return c.next(ctx)
		}
		if time.Until(due) < deadlineFloor {
			refused(c.method)
			return hopeless(c.method)
		}
		ctx, cancel := context.WithDeadline(ctx, due.Add(-deadlineShave))
		defer cancel()
		return c.next(ctx)
	}
}

// hopeless is the fault of a call that could not finish in time.
func hopeless(method string) error {
	return fault.New(faultv1.Reason_REASON_DEADLINE_EXCEEDED, "less than %s of the deadline is left for %s",
		deadlineFloor, method)
}

// logStep writes one debug line per call. When debug lines are off it costs one check.
func logStep(log *slog.Logger) around {
	return func(ctx context.Context, c *call) error {
		if !log.Enabled(ctx, slog.LevelDebug) {
			return c.next(ctx)
		}
		start := time.Now()
		err := c.next(ctx)
		log.LogAttrs(ctx, slog.LevelDebug, "rpc",
			slog.String("method", c.method), slog.String("reason", outcome(err)),
			slog.Float64("ms", float64(time.Since(start).Microseconds())/1000),
			slog.String("request_id", RequestID(ctx)))
		return err
	}
}

// faultStep makes every error a fault.
func faultStep(log *slog.Logger) around {
	return func(ctx context.Context, c *call) error { return faulty(ctx, log, c.method, c.next(ctx)) }
}

// faulty makes an error a fault. The cause of an INTERNAL one goes to the log, because it goes nowhere else.
func faulty(ctx context.Context, log *slog.Logger, method string, err error) error {
	if err == nil {
		return nil
	}
	f := fault.From(err)
	if f.Reason == faultv1.Reason_REASON_INTERNAL {
		log.ErrorContext(ctx, "call failed", "method", method, "err", err, "request_id", RequestID(ctx))
	}
	return f
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
