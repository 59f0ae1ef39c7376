package obs

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// logBufferBytes is how many bytes of lines wait at most.
const logBufferBytes = 32 << 10

// LogWriter writes many lines at once: a line per request costs a system call each otherwise. Lines of warn and above
// are written at once, with all before them (see NewLogger). A process that is killed loses what waits. It is safe for
// concurrent use.
type LogWriter struct {
	to   io.Writer
	wait time.Duration

	mu     sync.Mutex
	buf    []byte
	timer  *time.Timer // runs while armed
	armed  bool
	closed bool
}

// NewLogWriter makes a writer whose lines wait for at most wait; with none or less each is written at once. Close it at
// the end.
func NewLogWriter(to io.Writer, wait time.Duration) *LogWriter { return &LogWriter{to: to, wait: wait} }

// Write takes whole lines.
func (w *LogWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.wait <= 0 {
		return w.to.Write(p)
	}
	w.buf = append(w.buf, p...)
	switch {
	case len(w.buf) >= logBufferBytes:
		w.flush()
	case w.armed:
	case w.timer == nil:
		w.armed, w.timer = true, time.AfterFunc(w.wait, w.tick)
	default:
		w.armed = true
		w.timer.Reset(w.wait)
	}
	return len(p), nil
}

func (w *LogWriter) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = false
	w.flush()
}

// flush is called with mu held. A log that cannot be written is no reason to stop serving.
func (w *LogWriter) flush() {
	if len(w.buf) > 0 {
		_, _ = w.to.Write(w.buf)
		w.buf = w.buf[:0]
	}
}

// Flush writes what waits.
func (w *LogWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

// Close writes what waits; later lines are written at once.
func (w *LogWriter) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// urgent writes what matters at once.
type urgent struct {
	slog.Handler
	w *LogWriter
}

// Handle writes the line, and at once from warn on.
func (h urgent) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.w.Flush()
	}
	return err
}

// WithAttrs keeps the handler around the one with attributes.
func (h urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{h.Handler.WithAttrs(attrs), h.w}
}

// WithGroup keeps the handler around the one with a group.
func (h urgent) WithGroup(name string) slog.Handler { return urgent{h.Handler.WithGroup(name), h.w} }
