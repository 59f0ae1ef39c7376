package fakevllm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/api"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/fault"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/publish"
)

// Tokenizer turns text into token ids and back; see api.Tokenizer. It must be safe for concurrent use.
type Tokenizer = api.Tokenizer

// Renderer applies a chat template to the body of a chat request; see api.Renderer.
type Renderer = api.Renderer

// Deps are what a worker is given. Nil fields mean: no log, the byte tokenizer, the ChatML-like renderer.
type Deps struct {
	Log       *slog.Logger
	Tokenizer Tokenizer
	Renderer  Renderer
}

// Server is one simulated worker. Its methods may be called by any goroutine.
type Server struct {
	cfg      Config
	log      *slog.Logger
	handler  *api.Handler
	engines  []*engine.Engine
	events   []*publish.Publisher // one per rank; nil without events
	switches *fault.Switches
	control  net.Listener

	mu       sync.Mutex
	addr     string // of the HTTP port, with its number
	listener net.Listener
	http     *http.Server
	running  bool
	stopped  bool
	closers  sync.WaitGroup // HTTP servers that serve
}

// New validates cfg (after SetDefaults), binds all ports and is ready to Run. The HTTP port accepts connections from
// now on and answers once Run begins. Close or Run releases what New has bound.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulated worker configuration: %w", err)
	}
	s := &Server{cfg: cfg, log: deps.Log, switches: &fault.Switches{}}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.build(deps); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// bind opens the HTTP port, at the same number as before if it was open already.
func (s *Server) bind() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.addr
	if at == "" {
		at = s.cfg.Listen
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	s.addr, s.listener = l.Addr().String(), l
	if s.running {
		s.serve()
	}
	return nil
}

// serve answers the bound port in a goroutine of its own; the caller holds mu.
func (s *Server) serve() {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.http = srv
	l := s.listener
	s.closers.Go(func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.log.Error("simulated worker stopped serving", "error", err)
		}
	})
}

// unbind closes the HTTP port and every connection to it.
func (s *Server) unbind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return
	}
	_ = s.listener.Close()
	if s.http != nil {
		_ = s.http.Close()
	}
	s.listener, s.http = nil, nil
}

// Run serves until ctx ends and then closes everything; it returns nil for a clean stop. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.Close()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var engines sync.WaitGroup
	for _, e := range s.engines {
		engines.Go(func() { e.Run(inner) })
	}
	s.mu.Lock()
	if s.stopped || s.running {
		s.mu.Unlock()
		cancel()
		engines.Wait()
		return errors.New("simulated worker runs already or is closed")
	}
	s.running = true
	if s.listener != nil {
		s.serve()
	}
	s.mu.Unlock()
	s.log.Info("simulated vLLM worker serves", "address", s.Addr(), "model", s.cfg.Model)
	if s.control != nil {
		s.serveControl()
	}
	<-ctx.Done()
	cancel()
	engines.Wait() // every job has ended: handlers return by themselves
	return nil
}

// serveControl answers the control port, where only the faults are.
func (s *Server) serveControl() {
	srv := &http.Server{ReadHeaderTimeout: 30 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != api.ControlPath {
				http.NotFound(w, r)
				return
			}
			s.handler.ServeHTTP(w, r)
		})}
	s.closers.Go(func() { _ = srv.Serve(s.control) }) // ends when Close closes the listener
}

// Close releases the ports; Run does it too. It is safe to call more than once.
func (s *Server) Close() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	_ = s.switches.Put(Faults{Refuse: true}) // thaws, and closes the HTTP port through apply
	s.unbind()
	if s.control != nil {
		_ = s.control.Close()
	}
	s.closers.Wait()
	for _, p := range s.events {
		p.Close()
	}
}

// Addr is the HTTP address with its port number.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// ControlAddr is the address of the control port, "" if there is none.
func (s *Server) ControlAddr() string {
	if s.control == nil {
		return ""
	}
	return s.control.Addr().String()
}

// Ready is nil while the worker would answer.
func (s *Server) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.running:
		return errors.New("simulated worker has not begun to run")
	case s.stopped:
		return errors.New("simulated worker is closed")
	case s.listener == nil:
		return errors.New("simulated worker refuses connections by a fault switch")
	}
	return nil
}

// SetFaults replaces all switches.
func (s *Server) SetFaults(f Faults) error { return s.switches.Put(f) }

// CurrentFaults returns the switches.
func (s *Server) CurrentFaults() Faults { return s.switches.Get() }

// apply carries out the switches that are not read per request.
func (s *Server) apply(f Faults) error {
	s.mu.Lock()
	open, stopped := s.listener != nil, s.stopped
	s.mu.Unlock()
	for _, e := range s.engines {
		e.Freeze(f.Freeze)
	}
	switch {
	case f.Refuse && open:
		s.unbind()
	case !f.Refuse && !open && !stopped:
		if err := s.bind(); err != nil {
			return err
		}
	}
	if stopped {
		return nil
	}
	for _, p := range s.events {
		err := p.SetFaults(publish.Faults{DropOneIn: f.DropEventOneIn, Stopped: f.StopEvents, WrongBind: f.WrongBind})
		if err != nil {
			return err
		}
	}
	return nil
}

// Restart does what the end of a process and the start of a new one look like from outside: requests are aborted, the
// cache is empty, nothing is announced, event sequence numbers begin at 0, sockets close and open at the same ports.
func (s *Server) Restart() error {
	for _, e := range s.engines {
		e.Restart()
	}
	for _, p := range s.events {
		if err := p.Restart(); err != nil {
			return err
		}
	}
	return nil
}
