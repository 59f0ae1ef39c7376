package rpc_test

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// The tests need a service with every kind of method whose behaviour each test decides. It is written out here the way
// generated code registers one.

// Full names of its methods.
const (
	methodUnary  = "/test.Echo/Unary"
	methodEncode = "/test.Echo/Encode"
	methodServer = "/test.Echo/Server"
	methodClient = "/test.Echo/Client"
	methodBidi   = "/test.Echo/Bidi"
)

type text = wrapperspb.StringValue

// echo answers with what the test sets; an unset stream method returns at once.
type echo struct {
	unary  func(ctx context.Context, in *text) (*text, error)
	encode func(ctx context.Context, in *tokenizerv1.EncodeRequest) (*tokenizerv1.EncodeResponse, error)
	server func(in *text, s grpc.ServerStream) error
	bidi   func(s grpc.ServerStream) error // also the client-streaming method
}

func (e *echo) register(r grpc.ServiceRegistrar) { r.RegisterService(echoDesc(), e) }

func echoDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Unary", Handler: unaryHandler(methodUnary, func(e *echo) func(context.Context, *text) (*text, error) {
				return e.unary
			})},
			{MethodName: "Encode", Handler: unaryHandler(methodEncode,
				func(e *echo) func(context.Context, *tokenizerv1.EncodeRequest) (*tokenizerv1.EncodeResponse, error) {
					return e.encode
				})},
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "Server", ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
				in := new(text)
				if err := s.RecvMsg(in); err != nil {
					return err
				}
				return srv.(*echo).server(in, s)
			}},
			{StreamName: "Client", ClientStreams: true, Handler: callBidi},
			{StreamName: "Bidi", ClientStreams: true, ServerStreams: true, Handler: callBidi},
		},
	}
}

func callBidi(srv any, s grpc.ServerStream) error { return srv.(*echo).bidi(s) }

// unaryHandler is what protoc-gen-go-grpc writes for a unary method.
func unaryHandler[In, Out any](method string, pick func(*echo) func(context.Context, *In) (*Out, error)) grpc.MethodHandler {
	return func(srv any, ctx context.Context, dec func(any) error, wrap grpc.UnaryServerInterceptor) (any, error) {
		in := new(In)
		if err := dec(in); err != nil {
			return nil, err
		}
		call := func(ctx context.Context, req any) (any, error) {
			out, err := pick(srv.(*echo))(ctx, req.(*In))
			if err != nil {
				return nil, err
			}
			return out, nil
		}
		if wrap == nil {
			return call(ctx, in)
		}
		return wrap(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: method}, call)
	}
}

// Client side.

func say(s string) *text { return wrapperspb.String(s) }

func callUnary(ctx context.Context, c rpc.Conn, in string, opts ...grpc.CallOption) (string, error) {
	out := new(text)
	err := c.Invoke(ctx, methodUnary, say(in), out, opts...)
	return out.GetValue(), err
}

func serverStream() *grpc.StreamDesc { return &grpc.StreamDesc{ServerStreams: true} }

func bidiStream() *grpc.StreamDesc { return &grpc.StreamDesc{ServerStreams: true, ClientStreams: true} }

// openServer starts the server-streaming method as generated code does.
func openServer(ctx context.Context, c rpc.Conn, in string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.NewStream(ctx, serverStream(), methodServer, opts...)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(say(in)); err != nil {
		return nil, err
	}
	return s, s.CloseSend()
}

func recvText(s interface{ RecvMsg(any) error }) (string, error) {
	m := new(text)
	err := s.RecvMsg(m)
	return m.GetValue(), err
}
