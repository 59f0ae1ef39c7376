package rpc

import (
	"context"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

// traceStep starts a span per call as a child of the caller's. Without a provider it is a plain pass-through; the
// caller's trace then still travels on, as metadata.
func traceStep(provider trace.TracerProvider) Interceptor {
	if provider == nil {
		return step(stepTrace, func(ctx context.Context, _ string, call func(context.Context) error) error { return call(ctx) })
	}
	tracer := provider.Tracer("github.com/kvmesh/kvmesh/services/kit/rpc")
	return step(stepTrace, func(ctx context.Context, method string, call func(context.Context) error) error {
		if md, ok := metadata.FromIncomingContext(ctx); ok {
			ctx = propagation.TraceContext{}.Extract(ctx, carrier(md))
		}
		ctx, span := tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		err := call(ctx)
		if err != nil {
			span.SetStatus(codes.Error, outcome(err))
		}
		return err
	})
}
