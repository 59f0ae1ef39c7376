package obs

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// TraceConfig is what a configuration file says about traces. Without an endpoint no spans are made; a caller's trace
// still travels through.
type TraceConfig struct {
	// Endpoint is the host:port of an OTLP/gRPC collector.
	Endpoint string `yaml:"endpoint" doc:"host:port of an OTLP/gRPC collector; empty for no traces"`
	// Insecure sends without TLS.
	Insecure bool `yaml:"insecure" doc:"send traces without TLS"`
	// Ratio of the traces that begin here and are kept; traces that callers began follow the caller's choice.
	Ratio float64 `yaml:"ratio" doc:"share of traces begun here that is kept, 0 to 1"`
}

// SetDefaults fills what is zero.
func (c *TraceConfig) SetDefaults() {
	if c.Ratio == 0 {
		c.Ratio = 1
	}
}

// Validate reports everything that is wrong.
func (c *TraceConfig) Validate() error {
	var f conf.Faults
	f.Require(c.Ratio >= 0 && c.Ratio <= 1, "ratio", "is between 0 and 1")
	return f.Err()
}

// NewTracer makes a process's tracer provider and the function that sends what is left and ends it.
func NewTracer(
	ctx context.Context, cfg TraceConfig, service string,
) (provider trace.TracerProvider, shutdown func(context.Context) error, err error) {
	if cfg.Endpoint == "" {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, nil
	}
	opts := []otlptracegrpc.Option{otlptracegrpc.WithEndpoint(cfg.Endpoint)}
	if cfg.Insecure {
		opts = append(opts, otlptracegrpc.WithInsecure())
	}
	exporter, err := otlptracegrpc.New(ctx, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("make trace exporter for %s: %w", cfg.Endpoint, err)
	}
	sdk := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "kvmesh-"+service))),
	)
	return sdk, sdk.Shutdown, nil
}
