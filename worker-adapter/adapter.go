// Package workeradapter is the mesh's view of one vLLM process.
//
// It asks the worker over HTTP what it is and how loaded it is, keeps its card in the registry while it lives, follows
// its KV events rank by rank into a mirror of its cache, and publishes what changes as units: hashes, never prompts.
// Each part stands alone: a worker without events still has a card, and a card outlives a lost event stream.
package workeradapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/parity"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// Bus is the part of kit/bus that an adapter uses: the registry, where a card that is not refreshed ends with its
// lease, and subjects, on which Publish neither blocks nor changes the order of calls.
type Bus interface {
	PutCard(ctx context.Context, card *workerv1.WorkerCard) error
	DeleteCard(ctx context.Context, workerID string) error
	Publish(ctx context.Context, subject bus.Subject, m proto.Message) error
}

// Deps are what an adapter works with.
type Deps struct {
	Log        *slog.Logger
	Registerer prometheus.Registerer
	// Clock is time.Now but in tests.
	Clock func() time.Time
	Bus   Bus
	// Template and Tokenizer make prompts to compare with the worker's own. Without both nothing is compared.
	Template  templatev1.TemplateServiceClient
	Tokenizer tokenizerv1.TokenizerServiceClient
}

// Service is the adapter of one worker.
type Service struct {
	cfg     Config
	deps    Deps
	log     *slog.Logger
	clock   func() time.Time
	client  *vllm.Client
	metrics *metrics
	epoch   uint64
	follow  follower

	mu       sync.Mutex
	view     vllm.View
	draining string
	findings parity.Findings
	card     error
	events   workerv1.EventState
	state    workerv1.WorkerState
	ready    bool // it was ready once
	wake     chan struct{}
}

// New checks the configuration and prepares an adapter. The worker need not be there.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("worker-adapter configuration: %w", err)
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	client, err := vllm.NewClient(cfg.URL, cfg.APIKey)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, deps: deps, clock: deps.Clock, client: client,
		log: deps.Log.With("worker", cfg.ID), metrics: newMetrics(deps.Registerer, cfg.ID),
		epoch: uint64(deps.Clock().UnixMilli()), wake: make(chan struct{}, 1),
		card: errors.New("the worker was not asked yet"),
	}
	s.follow.svc = s
	return s, nil
}

// Register makes the adapter answer WorkerService.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	workerv1.RegisterWorkerServiceServer(r, server{svc: s})
}

// Ready is nil once a card was published that says how the events of a running worker are, and stays so: an adapter that
// cannot reach the registry, or whose worker starts again, still answers schedulers that ask for snapshots. It does not
// wait for the worker: an adapter before its worker is in order.
func (s *Service) Ready(context.Context) error {
	connecting := s.follow.connecting()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return nil
	}
	undecided := s.events == workerv1.EventState_EVENT_STATE_UNSPECIFIED ||
		s.events == workerv1.EventState_EVENT_STATE_CATCHING_UP && connecting
	if s.card == nil && s.view.Life == vllm.Ready && undecided {
		return errors.New("the worker's events are being connected")
	}
	s.ready = s.card == nil
	return s.card
}

// Run watches the worker until ctx ends. Then it takes the worker out of routing, waits until its requests have ended
// or the drain timeout has passed, and gives the lease back. It returns nil after a clean stop.
func (s *Service) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer s.client.Close()
	defer s.follow.halt()
	w := vllm.NewWatcher(s.client, s.clock)
	defer w.Wait()
	var side sync.WaitGroup
	side.Go(func() { s.probe(work) })
	side.Go(func() { s.keepCard(work) })
	defer side.Wait()
	defer cancel()
	for ctx.Err() == nil {
		s.step(ctx, work, w)
		s.pause(ctx)
	}
	s.leave(work, w)
	cancel()
	side.Wait()
	s.withdraw(context.WithoutCancel(ctx))
	return nil
}

// step asks the worker, moves the streams, and has the card published. Streams outlive ctx: they end with work.
func (s *Service) step(ctx, work context.Context, w *vllm.Watcher) {
	if s.follow.deaf() {
		w.Reread()
	}
	v := w.Step(ctx)
	if ctx.Err() != nil {
		return
	}
	s.follow.follow(work, &v)
	s.mu.Lock()
	before := s.view
	s.view = v
	s.mu.Unlock()
	if before.Life != v.Life || before.Detail != v.Detail {
		s.log.Info("worker changed", "life", lifeNames[v.Life], "detail", v.Detail)
	}
	s.nudge()
}

// cardEvery is the longest pause between two cards, a third of the default lease.
const cardEvery = time.Second

// keepCard publishes the card after each step, and every second whatever the worker does: a worker that hangs keeps its
// lease and shows the age of its numbers.
func (s *Service) keepCard(ctx context.Context) {
	t := time.NewTicker(cardEvery)
	defer t.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-t.C:
		case <-again:
		}
		again = nil
		if s.putCard(ctx) {
			again = time.After(repeatAfter)
		}
	}
}

// repeatAfter is when news is told once more: NATS may lose it on the way to a scheduler, which sees that only when
// something follows.
const repeatAfter = 100 * time.Millisecond

// putTimeout bounds one publication of the card. NATS answers within milliseconds: a longer silence is a lost message,
// and what the card says should not wait for it.
const putTimeout = 400 * time.Millisecond

// putCard publishes the card as of now, and reports whether it says something new of the worker's or its events' state.
func (s *Service) putCard(ctx context.Context) (news bool) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	card := s.makeCard()
	err := s.deps.Bus.PutCard(ctx, card)
	if err != nil && ctx.Err() == nil {
		s.log.Warn("card not published", "error", err)
	}
	s.metrics.observe(card, s.follow.all())
	s.mu.Lock()
	was, stood := s.events, s.state
	s.card, s.events, s.state = err, card.GetEventState(), card.GetState()
	s.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) {
		s.nudge()
	}
	if was != card.GetEventState() {
		s.log.Info("KV events changed", "state", card.GetEventState(), "detail", card.GetEventDetail())
	}
	return was != card.GetEventState() || stood != card.GetState()
}

// pause waits until the next step is due: soon while the worker is busy, and while it or its events are not there, or it
// sleeps or does not answer, because requests wait for the moment when it is back, or for the word that it is sick.
func (s *Service) pause(ctx context.Context) {
	deaf := s.follow.deaf()
	s.mu.Lock()
	d := s.cfg.PollIdle
	away := s.view.Life == vllm.Starting || s.view.Life == vllm.Asleep || s.view.Suspect
	if deaf || away || s.view.Busy() || s.draining != "" {
		d = s.cfg.PollBusy
	}
	s.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// nudge has the card published at once.
func (s *Service) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
