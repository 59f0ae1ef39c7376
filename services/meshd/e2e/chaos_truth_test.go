package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// held is what one worker's cache holds, as one side says it. Equal positions of one stream must mean equal counts.
type held struct {
	Epoch, Seq, Units uint64
}

// indexed is the scheduler's side of a worker.
type indexed struct {
	held
	state, events, certainty string
}

// indexOf reads the scheduler's side of a worker.
func indexOf(ctx context.Context, c *caller, worker string) (indexed, error) {
	got, err := c.get(ctx, "/kvmesh/v1/workers")
	if err != nil {
		return indexed{}, err
	}
	if got.status != http.StatusOK {
		return indexed{}, errStatus(got)
	}
	var f struct {
		Workers []struct {
			Card struct {
				ID         string `json:"worker_id"`
				State      string `json:"state"`
				EventState string `json:"event_state"`
			} `json:"card"`
			Certainty string `json:"certainty"`
			Epoch     uint64 `json:"epoch,string"`
			Seq       uint64 `json:"seq,string"`
			Units     uint64 `json:"units,string"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(got.body, &f); err != nil {
		return indexed{}, fmt.Errorf("list of workers: %w: %s", err, got.body)
	}
	for _, w := range f.Workers {
		if w.Card.ID == worker {
			return indexed{held{w.Epoch, w.Seq, w.Units}, w.Card.State, w.Card.EventState, w.Certainty}, nil
		}
	}
	return indexed{}, fmt.Errorf("the scheduler does not know %s", worker)
}

// mirrors are connections to the adapters of a mesh of processes.
type mirrors []workerv1.WorkerServiceClient

func dialMirrors(t *testing.T, m *many) mirrors {
	t.Helper()
	network := rpc.NewNetwork()
	var out mirrors
	for _, w := range m.ports.Workers {
		out = append(out, workerv1.NewWorkerServiceClient(kittest.Dial(t, "tcp://"+loopback(w.GRPC), network)))
	}
	return out
}

// snapshot reads an adapter's mirror and checks it against its own digest.
func (m mirrors) snapshot(ctx context.Context, worker int) (held, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	stream, err := m[worker].Snapshot(ctx, &workerv1.SnapshotRequest{WorkerId: workerID(worker)})
	if err != nil {
		return held{}, err
	}
	var h held
	var digest kvblock.Digest
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return held{}, errors.New("snapshot without a last part")
		}
		if err != nil {
			return held{}, err
		}
		digest.AddAll(part.GetUnits())
		h = held{part.GetEpoch(), part.GetSeq(), h.Units + uint64(len(part.GetUnits()))}
		if !part.GetLast() {
			continue
		}
		if part.GetDigest() != digest.Value() {
			return held{}, fmt.Errorf("snapshot's digest %x, its units' %x", part.GetDigest(), digest.Value())
		}
		return h, nil
	}
}

// readings is how often two sides are read before they count as different: positions move between the readings.
const readings = 8

// right says whether the scheduler's index of a worker is exact and equals the adapter's mirror at the same position of
// an epoch after the given one.
func (m mirrors) right(ctx context.Context, c *caller, worker int, after uint64) (err error) {
	return m.rightBy(ctx, c, worker, after, &recovery{})
}

// rightBy is right that notes in a recovery how far the worker has come.
func (m mirrors) rightBy(ctx context.Context, c *caller, worker int, after uint64, r *recovery) (err error) {
	for range readings {
		if err = m.equal(ctx, c, worker, after, r); err == nil {
			return nil
		}
	}
	return err
}

// recovery is when a part's coming back reached each step: a scheduler answers that knows the worker, its card says
// ready, its events flow, the index is trusted, and it equals the mirror.
type recovery struct {
	back  time.Time
	steps []string
	at    []time.Duration
}

// reach notes that a step was reached, and that those before it were.
func (r *recovery) reach(step string) {
	if !slices.Contains(r.steps, step) {
		r.steps, r.at = append(r.steps, step), append(r.at, time.Since(r.back))
	}
}

func (r *recovery) String() string {
	parts := make([]string, len(r.steps))
	for i, step := range r.steps {
		parts[i] = fmt.Sprintf("%s %s", step, r.at[i].Round(time.Millisecond))
	}
	return strings.Join(parts, ", ")
}

// equal reads both sides once.
func (m mirrors) equal(ctx context.Context, c *caller, worker int, after uint64, r *recovery) error {
	index, err := indexOf(ctx, c, workerID(worker))
	if err != nil {
		return err
	}
	r.reach("listed")
	for _, step := range []struct {
		name, got, want string
	}{
		{"ready", index.state, "WORKER_STATE_READY"},
		{"live", index.events, "EVENT_STATE_LIVE"},
		{"exact", index.certainty, "CERTAINTY_EXACT"},
	} {
		if step.got != step.want {
			return fmt.Errorf("%s is %s, %s, %s", workerID(worker), index.state, index.events, index.certainty)
		}
		r.reach(step.name)
	}
	mirror, err := m.snapshot(ctx, worker)
	if err != nil {
		return err
	}
	if mirror.Epoch <= after {
		return fmt.Errorf("%s: the mirror is still of epoch %d", workerID(worker), mirror.Epoch)
	}
	if diff := cmp.Diff(mirror, index.held); diff != "" {
		return fmt.Errorf("%s: mirror and index differ (-mirror +index):\n%s", workerID(worker), diff)
	}
	r.reach("equal")
	return nil
}

// truth asks one more turn of every conversation and compares each prediction with what the worker itself found in its
// cache. Nothing else may run.
func truth(t *testing.T, c *caller, talks map[string][]message) (hits int) {
	t.Helper()
	require.NotEmpty(t, talks)
	for place, talk := range talks {
		got, err := ask(t.Context(), c, talk, false)
		require.NoError(t, err, place)
		require.Equal(t, whole, got.ending, place)
		if got.certainty != "exact" {
			state, err := c.get(t.Context(), "/kvmesh/v1/workers")
			require.NoError(t, err)
			require.Equal(t, "exact", got.certainty, "conversation %s at %s: %s", place, got.worker, state.body)
		}
		require.Equal(t, got.cached, got.predicted, "conversation %s at %s", place, got.worker)
		hits += got.cached
	}
	return hits
}
