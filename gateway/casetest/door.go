package casetest

import (
	"context"
	"fmt"
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
	// Config is the gateway's.
	Config gateway.Config
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
	c.Hedge, c.ContinueStreams = gateway.HedgeConfig{Delay: ms(s.HedgeDelayMS), Budget: 1}, s.ContinueStreams
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
	t := &Target{BaseURL: "http://" + g.Addr(ctx), Config: setup.Config()}
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
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	g.Register(server)
	go func() { _ = server.Serve(pipe) }()
	dialer := func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }
	out, err := Cross(ctx, t, "passthrough:///gateway", grpc.WithContextDialer(dialer))
	if err != nil {
		return nil, err
	}
	inner := out.Stop
	out.Stop = func() {
		server.Stop()
		inner()
	}
	return out, nil
}

// maxMessage is room for the largest body of any case.
const maxMessage = 64 << 20

// Cross puts a REST edge in front of a target's gateway that reaches it through real gRPC at address: what a case asks
// over HTTP then crosses the gRPC services. Stop ends both.
func Cross(ctx context.Context, t *Target, address string, opts ...grpc.DialOption) (*Target, error) {
	conn, err := grpc.NewClient(address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage), grpc.WaitForReady(true),
		))...)
	if err != nil {
		return nil, err
	}
	asks := func(path string) func(context.Context) error {
		return func(ctx context.Context) error { return ask(ctx, t.BaseURL+path) }
	}
	handler, err := gateway.RemoteEdge(ctx, t.Config, conn, asks("/health"), asks("/ready"))
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	edge := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { _ = edge.Serve(ln) }()
	return &Target{BaseURL: "http://" + ln.Addr().String(), Config: t.Config, Inflight: t.Inflight, Stop: func() {
		_ = edge.Close()
		_ = conn.Close()
		t.Stop()
	}}, nil
}

// ask is nil when a GET is answered with 200.
func ask(ctx context.Context, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	q.Close = true
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", q.URL.Path, resp.StatusCode)
	}
	return nil
}
