package rpc

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// healthPublisher polls readiness and publishes it as gRPC health, for the whole server ("") and each service. Clients
// of tcp:// servers balance by it.
type healthPublisher struct {
	every time.Duration
	log   *slog.Logger
	ready func(context.Context) error
	srv   *health.Server
	over  chan struct{} // closed by stop

	mu      sync.Mutex // guards the fields below: start and stop may meet
	cancel  context.CancelFunc
	done    chan struct{}
	stopped bool
}

// newHealthPublisher reports NOT_SERVING until the first poll.
func newHealthPublisher(every time.Duration, log *slog.Logger) *healthPublisher {
	h := &healthPublisher{every: every, log: log, srv: health.NewServer(), over: make(chan struct{})}
	h.srv.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	return h
}

// register adds grpc.health.v1.Health to a server.
func (h *healthPublisher) register(r grpc.ServiceRegistrar) {
	healthv1.RegisterHealthServer(r, healthService{h.srv, h.over})
}

// healthService ends its watches when the server stops. Every client with health checking holds one for as long as it
// is connected; a graceful stop would wait for them until its time is over.
type healthService struct {
	*health.Server
	over <-chan struct{}
}

// Watch is health.Server's until the server stops.
func (s healthService) Watch(in *healthv1.HealthCheckRequest, ss healthv1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	go func() { // ends with the call
		select {
		case <-s.over:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := s.Server.Watch(in, watchStream{ss, ctx})
	select {
	case <-s.over:
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server is stopping")
	default:
		return err
	}
}

// watchStream is a watch with the context that the stop ends.
type watchStream struct {
	healthv1.Health_WatchServer
	ctx context.Context //nolint:containedctx // the stream hands out its context
}

func (s watchStream) Context() context.Context { return s.ctx }

// start polls once before it returns, so that a ready server is never seen as unready, and goes on in a goroutine that
// stop ends.
func (h *healthPublisher) start(services []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped || h.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan struct{})
	last := h.poll(ctx, services, nil)
	if h.ready == nil {
		close(h.done)
		return
	}
	go func() {
		defer close(h.done)
		pause := time.NewTimer(h.pause(last))
		defer pause.Stop()
		for {
			select {
			case <-pause.C:
				last = h.poll(ctx, services, &last)
				pause.Reset(h.pause(last))
			case <-ctx.Done():
				return
			}
		}
	}()
}

// unreadyEvery is how often a server is asked that is not ready: its callers wait for it, and the question is a call
// within the process.
const unreadyEvery = 50 * time.Millisecond

// pause is the time to the next poll after an answer; an empty one is good.
func (h *healthPublisher) pause(why string) time.Duration {
	if why == "" {
		return h.every
	}
	return min(h.every, unreadyEvery)
}

// poll asks once and publishes; it logs when the answer differs from the last one.
func (h *healthPublisher) poll(ctx context.Context, services []string, last *string) string {
	why := ""
	if h.ready != nil {
		ctx, cancel := context.WithTimeout(ctx, h.every)
		defer cancel()
		if err := h.ready(ctx); err != nil {
			why = err.Error()
		}
	}
	if ctx.Err() != nil { // stopping: shutdown has the last word
		return why
	}
	st := healthv1.HealthCheckResponse_SERVING
	if why != "" {
		st = healthv1.HealthCheckResponse_NOT_SERVING
	}
	h.srv.SetServingStatus("", st)
	for _, s := range services {
		h.srv.SetServingStatus(s, st)
	}
	if last != nil && (*last == "") != (why == "") {
		h.log.Info("readiness changed", "ready", why == "", "reason", why)
	}
	return why
}

// stop reports NOT_SERVING for good and ends the polling.
func (h *healthPublisher) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return
	}
	h.stopped = true
	h.srv.Shutdown()
	close(h.over)
	if h.cancel != nil {
		h.cancel()
		<-h.done
	}
}

// HealthCheck asks the gRPC health of the server behind conn; nil means that it serves.
func HealthCheck(ctx context.Context, conn grpc.ClientConnInterface) error {
	resp, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server answers, but it is not ready")
	}
	return nil
}
