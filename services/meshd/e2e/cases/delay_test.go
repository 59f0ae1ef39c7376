package cases

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// slow is a gRPC server that hands unary calls on to another one after a pause, whatever they are.
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

// startSlow listens on a free port in front of target, a host:port.
func startSlow(target string, pause time.Duration) (*slow, error) {
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
		grpc.UnknownServiceHandler(func(_ any, st grpc.ServerStream) error { return s.hand(st, pause) }))
	go func() { _ = s.server.Serve(lis) }()
	return s, nil
}

// hand waits, or ends with the caller, and passes one call on.
func (s *slow) hand(st grpc.ServerStream, pause time.Duration) error {
	method, ok := grpc.MethodFromServerStream(st)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	var q, a []byte
	if err := st.RecvMsg(&q); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(st.Context(), time.Minute)
	defer cancel()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.conn.Invoke(ctx, method, &q, &a); err != nil {
		return err
	}
	return st.SendMsg(&a)
}

func (s *slow) stop() {
	s.server.Stop()
	_ = s.conn.Close()
}
