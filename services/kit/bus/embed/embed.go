// Package embed runs a NATS server with JetStream inside the process, for the all-in-one binary and for tests. Nothing
// else imports it: services do not link the server.
package embed

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// Config is what an embedded server needs. The zero value keeps everything in memory and opens no port.
type Config struct {
	// Dir keeps JetStream's files; empty is a temporary folder that Close removes.
	Dir string `yaml:"dir" doc:"folder for JetStream's files; empty for a temporary one"`
	// Listen is host:port for clients of other processes; empty opens no port, port 0 takes a free one.
	Listen string `yaml:"listen" doc:"host:port for clients of other processes; empty for none"`
	// MaxMemory bounds what JetStream keeps in memory.
	MaxMemory conf.Bytes `yaml:"max_memory" doc:"most memory for JetStream"`
	// MaxStore bounds what it keeps on disk.
	MaxStore conf.Bytes `yaml:"max_store" doc:"most disk space for JetStream"`
}

// SetDefaults fills what is zero.
func (c *Config) SetDefaults() {
	if c.MaxMemory == 0 {
		c.MaxMemory = 256 * conf.MiB
	}
	if c.MaxStore == 0 {
		c.MaxStore = conf.GiB
	}
}

// Validate reports everything that is wrong.
func (c *Config) Validate() error {
	var f conf.Faults
	if c.Listen != "" {
		_, _, err := hostPort(c.Listen)
		f.Require(err == nil, "listen", "write host:port (%v)", err)
	}
	f.Require(c.MaxMemory > 0, "max_memory", "must be positive")
	f.Require(c.MaxStore > 0, "max_store", "must be positive")
	return f.Err()
}

// Server is a running embedded server.
type Server struct {
	srv     *server.Server
	tempDir string
}

// startLimit is how long a start may take; 30 ms are usual.
const startLimit = 20 * time.Second

// Start runs a server until Close. Two can run in one process.
func Start(_ context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("embedded NATS config: %w", err)
	}
	out := &Server{}
	opts, err := out.options(cfg)
	if err != nil {
		return nil, err
	}
	if out.srv, err = server.NewServer(opts); err != nil {
		out.removeTemp()
		return nil, fmt.Errorf("make embedded NATS: %w", err)
	}
	out.srv.SetLoggerV2(logger{log.With("component", "nats")}, false, false, false)
	out.srv.Start()
	if !out.srv.ReadyForConnections(startLimit) {
		out.Close()
		return nil, fmt.Errorf("start embedded NATS%s: not ready after %s", at(cfg.Listen), startLimit)
	}
	return out, nil
}

// at names the address in an error: a port in use is why a start usually fails.
func at(listen string) string {
	if listen == "" {
		return ""
	}
	return " at " + listen
}

// options turns off signals and the listener: the hosting process has its own handling, and others must not connect
// unasked.
func (s *Server) options(cfg Config) (*server.Options, error) {
	opts := &server.Options{
		ServerName: "kvmesh-embedded", NoSigs: true, DontListen: cfg.Listen == "",
		JetStream: true, StoreDir: cfg.Dir,
		JetStreamMaxMemory: int64(cfg.MaxMemory), JetStreamMaxStore: int64(cfg.MaxStore),
	}
	if cfg.Listen != "" {
		host, port, err := hostPort(cfg.Listen)
		if err != nil {
			return nil, err
		}
		if port == 0 {
			port = server.RANDOM_PORT
		}
		opts.Host, opts.Port = host, port
		// The server reports a port in use only to its log and stays unready: try first, to say it at once.
		if err := probe(cfg.Listen); err != nil {
			return nil, err
		}
	}
	if cfg.Dir == "" {
		dir, err := os.MkdirTemp("", "kvmesh-nats-")
		if err != nil {
			return nil, fmt.Errorf("make folder for embedded NATS: %w", err)
		}
		s.tempDir, opts.StoreDir = dir, dir
	}
	return opts, nil
}

func hostPort(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// probe opens and closes the port. The gap until the server takes it is small, and a loser then still fails, only
// later.
func probe(listen string) error {
	lis, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("embedded NATS cannot listen on %s: %w", listen, err)
	}
	return lis.Close()
}

// InProcess is how clients in this process connect, without a port.
func (s *Server) InProcess() nats.InProcessConnProvider { return s.srv }

// URL is where clients of other processes connect; empty without Listen.
func (s *Server) URL() string {
	if s.srv.Addr() == nil {
		return ""
	}
	return "nats://" + s.srv.Addr().String()
}

// Close ends the server and all its goroutines and removes a temporary folder.
func (s *Server) Close() {
	s.srv.Shutdown()
	s.srv.WaitForShutdown()
	s.removeTemp()
}

func (s *Server) removeTemp() {
	if s.tempDir != "" {
		_ = os.RemoveAll(s.tempDir) // leftovers in the temporary folder harm nobody
	}
}

// logger hands the server's own log lines to slog. Its notices are debug lines here.
type logger struct{ log *slog.Logger }

func (l logger) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l logger) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l logger) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l logger) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l logger) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l logger) Tracef(string, ...any)           {}
