package engine

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// recorder keeps the kinds and sizes of published events, one string per batch.
type recorder struct {
	mu      sync.Mutex
	batches []string
	steps   []StepInfo
	ended   []JobInfo
}

func (r *recorder) Publish(b *kvevent.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := ""
	for _, e := range b.Events {
		switch e.Kind {
		case kvevent.BlockStored:
			text += "+" + strconv.Itoa(len(e.Hashes))
		case kvevent.BlockRemoved:
			text += "-" + strconv.Itoa(len(e.Hashes))
		case kvevent.AllBlocksCleared:
			text += "x"
		}
	}
	r.batches = append(r.batches, text)
}

// said returns the batches so far.
func (r *recorder) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.batches...)
}

func (r *recorder) Step(s StepInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, s)
}

func (r *recorder) Ended(j JobInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, j)
}

func config() Config {
	return Config{
		BlockSize: 4, Blocks: 64, MaxNumSeqs: 8, MaxBatchedTokens: 64, PrefixCaching: true, Speedup: 1,
		Profile: Profile{Base: 1},
	}
}

// job has a prompt of n tokens that begin with first, and an output of m.
func job(first uint32, n, m int) Job {
	j := Job{Prompt: make([]uint32, n), Output: make([]uint32, m), Notify: make(chan struct{}, 1)}
	for i := range j.Prompt {
		j.Prompt[i] = first + uint32(i)
	}
	for i := range j.Output {
		j.Output[i] = 1000*first + uint32(i)
	}
	return j
}

// bubble runs a test in virtual time with a running engine.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, e *Engine, r *recorder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		e := New(cfg, r, r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.Run(ctx)
		}()
		test(t, e, r)
		cancel()
		<-done
	})
}

// finish waits for a sequence's end and returns how long that took.
func finish(q *Seq) time.Duration {
	begin := time.Now()
	for !q.Ended() {
		<-q.Notify
	}
	return time.Since(begin)
}

func (e *Engine) submit(t *testing.T, j Job) *Seq {
	t.Helper()
	q := NewSeq(j, e.cfg.BlockSize)
	require.NoError(t, e.Submit(q))
	return q
}

func TestStepTimesFollowTheProfile(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Profile = Profile{Base: 1, Prefill: 0.5, PrefillContext: 0.25, Sequence: 3, Read: 0.125}
	bubble(t, cfg, func(t *testing.T, e *Engine, r *recorder) {
		q := e.submit(t, job(1, 8, 3))
		// Prefill: 1 + 8*0.5 + 8*(8/2)*0.25 = 13 s. Then two decodes that read 9 and 10 tokens: 1 + 3 + n*0.125.
		want := 13 + (4 + 9*0.125) + (4 + 10*0.125)
		require.InDelta(t, want, finish(q).Seconds(), 1e-6)
		require.Equal(t, Finished, q.State())
		require.Equal(t, 3, q.Produced())
		synctest.Wait()
		require.Len(t, r.ended, 1)
		require.InDelta(t, 13, r.ended[0].FirstToken.Seconds(), 1e-6)
		require.InDelta(t, want-13, r.ended[0].Decode.Seconds(), 1e-6)
		require.Equal(t, []int{8, 0, 0}, []int{
			r.steps[0].Load.PrefillTokens, r.steps[1].Load.PrefillTokens, r.steps[2].Load.PrefillTokens,
		})
	})
}

func TestSpeedupDividesTime(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		speedup float64
		want    float64
	}{{"as it is", 1, 5}, {"ten times", 10, 0.5}, {"instant", 0, 0}} {
		t.Run(row.name, func(t *testing.T) {
			cfg := config()
			cfg.Speedup = row.speedup
			bubble(t, cfg, func(t *testing.T, e *Engine, _ *recorder) {
				require.InDelta(t, row.want, finish(e.submit(t, job(1, 8, 5))).Seconds(), 1e-6)
			})
		})
	}
}

func TestLongPromptsComeInChunks(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.MaxBatchedTokens = 16
	bubble(t, cfg, func(t *testing.T, e *Engine, r *recorder) {
		require.InDelta(t, 3, finish(e.submit(t, job(1, 42, 1))).Seconds(), 1e-6)
		require.Equal(t, []string{"+4", "+4", "+2"}, r.said())
	})
}

