package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

const (
	// phantomTalks conversations of phantomTurns turns need three times the blocks that the two caches of phantomBlocks
	// hold; those that are open at once (phantomCallers * phantomOpen) need about as many as fit.
	phantomTalks, phantomTurns, phantomBlocks = 480, 5, 4096
	// phantomCallers is how many requests are under way at most, phantomOpen how many conversations each caller keeps.
	phantomCallers, phantomOpen = 6, 48
	// phantomSpeedup makes ten minutes of engine time pass in one. Events do not get faster with it, so predictions are
	// late by ten times the engine time that they would be on a real worker.
	phantomSpeedup = 10
	// phantomGap is the mean pause between two requests of a caller: four requests arrive per second of engine time,
	// whatever the machine. Callers without pauses would only measure how fast it is.
	phantomGap = 150 * time.Millisecond
	// phantomShare is how many of the prompts' blocks may be predicted and then not served. All that was found are blocks
	// that another request evicts between the choice of the worker and the admission there, or whose removal was on its
	// way when the choice was made: their removals reach the index within some milliseconds after the choice.
	phantomShare = 0.001
	// phantomLate is how long the run may take for that: its arrivals alone take a minute. On a machine that cannot keep
	// up with them choices and removals wait for a processor; then phantomBusy guards against drift alone (0.07 % was seen
	// in two minutes, under the race detector and beside four endless loops).
	phantomLate, phantomBusy = phantomTalks * phantomTurns / phantomCallers * phantomGap * 3 / 2, 0.005
	// phantomPatience is how often a refused turn is asked again, each after phantomWait: a machine that is busy with
	// other work can let a worker's lease end.
	phantomPatience, phantomWait = 200, 50 * time.Millisecond
)

// hits sums predictions and what became of them, in blocks.
type hits struct {
	mu                                         sync.Mutex
	requests, exact, wrong, refused            int
	prompt, predicted, served, phantom, missed int
}

func (h *hits) add(got call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests++
	if got.certainty == "exact" {
		h.exact++
	}
	h.prompt += got.prompt / kvblock.UnitTokens
	h.predicted += got.predicted / kvblock.UnitTokens
	h.served += got.cached / kvblock.UnitTokens
	h.phantom += max(0, got.predicted-got.cached) / kvblock.UnitTokens
	h.missed += max(0, got.cached-got.predicted) / kvblock.UnitTokens
	if got.predicted != got.cached {
		h.wrong++
	}
}

// TestPhantomHits runs conversations that need far more blocks than the caches hold, and compares every prediction with
// what the worker served.
func TestPhantomHits(t *testing.T) {
	s := startTuned(t, func(cfg *mesh.Config) {
		for i := range cfg.Mesh.Simulated {
			cfg.Mesh.Simulated[i].NumGPUBlocks = phantomBlocks
			cfg.Mesh.Simulated[i].Speedup = phantomSpeedup
		}
	})
	c := newCaller(s.URL(t))
	t.Cleanup(c.http.CloseIdleConnections)
	exact(t, c, workerCount)
	sum := &hits{}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range phantomCallers {
		wg.Go(func() { converse(t, c, i, sum) })
	}
	wg.Wait()
	idle(t, c)
	took := time.Since(start)
	share := float64(sum.phantom) / float64(max(1, sum.prompt))
	t.Logf("%d requests (%d exact) in %s, %.1f min of engine time: %d prompt blocks, %d predicted, %d served; %d "+
		"phantom, %.4f %% of prompt blocks and %.4f %% of predicted ones; %d missed; %d requests predicted wrongly, "+
		"%d refused",
		sum.requests, sum.exact, took.Round(time.Millisecond), took.Minutes()*phantomSpeedup, sum.prompt, sum.predicted,
		sum.served, sum.phantom, 100*share, 100*float64(sum.phantom)/float64(max(1, sum.predicted)), sum.missed, sum.wrong,
		sum.refused)
	require.Equal(t, phantomTalks*phantomTurns, sum.requests)
	require.Greater(t, sum.prompt-sum.served, 2*workerCount*phantomBlocks, "the caches must turn over")
	require.Greater(t, sum.predicted, phantomTalks, "the workload must have hits")
	limit := phantomShare
	if took > phantomLate {
		limit = phantomBusy
		t.Logf("the machine was too busy for the trace's arrivals: the bound is %.1f %%", 100*limit)
	}
	require.Less(t, share, limit)
}

// startTuned is startOne with a changed configuration.
func startTuned(t *testing.T, tune func(*mesh.Config)) *one {
	t.Helper()
	cfg, err := mesh.Load(conf.Source{
		Path:    filepath.Join(repository(t), "deploy", "config", "demo.yaml"),
		Environ: []string{"MODEL_PATH=" + filepath.Join(repository(t), "deploy", "demo-model")},
		Sets: []string{
			"gateway.address=127.0.0.1:0", "gateway.server.address=mem://gateway",
			"mesh.admin.address=tcp://127.0.0.1:0", "gateway.quiet=true",
		},
	})
	require.NoError(t, err)
	tune(&cfg)
	m, err := mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, m.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		require.NoError(t, m.Stop(ctx))
	})
	return &one{mesh: m}
}

// patient asks until the mesh takes the turn.
func patient(ctx context.Context, c *caller, turns []message, sum *hits) (got call, err error) {
	wait := time.NewTicker(phantomWait)
	defer wait.Stop()
	for range phantomPatience {
		got, err = ask(ctx, c, turns, false)
		if err != nil || got.ending != refused {
			return got, err
		}
		sum.mu.Lock()
		sum.refused++
		sum.mu.Unlock()
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-wait.C:
		}
	}
	return got, err
}

// converse holds a share of the conversations. Some are always open; the next turn is of one drawn at random, so that
// pauses between turns differ and some prefixes are evicted before they are asked for again.
func converse(t *testing.T, c *caller, number int, sum *hits) {
	random := rand.New(rand.NewPCG(7, uint64(number)))
	pause := time.NewTimer(0)
	defer pause.Stop()
	type talk struct {
		turns []message
		said  int
	}
	var talks []*talk
	next := number
	for {
		for len(talks) < phantomOpen && next < phantomTalks {
			talks = append(talks, &talk{turns: conversation(fmt.Sprintf("phantom %d", next))})
			next += phantomCallers
		}
		if len(talks) == 0 {
			return
		}
		select {
		case <-t.Context().Done():
			return
		case <-pause.C:
			pause.Reset(time.Duration(random.ExpFloat64() * float64(phantomGap)))
		}
		i := random.IntN(len(talks))
		now := talks[i]
		got, err := patient(t.Context(), c, now.turns, sum)
		if err != nil || got.ending != whole {
			t.Errorf("turn of a conversation: %s %d, %v", got.ending, got.status, err)
			return
		}
		sum.add(got)
		now.turns = append(now.turns, got.reply, message{"user", fmt.Sprintf("And what is part %d of it about?", now.said)})
		if now.said++; now.said == phantomTurns {
			talks = append(talks[:i], talks[i+1:]...)
		}
	}
}
