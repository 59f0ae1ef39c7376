package cases

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// slow is a gRPC server that hands unary calls on to another one when a gate lets them, whatever they are.
type slow struct {
	server *grpc.Server
	conn   *grpc.ClientConn
	addr   string
}

// raw carries messages as the bytes they are.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a %T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a %T is no message", v)
	}
	*b = data.Materialize()
	return nil
}

// gate holds a call of a method for as long as it likes; its error ends the call.
type gate func(ctx context.Context, method string) error

// after is a gate that opens for each call after a pause.
func after(pause time.Duration) gate {
	return func(ctx context.Context, _ string) error {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// startSlow listens on a free port in front of target, a host:port.
func startSlow(target string, open gate) (*slow, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &slow{conn: conn, addr: lis.Addr().String()}
	s.server = grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.MaxRecvMsgSize(64<<20),
		grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error { return s.hand(st, open) }))
	go func() { _ = s.server.Serve(lis) }()
	return s, nil
}

// hand passes one call on, unless it ends at the gate.
func (s *slow) hand(st grpc.ServerStream, open gate) error {
	method, ok := grpc.MethodFromServerStream(st)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	var q, a []byte
	if err := st.RecvMsg(&q); err != nil {
		return err
	}
	if method == healthpb.Health_Watch_FullMethodName {
		return watched(st)
	}
	ctx, cancel := context.WithTimeout(st.Context(), time.Minute)
	defer cancel()
	if err := open(ctx, method); err != nil {
		return err
	}
	if err := s.conn.Invoke(ctx, method, &q, &a); err != nil {
		return err
	}
	return st.SendMsg(&a)
}

// watched says once that the server serves; without it callers send nothing.
func watched(st grpc.ServerStream) error {
	state, err := proto.Marshal(&healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING})
	if err != nil {
		return err
	}
	if err := st.SendMsg(&state); err != nil {
		return err
	}
	<-st.Context().Done()
	return nil
}

func (s *slow) stop() {
	s.server.Stop()
	_ = s.conn.Close()
}