func TestSequencesShareStepsAndPrefixes(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, r *recorder) {
		a := e.submit(t, job(1, 17, 4))
		b := e.submit(t, job(1, 17, 4))
		c := e.submit(t, job(1, 16, 1)) // aligned: its last block is computed and stored again
		require.InDelta(t, 4, finish(a).Seconds(), 1e-6)
		require.InDelta(t, 0, finish(b).Seconds(), 1e-6, "in the same steps")
		finish(c)
		require.Equal(t, []int{0, 16, 12}, []int{a.Cached(), b.Cached(), c.Cached()})
		require.Equal(t, "+4+1", r.said()[0])
	})
}

func TestMaxNumSeqsMakesOthersWait(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.MaxNumSeqs = 2
	bubble(t, cfg, func(t *testing.T, e *Engine, _ *recorder) {
		var q []*Seq
		for i := range uint32(4) {
			q = append(q, e.submit(t, job(100*i+1, 4, 2)))
		}
		time.Sleep(time.Millisecond)
		st := e.Snapshot()
		require.Equal(t, [2]int{2, 2}, [2]int{st.Running, st.Waiting})
		for _, s := range q {
			finish(s)
		}
		require.Zero(t, e.Snapshot().Usage)
	})
}

func TestHeadOfTheQueueWaitsForItsBlocks(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Blocks = 10
	bubble(t, cfg, func(t *testing.T, e *Engine, _ *recorder) {
		a := e.submit(t, job(1, 28, 4)) // 7 blocks, 8 in the end
		b := e.submit(t, job(200, 20, 1))
		c := e.submit(t, job(400, 4, 1)) // would fit, but comes after b
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, []State{Running, Waiting, Waiting}, []State{a.State(), b.State(), c.State()})
		require.InDelta(t, 0.8, e.Snapshot().Usage, 1e-9)
		finish(a)
		finish(b)
		finish(c)
	})
}

func TestLastAdmittedIsPreemptedAndStartsAgain(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Blocks = 8
	bubble(t, cfg, func(t *testing.T, e *Engine, r *recorder) {
		a := e.submit(t, job(1, 13, 8))
		b := e.submit(t, job(200, 13, 8))
		finish(a)
		finish(b)
		require.Equal(t, []int{8, 8}, []int{a.Produced(), b.Produced()})
		require.EqualValues(t, 1, e.Snapshot().Preemptions)
		synctest.Wait()
		require.Equal(t, []int{0, 1}, []int{r.ended[0].Preempted, r.ended[1].Preempted})
		require.Zero(t, b.Cached(), "what it finds of its own blocks is no cached prompt")
	})
}

func TestPriorityPolicy(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Priority, cfg.MaxNumSeqs = true, 1
	bubble(t, cfg, func(t *testing.T, e *Engine, _ *recorder) {
		first := e.submit(t, job(1, 4, 2))
		time.Sleep(time.Millisecond)
		late, soon := job(100, 4, 1), job(200, 4, 1)
		late.Priority, soon.Priority = 5, -1
		a, b := e.submit(t, late), e.submit(t, soon)
		finish(first)
		finish(b)
		require.Equal(t, Running, a.State(), "admitted when the more urgent one had ended")
		finish(a)
	})
}

func TestQueueLimit(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.MaxNumSeqs, cfg.MaxQueued = 1, 1
	bubble(t, cfg, func(t *testing.T, e *Engine, _ *recorder) {
		a := e.submit(t, job(1, 4, 2))
		time.Sleep(time.Millisecond)
		b := e.submit(t, job(2, 4, 1))
		require.ErrorIs(t, e.Submit(NewSeq(job(3, 4, 1), 4)), ErrBusy)
		require.EqualValues(t, 1, e.Snapshot().Rejected)
		finish(a)
		finish(b)
	})
}

func TestResetOfTheCache(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, r *recorder) {
		finish(e.submit(t, job(1, 9, 1)))
		require.True(t, e.ResetCache(false))
		synctest.Wait()
		require.Equal(t, []string{"+2"}, r.said(), "silent while idle")
		q := e.submit(t, job(1, 9, 4))
		time.Sleep(1500 * time.Millisecond)
		require.Equal(t, []string{"+2", "x+2"}, r.said())
		require.False(t, e.ResetCache(false), "something runs")
		require.True(t, e.ResetCache(true))
		finish(q)
		require.Equal(t, []string{"+2", "x+2", "x+2", "+1"}, r.said(), "it computes everything again")
		require.Equal(t, 4, q.Produced())
	})
}

func TestPauseWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, _ *recorder) {
		a := e.submit(t, job(1, 4, 5))
		time.Sleep(1500 * time.Millisecond)
		begin := time.Now()
		require.NoError(t, e.Pause(t.Context(), false, true))
		require.InDelta(t, 3.5, time.Since(begin).Seconds(), 1e-6)
		require.Equal(t, Finished, a.State())
		b := e.submit(t, job(2, 4, 1))
		time.Sleep(time.Hour)
		require.Equal(t, Waiting, b.State())
		require.True(t, e.Paused())
		e.Resume()
		require.InDelta(t, 1, finish(b).Seconds(), 1e-6)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c := e.submit(t, job(3, 4, 100))
		time.Sleep(time.Millisecond)
		require.ErrorIs(t, e.Pause(ctx, false, false), context.DeadlineExceeded)
		e.Abort(Dropped, c)
	})
}

func TestFrozenEngineGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, _ *recorder) {
		q := e.submit(t, job(1, 4, 3))
		time.Sleep(1500 * time.Millisecond)
		e.Freeze(true)
		time.Sleep(time.Hour)
		require.Equal(t, 1, q.Produced())
		e.Freeze(false)
		finish(q)
		require.Equal(t, 3, q.Produced())
	})
}

func TestRestartAbortsAndForgets(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, r *recorder) {
		q := e.submit(t, job(1, 9, 50))
		w := e.submit(t, job(1, 9, 50))
		time.Sleep(1500 * time.Millisecond)
		e.Restart()
		require.Equal(t, []State{Aborted, Aborted}, []State{q.State(), w.State()})
		again := e.submit(t, job(1, 9, 1))
		finish(again)
		require.Zero(t, again.Cached())
		require.NotContains(t, r.said()[len(r.said())-1], "x", "a new process announces no clear")
		require.EqualValues(t, 9, e.Snapshot().PromptTokens)
	})
}

func TestPoolingJobsEndWithTheirPrefill(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, r *recorder) {
		j := job(1, 9, 0)
		j.SkipRead = true
		require.InDelta(t, 1, finish(e.submit(t, j)).Seconds(), 1e-6)
		j.Notify = make(chan struct{}, 1)
		finish(e.submit(t, j))
		require.Equal(t, []string{"+2", "+2"}, r.said(), "they write the cache and do not read it")
		require.Zero(t, e.Snapshot().Queries)
	})
}

func TestReportModeFullAnnouncesAgain(t *testing.T) {
	t.Parallel()
	bubble(t, config(), func(t *testing.T, e *Engine, r *recorder) {
		finish(e.submit(t, job(1, 9, 1)))
		j := job(1, 9, 1)
		j.ReportFull = true
		finish(e.submit(t, j))
		require.Equal(t, []string{"+2", "+2"}, r.said())
	})
}

func TestWithoutPrefixCachingNothingIsSaid(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.PrefixCaching = false
	bubble(t, cfg, func(t *testing.T, e *Engine, r *recorder) {
		finish(e.submit(t, job(1, 9, 6)))
		q := e.submit(t, job(1, 9, 6))
		finish(q)
		require.Zero(t, q.Cached())
		require.Empty(t, r.said())
	})
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	for name := range profiles() {
		p, err := ProfileByName(name)
		require.NoError(t, err)
		require.Positive(t, p.Base, name)
	}
	_, err := ProfileByName("abacus")
	require.ErrorContains(t, err, "h100-llama-8b")
	// The anchor of the pair of H100: 8,192 prompt tokens take 0.40 s.
	pair := profiles()["h100x2-qwen3-32b"]
	took := pair.Duration(Load{PrefillTokens: 8192, PrefillContext: 8192 * 4096}, 1)
	require.InDelta(t, 0.40, took.Seconds(), 0.04)
}

// BenchmarkSteps reports what one decoded token of a full batch costs the engine.
func BenchmarkSteps(b *testing.B) {
	cfg := config()
	cfg.Blocks, cfg.BlockSize, cfg.MaxNumSeqs, cfg.MaxBatchedTokens, cfg.Speedup = 1<<16, 16, 256, 8192, 0
	e := New(cfg, nil, nil)
	for i := range uint32(256) {
		q := NewSeq(job(1000*i, 512, b.N/256+1), cfg.BlockSize)
		if err := e.Submit(q); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for {
		load, busy := e.begin()
		if !busy {
			break
		}
		e.end(load, 0)
	}
}
