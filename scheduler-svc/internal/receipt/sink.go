package receipt

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
)

// Sink writes settled receipts to a file, one JSON object per line. Requests never wait for it: past its buffer receipts
// are dropped and counted. A nil Sink takes and does nothing.
type Sink struct {
	path     string
	maxBytes int64
	log      *slog.Logger
	store    *Store
	lines    chan *Record
	dropped  atomic.Uint64
}

// sinkBuffer is some seconds of receipts at a few hundred requests per second; flushInterval bounds how late a line is.
const (
	sinkBuffer    = 4096
	flushInterval = time.Second
)

// NewSink returns a sink on a path, nil when it is empty. At maxBytes the file is moved to path.1, which it replaces.
func NewSink(path string, maxBytes int64, store *Store, log *slog.Logger) *Sink {
	if path == "" {
		return nil
	}
	return &Sink{path: path, maxBytes: maxBytes, log: log, store: store, lines: make(chan *Record, sinkBuffer)}
}

// Write hands a settled record over.
func (s *Sink) Write(r *Record) {
	if s == nil || r == nil {
		return
	}
	select {
	case s.lines <- r:
	default:
		s.dropped.Add(1)
	}
}

// Dropped is the number of receipts that were not written.
func (s *Sink) Dropped() uint64 {
	if s == nil {
		return 0
	}
	return s.dropped.Load()
}

// Run writes until ctx ends, then what is buffered. A file that cannot be written ends the sink, not the service.
func (s *Sink) Run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if err := s.run(ctx); err != nil {
		s.log.Error("receipts are written no more", "err", err)
	}
	return nil
}

func (s *Sink) run(ctx context.Context) error {
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
				return fmt.Errorf("write receipts: %w", err)
			}
		case r := <-s.lines:
			if err := s.line(f, r); err != nil {
				return err
			}
			if f.size < s.maxBytes {
				continue
			}
			if f, err = s.rotate(f); err != nil {
				return err
			}
		}
	}
}

func (s *Sink) drain(f *sinkFile) error {
	for {
		select {
		case r := <-s.lines:
			if err := s.line(f, r); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

func (s *Sink) line(f *sinkFile, r *Record) error {
	s.store.mu.Lock()
	p := r.Proto()
	s.store.mu.Unlock()
	raw, err := protojson.Marshal(p)
	if err != nil {
		return fmt.Errorf("marshal receipt: %w", err)
	}
	raw = append(raw, '\n')
	if _, err := f.w.Write(raw); err != nil {
		return fmt.Errorf("write receipts: %w", err)
	}
	f.size += int64(len(raw))
	return nil
}

type sinkFile struct {
	f    *os.File
	w    *bufio.Writer
	size int64
}

func (s *Sink) open() (*sinkFile, error) {
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open receipt sink: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open receipt sink: %w", err)
	}
	return &sinkFile{f: f, w: bufio.NewWriterSize(f, 1<<16), size: info.Size()}, nil
}

func (s *Sink) rotate(f *sinkFile) (*sinkFile, error) {
	f.close()
	if err := os.Rename(s.path, s.path+".1"); err != nil {
		return f, fmt.Errorf("rotate receipt sink: %w", err)
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
