package casetest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kvmesh/kvmesh/gateway"
)

// Target is a running mesh in front of a case's fleet.
type Target struct {
	// BaseURL is the REST address.
	BaseURL string
	// Inflight is how many reservations are open and requests wait; nil when it cannot be told.
	Inflight func() int
	// Stop ends the mesh and waits for its goroutines.
	Stop func()
}

// Door starts a mesh for a case. Doors decide what stands between client and workers: a gateway alone with small
// stand-ins for the other services, or a whole mesh.
type Door interface {
	Open(ctx context.Context, setup Setup, fleet *Fleet) (*Target, error)
}

// Local is a gateway in this process; its scheduler, template and tokenizer services are stand-ins. With GRPC the
// REST client's requests cross a real gRPC connection on their way to the gateway's services.
type Local struct {
	Log  *slog.Logger
	GRPC bool
}

// Config is a gateway configuration for a case.
func (s Setup) Config() gateway.Config {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	c := gateway.Config{Address: "127.0.0.1:0", WorkerKey: s.WorkerAPIKey, Aliases: s.ModelAliases}
	for _, k := range s.APIKeys {
		c.Keys = append(c.Keys, gateway.Key{Key: k, RequestsPerMinute: s.RequestsPerMinute})
	}
	c.MaxBodyBytes, c.MaxChoices = s.MaxBodyBytes, s.MaxChoices
	c.MaxInflightPerWorker, c.QueueTimeout = s.MaxInflightPerWorker, ms(s.QueueTimeoutMS)
	if s.QueueLimit != nil {
		if c.QueueLimit = *s.QueueLimit; c.QueueLimit == 0 {
			c.QueueLimit = -1
		}
	}
	c.RequestTimeout, c.StreamIdleTimeout = ms(s.RequestTimeoutMS), ms(s.StreamIdleTimeoutMS)
	c.KeepaliveInterval = ms(s.KeepaliveMS)
	if s.Retries != nil {
		c.Attempts = *s.Retries + 1
	}
	c.DrainTimeout = time.Second
	return c
}

// Open starts the gateway.
func (l Local) Open(ctx context.Context, setup Setup, fleet *Fleet) (*Target, error) {
	scheduler := NewScheduler(fleet)
	g, err := gateway.New(ctx, setup.Config(), gateway.Deps{
		Log: l.Log, Template: template{setup: setup}, Tokenizer: tokenizer{setup: setup}, Scheduler: scheduler,
	})
	if err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := g.Run(run); err != nil {
			l.Log.Error("gateway ended", "error", err)
		}
	}()
	t := &Target{BaseURL: "http://" + g.Addr(ctx)}
	t.Inflight = func() int {
		running, waiting := g.Inflight()
		return running + waiting + scheduler.Inflight()
	}
	t.Stop = func() {
		cancel()
		<-ended
	}
	if l.GRPC {
		return l.cross(ctx, g, t)
	}
	return t, nil
}

// cross puts a real gRPC connection between a second REST edge and the gateway.
func (l Local) cross(ctx context.Context, g *gateway.Service, t *Target) (*Target, error) {
	pipe := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20))
	g.Register(server)
	go func() { _ = server.Serve(pipe) }()
	conn, err := grpc.NewClient("passthrough:///gateway", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		return nil, err
	}
	handler, err := g.RemoteEdge(ctx, conn)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	edge := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(l.Log.Handler(), slog.LevelDebug)}
	go func() { _ = edge.Serve(ln) }()
	inner := t.Stop
	out := &Target{BaseURL: "http://" + ln.Addr().String(), Inflight: t.Inflight}
	out.Stop = func() {
		_ = edge.Close()
		_ = conn.Close()
		server.Stop()
		inner()
	}
	return out, nil
}
