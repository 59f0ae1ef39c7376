// Package obs is what a process shows of itself: logs, metrics, traces, and the admin server that serves health,
// readiness, metrics and profiles. Nothing is global; everything is made from configuration and passed in.
package obs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/grpclog"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// LogConfig is what a configuration file says about logs.
type LogConfig struct {
	// Level is debug, info, warn or error.
	Level string `yaml:"level" doc:"debug, info, warn or error"`
	// Format is json or text.
	Format string `yaml:"format" doc:"json or text"`
	// Flush is how long lines below warn may wait to be written with others.
	Flush time.Duration `yaml:"flush" doc:"how long lines below warn may wait to be written together; negative writes each at once"`
}

// SetDefaults fills what is zero.
func (c *LogConfig) SetDefaults() {
	if c.Level == "" {
		c.Level = "info"
	}
	if c.Format == "" {
		c.Format = "text"
	}
	conf.Default(&c.Flush, 100*time.Millisecond)
}

// Validate reports everything that is wrong.
func (c *LogConfig) Validate() error {
	var f conf.Faults
	if err := new(slog.Level).UnmarshalText([]byte(c.Level)); err != nil {
		f.Add("level", "is debug, info, warn or error, not %q", c.Level)
	}
	f.Require(c.Format == "json" || c.Format == "text", "format", "is json or text, not %q", c.Format)
	return f.Err()
}

// NewLogger makes a logger whose lines carry service=name; an empty one is for who names its parts itself. A configuration
// that Validate refuses logs text at info. Where w is a LogWriter, lines of warn and above are written at once.
func NewLogger(cfg LogConfig, w io.Writer, service string) *slog.Logger {
	opts := &slog.HandlerOptions{}
	var level slog.Level
	if level.UnmarshalText([]byte(cfg.Level)) == nil {
		opts.Level = level
	}
	var h slog.Handler = slog.NewTextHandler(w, opts)
	if cfg.Format == "json" {
		h = slog.NewJSONHandler(w, opts)
	}
	if held, ok := w.(*LogWriter); ok {
		h = urgent{h, held}
	}
	if service == "" {
		return slog.New(h)
	}
	return slog.New(h).With("service", service)
}

// GRPCLogger hands gRPC's own lines to slog one level lower than gRPC gives them: it reports each aborted client as an
// error. gRPC has one logger per process, which only a main sets, with grpclog.SetLoggerV2.
func GRPCLogger(log *slog.Logger) grpclog.LoggerV2 { return grpcLogger{log.With("component", "grpc")} }

// grpcLogger is grpclog.LoggerV2. Fatal does not exit: a library does not end the process.
type grpcLogger struct{ log *slog.Logger }

func (g grpcLogger) line(level slog.Level, text string) {
	g.log.Log(context.Background(), level, strings.TrimSpace(text))
}

func (g grpcLogger) Info(a ...any)               { g.line(slog.LevelDebug-4, fmt.Sprint(a...)) }
func (g grpcLogger) Infoln(a ...any)             { g.line(slog.LevelDebug-4, fmt.Sprintln(a...)) }
func (g grpcLogger) Infof(f string, a ...any)    { g.line(slog.LevelDebug-4, fmt.Sprintf(f, a...)) }
func (g grpcLogger) Warning(a ...any)            { g.line(slog.LevelDebug, fmt.Sprint(a...)) }
func (g grpcLogger) Warningln(a ...any)          { g.line(slog.LevelDebug, fmt.Sprintln(a...)) }
func (g grpcLogger) Warningf(f string, a ...any) { g.line(slog.LevelDebug, fmt.Sprintf(f, a...)) }
func (g grpcLogger) Error(a ...any)              { g.line(slog.LevelWarn, fmt.Sprint(a...)) }
func (g grpcLogger) Errorln(a ...any)            { g.line(slog.LevelWarn, fmt.Sprintln(a...)) }
func (g grpcLogger) Errorf(f string, a ...any)   { g.line(slog.LevelWarn, fmt.Sprintf(f, a...)) }
func (g grpcLogger) Fatal(a ...any)              { g.line(slog.LevelError, fmt.Sprint(a...)) }
func (g grpcLogger) Fatalln(a ...any)            { g.line(slog.LevelError, fmt.Sprintln(a...)) }
func (g grpcLogger) Fatalf(f string, a ...any)   { g.line(slog.LevelError, fmt.Sprintf(f, a...)) }
func (grpcLogger) V(int) bool                    { return false }
