package feed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/index"
)

// parts is an adapter that sends what it is told to.
type parts struct {
	workerv1.UnimplementedWorkerServiceServer
	send []*workerv1.SnapshotResponse
	err  error
}

func (p *parts) Snapshot(
	_ *workerv1.SnapshotRequest, stream grpc.ServerStreamingServer[workerv1.SnapshotResponse],
) error {
	for _, m := range p.send {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return p.err
}

func part(epoch, seq uint64, last bool, units ...uint64) *workerv1.SnapshotResponse {
	return &workerv1.SnapshotResponse{
		Epoch: epoch, Seq: seq, Tier: workerv1.Tier_TIER_GPU, Units: units, Last: last,
		Digest: kvblock.DigestOf([]uint64{1, 2, 3}),
	}
}

func TestFetch(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		adapter parts
		want    State
		units   int
	}{
		{"in parts", parts{send: []*workerv1.SnapshotResponse{
			part(4, 9, false, 1, 2), part(4, 9, true, 3),
		}}, Live, 3},
		{"torn", parts{send: []*workerv1.SnapshotResponse{part(4, 9, false, 1, 2)}}, Empty, 0},
		{"moved", parts{send: []*workerv1.SnapshotResponse{
			part(4, 9, false, 1, 2), part(4, 10, true, 3),
		}}, Empty, 0},
		{"refused", parts{err: errors.New("no such rank")}, Empty, 0},
		{"incomplete", parts{send: []*workerv1.SnapshotResponse{part(4, 9, true, 1, 2)}}, Empty, 0},
		{"silent", parts{}, Empty, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			network := rpc.NewNetwork()
			kittest.Serve(t, rpc.ServerConfig{Address: "mem://w"},
				rpc.ServerDeps{Log: kittest.Logger(t), Network: network},
				func(r grpc.ServiceRegistrar) { workerv1.RegisterWorkerServiceServer(r, &row.adapter) })
			s, counts := fetched(t, t.Context(), func(address string) (Conn, error) {
				return rpc.Dial(address, rpc.ClientConfig{}, rpc.ClientDeps{Network: network})
			})
			require.Equal(t, row.want, s.State())
			require.Equal(t, row.units, s.Units())
			require.Equal(t, row.want != Live, counts.Failures.Load() == 1)
			if row.want == Live {
				epoch, seq := s.Position()
				require.Equal(t, []uint64{4, 9}, []uint64{epoch, seq})
			}
		})
	}
}

// fetched opens a stream whose ask is answered by a fetcher, and waits for the end of it.
func fetched(t *testing.T, ctx context.Context, dial func(string) (Conn, error)) (*Stream, *Counts) {
	f := NewFetcher(FetchConfig{
		Dial: dial, Log: kittest.Logger(t), Now: time.Now, Timeout: 10 * time.Second, Parallel: 1,
	})
	counts := &Counts{}
	var m *Machine
	m = New(index.New(index.Config{}), DefaultLimits(), Hooks{
		Ask: func(a Ask) { f.Fetch(ctx, a, m) }, Counts: counts,
	})
	s := m.Open(time.Now(), Key{Worker: "w"}, "mem://w")
	f.Wait()
	return s, counts
}

func TestFetchWithoutAnAdapterFails(t *testing.T) {
	t.Parallel()
	_, counts := fetched(t, t.Context(), func(string) (Conn, error) { return nil, fmt.Errorf("nobody there") })
	require.Equal(t, uint64(1), counts.Failures.Load())
}

func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, counts := fetched(t, ctx, func(string) (Conn, error) { return nil, errors.New("not to be called") })
	require.Equal(t, uint64(1), counts.Failures.Load())
}
