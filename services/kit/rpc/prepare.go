package rpc

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// MetadataRequestID is the metadata key of a request's id, which follows the request through all services.
const MetadataRequestID = "x-request-id"

// forwarded are the keys that a service passes on from the call it serves to the calls it makes.
func forwarded() []string { return []string{MetadataRequestID, "traceparent", "tracestate"} }

// preparer makes a call's deadline and metadata, the same way for every transport.
type preparer struct {
	timeout time.Duration // for calls that have no deadline; 0 for none
	forward []string      // from outgoing metadata, else from the incoming metadata of the call being served
	send    []string      // from outgoing metadata alone
}

// newPreparer copies the list: the configuration stays the caller's.
func newPreparer(cfg ClientConfig) *preparer {
	return &preparer{timeout: cfg.Timeout, forward: forwarded(), send: slices.Clone(cfg.Metadata)}
}

// deadline gives a call without a deadline the default one. The cancel function must be called.
func (p *preparer) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has || p.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.timeout)
}

// due is when a call without a deadline of its own ends; zero when it has one or needs none.
func (p *preparer) due(ctx context.Context) time.Time {
	if _, has := ctx.Deadline(); has || p.timeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(p.timeout)
}

// metadata is all that travels with a call: the allow-listed keys, and the trace when the caller has a span.
func (p *preparer) metadata(ctx context.Context) metadata.MD {
	out := metadata.MD{}
	given, _ := metadata.FromOutgoingContext(ctx)
	for _, key := range p.forward {
		values := given.Get(key)
		if len(values) == 0 {
			values = metadata.ValueFromIncomingContext(ctx, key)
		}
		if len(values) > 0 {
			out[key] = values
		}
	}
	for _, key := range p.send {
		if values := given.Get(key); len(values) > 0 {
			out[key] = values
		}
	}
	if trace.SpanContextFromContext(ctx).IsValid() {
		propagation.TraceContext{}.Inject(ctx, carrier(out))
	}
	return out
}

// carrier lets the trace propagator write into metadata.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if v := metadata.MD(c).Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// unary does for grpc-go connections what memConn does itself.
func (p *preparer) unary(
	ctx context.Context, method string, req, reply any,
	cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	ctx, cancel := p.deadline(ctx)
	defer cancel()
	err := invoke(metadata.NewOutgoingContext(ctx, p.metadata(ctx)), method, req, reply, cc, opts...)
	if err != nil {
		return fault.From(err)
	}
	return nil
}

// stream is unary for streams.
func (p *preparer) stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn,
	method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	s, err := open(metadata.NewOutgoingContext(ctx, p.metadata(ctx)), desc, cc, method, opts...)
	if err != nil {
		return nil, fault.From(err)
	}
	return faultStream{s}, nil
}
