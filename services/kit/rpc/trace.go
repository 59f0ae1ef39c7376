package rpc

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// traceStep starts a span per call as a child of the caller's. A server without a provider has no such step; the
// caller's trace then still travels on, as metadata.
func traceStep(provider trace.TracerProvider) around {
	tracer := provider.Tracer("github.com/kvmesh/kvmesh/services/kit/rpc")
	return func(ctx context.Context, c *call) error {
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			ctx = propagation.TraceContext{}.Extract(ctx, carrier(md))
		}
		ctx, span := tracer.Start(ctx, c.method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		err := c.next(ctx)
		if err != nil {
			span.SetStatus(codes.Error, outcome(err))
		}
		return err
	}
}
