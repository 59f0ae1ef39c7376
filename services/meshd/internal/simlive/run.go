package simlive

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/kvmesh/kvmesh/scheduler-svc/sim"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// Options of a comparison.
type Options struct {
	Trace    string // in Mooncake's format
	Slice    Slice
	Policies []string
	Workers  int
	KVTokens int // of one worker
	Profile  string
	Speedup  float64 // of the live workers
	Rounds   int     // each policy is played so often, in ABBA order, and its best round counts
}

const (
	startLimit = time.Minute
	blockSize  = 16
	// maxPrompt is the longest prompt of the traces, with room for an answer.
	maxPrompt = 1 << 18
)

// Run plays the slice through the simulator and, one policy after another, through a mesh of its own.
func Run(ctx context.Context, base mesh.Config, deps mesh.Deps, opt Options) (*Comparison, error) {
	f, err := os.Open(opt.Trace)
	if err != nil {
		return nil, fmt.Errorf("open trace: %w", err)
	}
	slice, err := opt.Slice.cut(f)
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	out := &Comparison{Requests: len(slice)}
	if out.Simulated, err = simulate(ctx, slice, opt); err != nil {
		return nil, err
	}
	began := time.Now()
	out.Live = make([]Row, len(opt.Policies))
	for round := range opt.Rounds {
		for i := range opt.Policies {
			if round%2 == 1 {
				i = len(opt.Policies) - 1 - i
			}
			row, err := live(ctx, base, deps, slice, policyRun{Options: opt, policy: opt.Policies[i]})
			if err != nil {
				return nil, fmt.Errorf("live %s: %w", opt.Policies[i], err)
			}
			if round == 0 || row.better(out.Live[i]) {
				out.Live[i] = row
			}
		}
	}
	out.Took = time.Since(began)
	return out, nil
}

// simulate replays the slice as a file, as anybody's trace is replayed.
func simulate(ctx context.Context, slice []request, opt Options) ([]Row, error) {
	dir, err := os.MkdirTemp("", "kvmesh-slice-")
	if err != nil {
		return nil, fmt.Errorf("write slice: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "slice.jsonl")
	var raw bytes.Buffer
	if err := write(&raw, slice); err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, raw.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("write slice: %w", err)
	}
	var report bytes.Buffer
	cmd := sim.Command{
		Trace: path, Policies: opt.Policies, Workers: opt.Workers, KVTokens: opt.KVTokens, Speedup: 1, Profile: opt.Profile,
		Seed: opt.Slice.Seed, Poll: loadPeriod, JSON: true, Out: &report,
	}
	if err := cmd.Run(ctx); err != nil {
		return nil, err
	}
	var got struct {
		Tables []struct {
			Rows []struct {
				Policy string
				Failed int
				Hit    float64
				TTFT   struct{ Mean, P50, P90 float64 } `json:"ttft_s"`
			}
		}
	}
	if err := json.Unmarshal(report.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("read the simulator's report: %w", err)
	}
	var rows []Row
	for _, t := range got.Tables {
		for _, r := range t.Rows {
			rows = append(rows, Row{
				Policy: r.Policy, Mean: r.TTFT.Mean, P50: r.TTFT.P50, P90: r.TTFT.P90, Hit: r.Hit, Failed: r.Failed,
			})
		}
	}
	return rows, nil
}

// loadPeriod is how often simulated workers report their load.
const loadPeriod = 250 * time.Millisecond

type policyRun struct {
	Options
	policy string
}

// live starts a mesh, plays the slice and stops the mesh.
func live(ctx context.Context, cfg mesh.Config, deps mesh.Deps, slice []request, run policyRun) (row Row, err error) {
	run.tune(&cfg)
	m, err := mesh.New(cfg, deps)
	if err != nil {
		return Row{}, err
	}
	start, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := m.Start(start); err != nil {
		return Row{}, err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		if stopped := m.Stop(end); err == nil {
			err = stopped
		}
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	defer client.CloseIdleConnections()
	if err := settled(start, client, m.URL(ctx), run.Workers); err != nil {
		return Row{}, err
	}
	p := &player{
		url: m.URL(ctx), model: cfg.Mesh.Simulated[0].Model, vocab: uint64(cfg.Mesh.Simulated[0].VocabSize),
		speedup: run.Speedup, client: client,
	}
	lag := watchLag()
	answers := p.play(ctx, slice)
	row = summarise(run.policy, answers)
	row.Lag = lag() * time.Duration(max(1, run.Speedup))
	return row, nil
}

// tune makes the configuration's simulated workers those of the run, on ports of their own.
func (r *policyRun) tune(cfg *mesh.Config) {
	model := cfg.Mesh.Simulated[0]
	cfg.Mesh.Simulated, cfg.Mesh.Workers = nil, nil
	for i := range r.Workers {
		w := model
		w.ID, w.Listen, w.Control = fmt.Sprintf("live-%d", i), "127.0.0.1:0", ""
		w.Profile, w.Coefficients, w.Speedup = r.Profile, fakevllm.Profile{}, r.Speedup
		w.BlockSize, w.NumGPUBlocks = blockSize, r.KVTokens/blockSize+1
		w.MaxModelLen, w.MaxNumBatchedTokens = maxPrompt, 8192
		cfg.Mesh.Simulated = append(cfg.Mesh.Simulated, w)
	}
	cfg.Scheduler.Own.Policy, cfg.Scheduler.Own.Seed = r.policy, r.Slice.Seed
	cfg.SetDefaults()
}

// settled waits until the mesh's predictions are exact for every worker.
func settled(ctx context.Context, client *http.Client, url string, workers int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		n, err := exact(ctx, client, url)
		if err == nil && n == workers {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workers are followed (%w)", n, workers, ctx.Err())
		case <-tick.C:
		}
	}
}

func exact(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/kvmesh/v1/workers", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var fleet struct {
		Workers []struct {
			Certainty string
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&fleet); err != nil {
		return 0, err
	}
	n := 0
	for _, w := range fleet.Workers {
		if w.Certainty == "CERTAINTY_EXACT" || w.Certainty == "exact" {
			n++
		}
	}
	return n, nil
}
