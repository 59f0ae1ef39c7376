package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/gateway/internal/rest"
)

// headerTimeout bounds how long a client may take to send a request's head.
const headerTimeout = 30 * time.Second

// clientIdleTimeout is how long an unused client connection is kept.
const clientIdleTimeout = 2 * time.Minute

// maxHeaderBytes bounds a request's head.
const maxHeaderBytes = 256 << 10

// Run serves REST until ctx ends, then drains: it says that it is not ready, still serves for DrainGrace, finishes what
// runs for at most DrainTimeout, and cuts the rest.
func (s *Service) Run(ctx context.Context) error {
	ln, err := s.listen()
	if err != nil {
		return err
	}
	s.addr.Store(ln.Addr().String())
	s.once.Do(func() { close(s.bound) })
	server := &http.Server{
		Handler: s.edge, ReadHeaderTimeout: headerTimeout, IdleTimeout: clientIdleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(s.deps.Log.Handler(), slog.LevelDebug), ConnContext: rest.ConnContext,
	}
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { s.fleet.Run(work, s.telemetry.FleetAge, s.dispatcher.Stalled) })
	wg.Go(func() { s.wire.Run(work) })
	failed := make(chan error, 1)
	wg.Go(func() {
		if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	})
	select {
	case err = <-failed:
		err = fmt.Errorf("serve REST: %w", err)
	case <-ctx.Done():
	}
	s.drain(server)
	stopWork()
	s.dispatcher.Wait()
	wg.Wait()
	return err
}

// listen opens the address.
func (s *Service) listen() (net.Listener, error) {
	ln, err := rpc.Listen("tcp://" + s.cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("listen for REST: %w", err)
	}
	ln = rest.NewGathering(ln)
	if s.cfg.TLSCert == "" {
		return ln, nil
	}
	cert, err := tls.LoadX509KeyPair(s.cfg.TLSCert, s.cfg.TLSKey)
	if err != nil {
		_ = ln.Close()
		return nil, fmt.Errorf("load certificate: %w", err)
	}
	return tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), nil
}

// drain ends the server.
func (s *Service) drain(server *http.Server) {
	s.draining.Store(true)
	if s.cfg.DrainGrace > 0 {
		t := time.NewTimer(s.cfg.DrainGrace)
		<-t.C
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		_ = server.Close()
	}
}

// Addr waits for the REST server and tells where it listens; empty when ctx ends first.
func (s *Service) Addr(ctx context.Context) string {
	select {
	case <-s.bound:
		addr, _ := s.addr.Load().(string)
		return addr
	case <-ctx.Done():
		return ""
	}
}
