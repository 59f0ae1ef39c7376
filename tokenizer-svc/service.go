// Package tokenizersvc is kvmesh's tokenizer service: it turns prompts into token ids and unit hashes exactly as a
// worker's tokenizer does, and ids back into text. It is the one service that links C code.
package tokenizersvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hub"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/textlimit"
)

// Deps are what the service is given and does not close.
type Deps struct {
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Service implements kvmesh.tokenizer.v1.TokenizerService.
type Service struct {
	tokenizerv1.UnimplementedTokenizerServiceServer

	cfg      Config
	limits   textlimit.Limits
	registry *registry.Registry
	auditor  *model.Auditor
	threads  *hf.Threads
	metrics  *metrics
	// slots holds one entry per encode that runs.
	slots     chan struct{}
	encodings sync.Pool
}

var _ tokenizerv1.TokenizerServiceServer = (*Service)(nil)

// New returns a service that loads its models once Run is called. It takes cfg as it is: SetDefaults is the caller's.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("tokenizer configuration: %w", err)
	}
	var cache *segment.Cache
	if !cfg.NoSegmentCache {
		cache = segment.NewCache(int(cfg.SegmentCacheBytes))
	}
	s := &Service{cfg: cfg, threads: hf.NewThreads(cfg.FastThreads), slots: make(chan struct{}, cfg.Parallel)}
	s.limits = textlimit.Limits{
		Text: int(cfg.MaxTextBytes), ReferenceText: int(cfg.MaxReferenceTextBytes), Run: int(cfg.MaxRunBytes),
	}
	s.encodings.New = func() any { return new(model.Encoding) }
	s.metrics = newMetrics(s, cache)
	log := deps.Log
	s.auditor = model.NewAuditor(cfg.AuditEvery, func(m *model.Model, o model.Outcome) {
		s.metrics.audits.WithLabelValues(m.Name(), string(o)).Inc()
		if o == model.Differs {
			log.Error("an audited request differed from the reference; the fast engine is off for this model",
				slog.String("model", m.Name()))
		}
	})
	opener := &registry.Native{Threads: s.threads, Cache: cache, ReferenceOnly: cfg.Engine == engineReference}
	var err error
	s.registry, err = registry.New(registry.Config{
		Specs: specs(cfg.Models), Opener: opener, Fetcher: fetcher(cfg), Interval: cfg.ReloadInterval,
		OnLoad: s.metrics.loaded, Log: log,
	})
	if err != nil {
		return nil, err
	}
	if err := s.metrics.register(deps.Registerer); err != nil {
		return nil, fmt.Errorf("register tokenizer metrics: %w", err)
	}
	return s, nil
}

// specs turns the configured models into the registry's.
func specs(models []ModelConfig) []registry.Spec {
	out := make([]registry.Spec, len(models))
	for i, m := range models {
		out[i] = registry.Spec{Name: m.Name, Path: m.Path, Hub: m.Hub, Revision: m.Revision, Worker: m.Worker, Transformers4: m.Transformers == 4}
	}
	return out
}

// boundFetcher gives each download the configured time.
type boundFetcher struct {
	client  *hub.Client
	timeout time.Duration
}

// Fetch downloads within the time.
func (f boundFetcher) Fetch(ctx context.Context, name, revision string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return f.client.Fetch(ctx, name, revision)
}

// fetcher makes the hub client. It connects to nothing until a model asks.
func fetcher(cfg Config) registry.Fetcher {
	return boundFetcher{timeout: cfg.Hub.Timeout, client: hub.New(hub.Config{
		Address: cfg.Hub.Address, Token: cfg.Hub.Token, CacheDir: cfg.Hub.CacheDir, Files: definition.Files(),
	}, nil)}
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { tokenizerv1.RegisterTokenizerServiceServer(r, s) }

// Run loads the models in the background and keeps them current until ctx ends. The server must have stopped taking
// requests before; those still running finish.
func (s *Service) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { s.registry.Run(ctx) })
	group.Go(func() { s.auditor.Run(ctx) })
	group.Wait()
	s.threads.Close()
	return nil
}

// Ready returns nil once every model's first load has ended and one of them, if any is configured, answers.
func (s *Service) Ready(context.Context) error {
	var loading, failed []string
	ready := 0
	list := s.registry.List()
	for _, status := range list {
		switch status.State {
		case registry.Loading:
			loading = append(loading, status.Spec.Name)
		case registry.Ready:
			ready++
		case registry.Failed, registry.Unsupported:
			failed = append(failed, status.Spec.Name)
		}
	}
	if len(loading) > 0 {
		return fmt.Errorf("tokenizers are loading: %s", strings.Join(loading, ", "))
	}
	if ready == 0 && len(list) > 0 {
		return fmt.Errorf("no tokenizer could be loaded: %s", strings.Join(failed, ", "))
	}
	select {
	case <-s.registry.Loaded():
		return nil
	default:
		return errors.New("the tokenizer service is starting")
	}
}
