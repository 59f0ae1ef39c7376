package rpc_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, in, problem string }{
		{"mem", "mem://scheduler", ""},
		{"unix", "unix:///run/s", ""},
		{"tcp", "tcp://127.0.0.1:80", ""},
		{"tcp with all interfaces", "tcp://:8081", ""},
		{"tcp with IPv6", "tcp://[::1]:8081", ""},
		{"no scheme", "127.0.0.1:80", "has no scheme"},
		{"empty", "", "has no scheme"},
		{"nothing behind", "mem://", "nothing after its scheme"},
		{"other scheme", "http://x:1", `unknown scheme "http"`},
		{"no port", "tcp://localhost", "missing port"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a, err := rpc.ParseAddress(row.in)
			if row.problem != "" {
				require.ErrorContains(t, err, row.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.in, a.String())
		})
	}
}

func TestConfigsReportAllFaults(t *testing.T) {
	t.Parallel()
	server := rpc.ServerConfig{Address: "nowhere", TLS: rpc.ServerTLS{Cert: "c", ClientCA: "a"}, MaxRecv: -1}
	server.SetDefaults()
	err := server.Validate()
	for _, want := range []string{"address: ", "tls.key: ", "max_recv: "} {
		require.ErrorContains(t, err, want)
	}
	client := rpc.ClientConfig{Timeout: -1, MaxRecv: -1, TLS: rpc.ClientTLS{Key: "k"}}
	err = client.Validate()
	for _, want := range []string{"timeout: ", "max_recv: ", "tls.key: "} {
		require.ErrorContains(t, err, want)
	}
	_, err = rpc.NewServer(rpc.ServerConfig{Address: "x"}, rpc.ServerDeps{Log: kittest.Logger(t)})
	require.ErrorContains(t, err, "has no scheme")
	_, err = rpc.NewServer(rpc.ServerConfig{Address: "mem://x"}, rpc.ServerDeps{Log: kittest.Logger(t)})
	require.ErrorContains(t, err, "needs a Network")
	_, err = rpc.Dial("mem://x", rpc.ClientConfig{}, rpc.ClientDeps{})
	require.ErrorContains(t, err, "only inside one process")
	_, err = rpc.Dial("tcp://127.0.0.1:1", rpc.ClientConfig{TLS: rpc.ClientTLS{CA: "/does/not/exist"}}, rpc.ClientDeps{})
	require.ErrorContains(t, err, "/does/not/exist")
	_, err = rpc.Listen("mem://x")
	require.ErrorContains(t, err, "in memory")
}

func TestInterceptorsAreCheckedAndOrdered(t *testing.T) {
	t.Parallel()
	var order []string
	named := func(name string) rpc.Interceptor {
		return rpc.Interceptor{
			Name: name,
			Unary: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
				order = append(order, name)
				return h(ctx, req)
			},
			Stream: func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
				order = append(order, name)
				return h(srv, ss)
			},
		}
	}
	e := &echo{
		unary:  func(context.Context, *text) (*text, error) { return say(""), nil },
		server: func(*text, grpc.ServerStream) error { return nil },
	}
	b := open(t, doors()[0], rpc.ServerDeps{Interceptors: []rpc.Interceptor{named("a"), named("b")}}, e)
	_, err := callUnary(shortly(t), b.conn, "")
	require.NoError(t, err)
	s, err := openServer(shortly(t), b.conn, "")
	require.NoError(t, err)
	_, err = drain(s)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "a", "b"}, order)

	half := named("half")
	half.Stream = nil
	for name, list := range map[string][]rpc.Interceptor{
		"both": {half}, "twice": {named("x"), named("x")}, "core": {named("core")}, "empty": {named("")},
	} {
		_, err := rpc.NewServer(rpc.ServerConfig{Address: "mem://x"},
			rpc.ServerDeps{Log: kittest.Logger(t), Network: rpc.NewNetwork(), Interceptors: list})
		require.Error(t, err, name)
	}
}

// TestMemSharesAndDoesNotConvert: messages pass whole (unknown fields, oneofs, maps) and share their slices.
func TestMemSharesAndDoesNotConvert(t *testing.T) {
	t.Parallel()
	network := rpc.NewNetwork()
	hashes := []uint64{1, 2, 3}
	in := &schedulerv1.RouteRequest{UnitHashes: hashes, Model: "m"}
	in.ProtoReflect().SetUnknown([]byte{0xa8, 0x46, 0x01})
	value, err := structpb.NewValue(map[string]any{"a": []any{1.0, "x", nil}})
	require.NoError(t, err)
	var seen *schedulerv1.RouteRequest
	desc := &grpc.ServiceDesc{
		ServiceName: "test.Any", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Route", Handler: func(
				_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor,
			) (any, error) {
				seen = new(schedulerv1.RouteRequest)
				return value, dec(seen)
			}},
			{MethodName: "Nil", Handler: func(
				_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor,
			) (any, error) {
				return (*structpb.Value)(nil), dec(new(schedulerv1.RouteRequest))
			}},
		},
	}
	kittest.Serve(t, rpc.ServerConfig{Address: "mem://any"}, rpc.ServerDeps{Network: network},
		func(r grpc.ServiceRegistrar) { r.RegisterService(desc, struct{}{}) })
	conn := kittest.Dial(t, "mem://any", network)
	out := new(structpb.Value)
	require.NoError(t, conn.Invoke(shortly(t), "/test.Any/Route", in, out))
	require.True(t, proto.Equal(in, seen))
	require.NotSame(t, in, seen)
	require.Same(t, &hashes[0], &seen.UnitHashes[0])
	require.True(t, proto.Equal(value, out))

	require.Error(t, conn.Invoke(shortly(t), "/test.Any/Route", in, new(structpb.Struct)), "wrong response type")
	require.Error(t, conn.Invoke(shortly(t), "/test.Any/Route", value, out), "wrong request type")
	require.Error(t, conn.Invoke(shortly(t), "/test.Any/Nil", in, out), "a nil response")
}
