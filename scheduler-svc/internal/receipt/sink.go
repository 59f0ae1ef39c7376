package receipt

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Sink writes entries to a file, one JSON object per line. Requests never wait for it: past its buffer entries are dropped
// and counted. A nil Sink takes and does nothing.
type Sink[T any] struct {
	cfg     SinkConfig
	line    func(T) ([]byte, error)
	log     *slog.Logger
	entries chan T
	dropped atomic.Uint64
}

// SinkConfig says where a sink writes.
type SinkConfig struct {
	Path     string // empty for none
	MaxBytes int64  // size at which the file is moved to Path.1, which it replaces
	What     string // what the entries are, for errors: "receipts"
}

// sinkBuffer is some seconds of entries at a few hundred requests per second; flushInterval bounds how late a line is.
const (
	sinkBuffer    = 4096
	flushInterval = time.Second
)

// NewSink returns a sink, nil when its path is empty. line is called in the goroutine of Run; its result is copied.
func NewSink[T any](cfg SinkConfig, line func(T) ([]byte, error), log *slog.Logger) *Sink[T] {
	if cfg.Path == "" {
		return nil
	}
	return &Sink[T]{cfg: cfg, line: line, log: log, entries: make(chan T, sinkBuffer)}
}

// Write hands an entry over.
func (s *Sink[T]) Write(e T) {
	if s == nil {
		return
	}
	select {
	case s.entries <- e:
	default:
		s.dropped.Add(1)
	}
}

// Dropped is the number of entries that were not written.
func (s *Sink[T]) Dropped() uint64 {
	if s == nil {
		return 0
	}
	return s.dropped.Load()
}

// Run writes until ctx ends, then what is buffered. A file that cannot be written ends the sink, not the service.
func (s *Sink[T]) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if err := s.run(ctx); err != nil {
		s.log.Error(s.cfg.What+" are written no more", "err", err)
	}
	return nil
}

func (s *Sink[T]) run(ctx context.Context) error {
	f, err := s.open()
	if err != nil {
		return err
	}
	defer func() { f.close() }()
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return s.drain(f)
		case <-tick.C:
			if err := f.w.Flush(); err != nil {
				return fmt.Errorf("write %s: %w", s.cfg.What, err)
			}
		case e := <-s.entries:
			if err := s.write(f, e); err != nil {
				return err
			}
			if f.size < s.cfg.MaxBytes {
				continue
			}
			if f, err = s.rotate(f); err != nil {
				return err
			}
		}
	}
}

func (s *Sink[T]) drain(f *sinkFile) error {
	for {
		select {
		case e := <-s.entries:
			if err := s.write(f, e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *Sink[T]) write(f *sinkFile, e T) error {
	raw, err := s.line(e)
	if err != nil {
		return fmt.Errorf("write %s: %w", s.cfg.What, err)
	}
	raw = append(raw, '\n')
	if _, err := f.w.Write(raw); err != nil {
		return fmt.Errorf("write %s: %w", s.cfg.What, err)
	}
	f.size += int64(len(raw))
	return nil
}

type sinkFile struct {
	f    *os.File
	w    *bufio.Writer
	size int64
}

func (s *Sink[T]) open() (*sinkFile, error) {
	f, err := os.OpenFile(s.cfg.Path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open file of %s: %w", s.cfg.What, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open file of %s: %w", s.cfg.What, err)
	}
	return &sinkFile{f: f, w: bufio.NewWriterSize(f, 1<<16), size: info.Size()}, nil
}

func (s *Sink[T]) rotate(f *sinkFile) (*sinkFile, error) {
	f.close()
	if err := os.Rename(s.cfg.Path, s.cfg.Path+".1"); err != nil {
		return f, fmt.Errorf("rotate file of %s: %w", s.cfg.What, err)
	}
	return s.open()
}

// close flushes; an error was or will be seen by a write.
func (f *sinkFile) close() {
	if f == nil {
		return
	}
	_ = f.w.Flush()
	_ = f.f.Close()
}
