package obs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// AdminConfig is what a configuration file says about the admin server.
type AdminConfig struct {
	// Address is tcp:// or unix://.
	Address string `yaml:"address" doc:"where health, readiness, metrics and profiles are served"`
	// RemoteProfiles lets other machines take profiles, which may show parts of memory.
	RemoteProfiles bool `yaml:"remote_profiles" doc:"let other machines take profiles"`
}

// SetDefaults fills what is zero: a port on this machine only.
func (c *AdminConfig) SetDefaults() {
	if c.Address == "" {
		c.Address = "tcp://127.0.0.1:8082"
	}
}

// Validate reports everything that is wrong.
func (c *AdminConfig) Validate() error {
	var f conf.Faults
	a, err := rpc.ParseAddress(c.Address)
	if err != nil {
		f.Add("address", "%v", err)
	}
	f.Require(a.Scheme != rpc.SchemeMem, "address", "mem:// has no HTTP; use tcp:// or unix://")
	return f.Err()
}

// AdminDeps is what the admin server shows.
type AdminDeps struct {
	// Log gets the server's own trouble. Required.
	Log *slog.Logger
	// Gatherer has the metrics. Required.
	Gatherer prometheus.Gatherer
	// NotReady lists what is not ready; empty is ready. Required.
	NotReady func(context.Context) []lifecycle.NotReady
	// Handlers are served beside the built-in paths, by mux pattern.
	Handlers map[string]http.Handler
}

// Admin is the admin HTTP server: /healthz says that the process lives, /readyz whether it can work and what keeps it
// from it, /metrics is Prometheus's, /debug/pprof/ Go's, / a page that shows the metrics.
type Admin struct {
	cfg AdminConfig
	log *slog.Logger
	srv *http.Server

	mu   sync.Mutex
	lis  net.Listener
	done chan struct{} // closed when Serve has returned
}

// Limits of the admin server: its requests are small.
const (
	adminHeaderTimeout = 5 * time.Second
	adminHeaderBytes   = 16 << 10
	readyTimeout       = 2 * time.Second
)

// NewAdmin makes an admin server that does not listen yet.
func NewAdmin(cfg AdminConfig, deps AdminDeps) (*Admin, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("admin config: %w", err)
	}
	a := &Admin{cfg: cfg, log: deps.Log}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", readyz(deps.NotReady))
	mux.Handle("GET /metrics", promhttp.HandlerFor(deps.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("/debug/pprof/", a.local(pprof.Index))
	mux.Handle("/debug/pprof/cmdline", a.local(pprof.Cmdline))
	mux.Handle("/debug/pprof/profile", a.local(pprof.Profile))
	mux.Handle("/debug/pprof/symbol", a.local(pprof.Symbol))
	mux.Handle("/debug/pprof/trace", a.local(pprof.Trace))
	dashboard(mux)
	for pattern, h := range deps.Handlers {
		mux.Handle(pattern, h)
	}
	a.srv = &http.Server{
		Handler: mux, ReadHeaderTimeout: adminHeaderTimeout, MaxHeaderBytes: adminHeaderBytes,
		ErrorLog: slog.NewLogLogger(deps.Log.Handler(), slog.LevelDebug),
	}
	return a, nil
}

// Readiness is the body of /readyz.
type Readiness struct {
	// Ready is true when NotReady is empty.
	Ready bool `json:"ready"`
	// NotReady lists what keeps the process from working.
	NotReady []lifecycle.NotReady `json:"not_ready"`
}

// readyz bounds the checks: a probe that hangs tells its caller less than one that fails.
func readyz(notReady func(context.Context) []lifecycle.NotReady) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		body := Readiness{NotReady: notReady(ctx)}
		body.Ready = len(body.NotReady) == 0
		if body.Ready {
			body.NotReady = []lifecycle.NotReady{} // "[]", not "null"
		}
		w.Header().Set("Content-Type", "application/json")
		if !body.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(body) // a reader that left needs no answer
	}
}

// local serves h to this machine only, unless configured otherwise. Peers on a Unix socket have no IP address.
func (a *Admin) local(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err == nil && !net.ParseIP(host).IsLoopback() && !a.cfg.RemoteProfiles {
			http.Error(w, "profiles are served to this machine only; admin.remote_profiles changes that",
				http.StatusForbidden)
			return
		}
		h(w, r)
	})
}

// Start listens and serves until Stop. An address in use is a fault that names it.
func (a *Admin) Start(context.Context) error {
	lis, err := rpc.Listen(a.cfg.Address)
	if err != nil {
		return err
	}
	done := make(chan struct{})
	a.mu.Lock()
	a.lis, a.done = lis, done
	a.mu.Unlock()
	go func() { // ended by Stop
		defer close(done)
		if err := a.srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("admin server ended", "err", err)
		}
	}()
	return nil
}

// Addr is the address to dial, with the real port once Start has returned.
func (a *Admin) Addr() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lis == nil {
		return a.cfg.Address
	}
	return a.lis.Addr().Network() + "://" + a.lis.Addr().String()
}

// Stop ends the server; requests may finish until ctx ends. It is safe to call it without Start and more than once.
func (a *Admin) Stop(ctx context.Context) error {
	err := a.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, a.srv.Close())
	}
	a.mu.Lock()
	done := a.done
	a.mu.Unlock()
	if done != nil {
		<-done
	}
	return err
}
