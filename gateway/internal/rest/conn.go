package rest

import (
	"context"
	"io"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
)

// callOf finds the HTTP call in a context.
func callOf(ctx context.Context) *call {
	in := inbound.From(ctx)
	if in == nil {
		return nil
	}
	c, _ := in.Writer.(*call)
	return c
}

// Conn is a connection to services in this process whose client side is an HTTP request. It is a
// grpc.ServiceRegistrar and a grpc.ClientConnInterface. The caller's RecvMsg runs the service; there is no goroutine and no
// hand-over. Register everything before the first call.
type Conn struct {
	methods      map[string]method
	interceptors []grpc.StreamServerInterceptor
}

type method struct {
	server  any
	handler grpc.StreamHandler
	info    *grpc.StreamServerInfo
}

// NewConn makes a connection; interceptors run in order around every call.
func NewConn(interceptors ...grpc.StreamServerInterceptor) *Conn {
	return &Conn{methods: map[string]method{}, interceptors: interceptors}
}

// RegisterService adds a service's streaming methods.
func (c *Conn) RegisterService(d *grpc.ServiceDesc, impl any) {
	for _, s := range d.Streams {
		full := "/" + d.ServiceName + "/" + s.StreamName
		info := &grpc.StreamServerInfo{FullMethod: full, IsClientStream: s.ClientStreams, IsServerStream: s.ServerStreams}
		c.methods[full] = method{server: impl, handler: s.Handler, info: info}
	}
}

// Invoke is for unary methods; the edge's services have none.
func (c *Conn) Invoke(_ context.Context, name string, _, _ any, _ ...grpc.CallOption) error {
	return fault.New(faultv1.Reason_REASON_NOT_FOUND, "%s is no method of the REST edge", name)
}

// NewStream begins a call.
func (c *Conn) NewStream(ctx context.Context, _ *grpc.StreamDesc, name string, _ ...grpc.CallOption) (
	grpc.ClientStream, error,
) {
	m, ok := c.methods[name]
	call := callOf(ctx)
	if !ok || call == nil {
		return nil, fault.New(faultv1.Reason_REASON_NOT_FOUND, "%s is not served here", name)
	}
	// The client's metadata must not ride on the calls that the service makes.
	if _, has := metadata.FromOutgoingContext(ctx); has {
		ctx = metadata.NewOutgoingContext(ctx, nil)
	}
	return &driven{call: call, ctx: ctx, method: m, conn: c}, nil
}

// driven is both ends of a call: a grpc.ClientStream whose RecvMsg runs the service, and the service's stream.
type driven struct {
	call   *call
	ctx    context.Context
	method method
	conn   *Conn
	req    any
}

// Header returns at once: the head goes to the response by itself.
func (s *driven) Header() (metadata.MD, error) { return nil, nil }

// Trailer is empty: trailers go to the response by themselves.
func (s *driven) Trailer() metadata.MD { return nil }

// CloseSend does nothing: there is one message.
func (s *driven) CloseSend() error { return nil }

// Context is the request's.
func (s *driven) Context() context.Context { return s.ctx }

// SendMsg keeps the request.
func (s *driven) SendMsg(m any) error {
	s.req = m
	return nil
}

// RecvMsg runs the service to its end.
func (s *driven) RecvMsg(any) error {
	if err := s.conn.run(s.method, &served{driven: s}); err != nil {
		s.call.fail(err)
	} else if !s.call.wrote && s.call.later == nil {
		s.call.w.WriteHeader(200)
	}
	return io.EOF
}

// run calls the handler through the interceptors.
func (c *Conn) run(m method, s grpc.ServerStream) error {
	handler := m.handler
	for i := len(c.interceptors) - 1; i >= 0; i-- {
		next, around := handler, c.interceptors[i]
		handler = func(srv any, s grpc.ServerStream) error { return around(srv, s, m.info, next) }
	}
	return handler(m.server, s)
}

// served is the service's view of a call. The gateway's services write to the call itself; what other code sends as
// messages goes the same way.
type served struct {
	driven *driven
	got    bool
}

// Context is the request's.
func (s *served) Context() context.Context { return s.driven.ctx }

// RecvMsg hands the request over by reference, once.
func (s *served) RecvMsg(m any) error {
	if s.got {
		return io.EOF
	}
	s.got = true
	if raw(m, s.driven.req) {
		return nil
	}
	dst, ok := m.(proto.Message)
	src, ok2 := s.driven.req.(proto.Message)
	if !ok || !ok2 {
		return fault.New(faultv1.Reason_REASON_INTERNAL, "%T is no message", m)
	}
	to := dst.ProtoReflect()
	src.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(fd, v)
		return true
	})
	return nil
}

// raw hands over the commonest requests, in which the edge's decoder sets nothing but the client's bytes.
func raw(dst, src any) bool {
	switch from := src.(type) {
	case *gatewayv1.ChatCompletionsRequest:
		to, ok := dst.(*gatewayv1.ChatCompletionsRequest)
		if ok {
			to.RawJson = from.GetRawJson()
		}
		return ok
	case *gatewayv1.CompletionsRequest:
		to, ok := dst.(*gatewayv1.CompletionsRequest)
		if ok {
			to.RawJson = from.GetRawJson()
		}
		return ok
	}
	return false
}

// SendMsg writes a message's data.
func (s *served) SendMsg(m any) error {
	b, ok := m.(*httpbody.HttpBody)
	if !ok {
		return fault.New(faultv1.Reason_REASON_INTERNAL, "%T is no HttpBody", m)
	}
	return s.driven.call.Data(b.GetData())
}

// SetHeader and SendHeader take a head in metadata form.
func (s *served) SetHeader(md metadata.MD) error {
	h := headOf(md)
	return s.driven.call.Head(&h)
}

// SendHeader is SetHeader: heads go out at once.
func (s *served) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

// SetTrailer takes trailers in metadata form.
func (s *served) SetTrailer(md metadata.MD) { trailersOf(s.driven.call, md) }
