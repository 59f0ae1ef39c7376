package workeradapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// mesh is what the rest of the mesh sees: the card and, per rank, a scheduler's view of the stream.
type mesh struct {
	mu    sync.Mutex
	card  *workerv1.WorkerCard
	ranks map[uint32]*view
	model string
	// drop makes the bus lose every nth delta.
	drop, count int
}

// view is one rank's stream as a consumer keeps it.
type view struct {
	epoch, seq uint64
	held       map[uint64]int
	stale      bool
	beats      int
}

func newMesh() *mesh { return &mesh{ranks: map[uint32]*view{}} }

func (m *mesh) PutCard(_ context.Context, c *workerv1.WorkerCard) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.card = proto.CloneOf(c)
	return nil
}

func (m *mesh) DeleteCard(context.Context, string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.card = nil
	return nil
}

func (m *mesh) Publish(_ context.Context, subject bus.Subject, msg proto.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name, ok := bus.ParseKV(subject)
	d := msg.(*eventv1.KvDelta)
	if !ok || name.Worker != d.WorkerId || name.Rank != d.Rank {
		panic("delta on a subject of another stream: " + string(subject))
	}
	m.model = name.Model
	if m.count++; m.drop > 0 && m.count%m.drop == 0 {
		return nil
	}
	m.rank(d.Rank).take(proto.CloneOf(d))
	return nil
}

// rank is a rank's view; the caller holds mu.
func (m *mesh) rank(n uint32) *view {
	if m.ranks[n] == nil {
		m.ranks[n] = &view{held: map[uint64]int{}}
	}
	return m.ranks[n]
}

// take applies a delta by the rules of the stream; a gap makes the view stale until a snapshot.
func (v *view) take(d *eventv1.KvDelta) {
	if d.Epoch < v.epoch {
		panic("epochs of a stream only grow")
	}
	if d.Epoch > v.epoch {
		v.epoch, v.seq, v.held, v.stale = d.Epoch, 0, map[uint64]int{}, false
	}
	if d.Heartbeat {
		v.beats++
		v.stale = v.stale || d.Seq != v.seq || d.UnitCount != uint64(v.count()) || d.Digest != v.digest()
		return
	}
	v.stale = v.stale || d.Seq != v.seq+1
	v.seq = d.Seq
	for _, t := range d.Tiers {
		for _, u := range t.Removed {
			v.held[u]--
		}
		for _, u := range t.Added {
			v.held[u]++
		}
	}
}

func (v *view) count() (n int) {
	for _, c := range v.held {
		n += c
	}
	return n
}

func (v *view) digest() uint64 {
	var d kvblock.Digest
	for u, c := range v.held {
		for range c {
			d.Add(u)
		}
	}
	return d.Value()
}

// current is the card, or an error while there is none.
func (m *mesh) current() (*workerv1.WorkerCard, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.card == nil {
		return nil, errors.New("no card")
	}
	return m.card, nil
}

// hit is how many tokens of a prompt a rank is said to hold.
func (m *mesh) hit(rank uint32, ids []uint32, blockTokens int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	units := kvblock.AppendUnits(nil, kvblock.Namespace{Model: m.model}.Root(), ids, "")
	n := 0
	for n < len(units) && m.rank(rank).held[units[n]] > 0 {
		n++
	}
	limit := kvblock.HitLimit(len(ids), blockTokens)
	if m.rank(rank).held[kvblock.HybridMark] > 0 {
		n = m.rank(rank).deepest(units[:min(n, limit/kvblock.UnitTokens)], blockTokens/kvblock.UnitTokens)
	}
	return min(n*kvblock.UnitTokens/blockTokens*blockTokens, limit)
}

// worker is a simulated vLLM and its address.
type worker struct {
	*fakevllm.Server
	url string
	// stop ends it before the test does.
	stop func()
}

func startWorker(t *testing.T, cfg fakevllm.Config) worker {
	t.Helper()
	cfg.Instant = true
	if cfg.KVEvents.Endpoint == "" {
		cfg.KVEvents.Enable = true
		cfg.KVEvents.Endpoint, cfg.KVEvents.ReplayEndpoint = "tcp://*:0", "tcp://*:0"
	}
	s, err := fakevllm.New(cfg, fakevllm.Deps{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return worker{Server: s, url: "http://" + s.Addr(), stop: stop}
}

// complete sends token ids as a prompt and returns how many of them the worker had cached.
func (w worker) complete(t *testing.T, ids []uint32) int {
	t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": ids, "max_tokens": 1})
	require.NoError(t, err)
	post := strings.NewReader(string(body))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/completions", post)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode, string(raw))
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	require.NoError(t, json.Unmarshal(raw, &answer))
	return answer.Usage.Details.Cached
}

// startAdapter runs an adapter for the length of the test; stop ends it earlier.
func startAdapter(t *testing.T, cfg workeradapter.Config, m *mesh) (svc *workeradapter.Service, stop func()) {
	t.Helper()
	svc, err := workeradapter.New(t.Context(), cfg, workeradapter.Deps{Log: kittest.Logger(t), Bus: m})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- svc.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return svc, stop
}

// prompt makes n ids that no other start shares.
func prompt(start, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = uint32((start*100_003 + i*7) % 150_000)
	}
	return ids
}
