package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
)

// Conn is a connection to an adapter.
type Conn interface {
	grpc.ClientConnInterface
	Close() error
}

// FetchConfig is what a Fetcher works with.
type FetchConfig struct {
	Dial     func(address string) (Conn, error)
	Log      *slog.Logger
	Now      func() time.Time
	Timeout  time.Duration // of one snapshot
	Parallel int           // snapshots at a time
}

// Fetcher answers a machine's asks over gRPC. It owns one goroutine per ask.
type Fetcher struct {
	cfg   FetchConfig
	slots chan struct{}
	wg    sync.WaitGroup

	mu      sync.Mutex
	failing map[Key]bool // streams whose failure has been told
}

// NewFetcher returns an idle fetcher.
func NewFetcher(cfg FetchConfig) *Fetcher {
	return &Fetcher{cfg: cfg, slots: make(chan struct{}, cfg.Parallel), failing: map[Key]bool{}}
}

// Fetch answers ask on m in the background, with a failure when ctx ends first.
func (f *Fetcher) Fetch(ctx context.Context, ask Ask, m *Machine) {
	f.wg.Go(func() {
		answer := f.fetch(ctx, ask)
		if ctx.Err() == nil {
			f.tell(ctx, ask, answer.Err)
		}
		m.Snapshot(f.cfg.Now(), ask, answer)
	})
}

// tell warns of a stream's first failure only: a worker without events fails as long as it lives.
func (f *Fetcher) tell(ctx context.Context, ask Ask, err error) {
	f.mu.Lock()
	told := f.failing[ask.Key]
	if err == nil {
		delete(f.failing, ask.Key)
	} else {
		f.failing[ask.Key] = true
	}
	f.mu.Unlock()
	if err == nil {
		return
	}
	level := slog.LevelWarn
	if told {
		level = slog.LevelDebug
	}
	f.cfg.Log.Log(ctx, level, "snapshot of a worker's units failed", "worker", ask.Key.Worker, "rank", ask.Key.Rank,
		"address", ask.Address, "err", err)
}

// Wait returns when no fetch is under way.
func (f *Fetcher) Wait() { f.wg.Wait() }

func (f *Fetcher) fetch(ctx context.Context, ask Ask) Answer {
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return Answer{Err: ctx.Err()}
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	conn, err := f.cfg.Dial(ask.Address)
	if err != nil {
		return Answer{Err: fmt.Errorf("dial adapter: %w", err)}
	}
	defer conn.Close() //nolint:errcheck // nothing was written that could be lost
	stream, err := workerv1.NewWorkerServiceClient(conn).Snapshot(ctx, &workerv1.SnapshotRequest{
		WorkerId: ask.Key.Worker, Rank: ask.Key.Rank,
	})
	if err != nil {
		return Answer{Err: fmt.Errorf("ask for snapshot: %w", err)}
	}
	return receive(stream, ask)
}

var errTorn = errors.New("snapshot ended before its last part")

// receive fills the ask's load part by part.
func receive(stream grpc.ServerStreamingClient[workerv1.SnapshotResponse], ask Ask) Answer {
	var a Answer
	for first := true; ; first = false {
		part, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return Answer{Err: errTorn}
		case err != nil:
			return Answer{Err: fmt.Errorf("read snapshot: %w", err)}
		case first:
			a.Epoch, a.Seq = part.GetEpoch(), part.GetSeq()
		case part.GetEpoch() != a.Epoch || part.GetSeq() != a.Seq:
			return Answer{Err: fmt.Errorf("snapshot moved from %d/%d to %d/%d", a.Epoch, a.Seq, part.GetEpoch(), part.GetSeq())}
		}
		ask.Load.Add(TierOf(part.GetTier()), part.GetUnits())
		if part.GetLast() {
			a.Digest = part.GetDigest()
			return a
		}
	}
}
