package dispatch

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// TestWhatIsCut: an attempt is given up when two readings in a row name its worker and nothing came in between.
func TestWhatIsCut(t *testing.T) {
	t.Parallel()
	// Each letter is a reading: s names the worker, o another one, . nobody; h is a read that came back and the next wait,
	// r says that the worker rests, c is a client that takes its time: a wait for the worker ends, or the next one begins.
	rows := []struct {
		name, events string
		cut          bool
	}{
		{"never named", "....", false},
		{"named once", "s...", false},
		{"another worker", "oooo", false},
		{"named twice", "ss", true},
		{"named, well again, named", "s.s", false},
		{"named twice later", "hh..ss", true},
		{"it still flows", "shshshs", false},
		{"it flowed and stopped", "shss", true},
		{"only before", "hss", true},
		{"rests before the first byte", "rr", true},
		{"rests once", "r", false},
		{"rests with an answer begun", "hhrrrr", false},
		{"rests, then stands still", "rs", true},
		{"rests with a head alone", "crcrr", true},
		{"the client takes its time", "csss", false},
		{"the client took its time", "cssscs", false},
		{"the client took its time, the worker stands", "cssscss", true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := dispatcher(t, &scheduler{})
			l := newLease(t.Context(), d, &schedulerv1.RouteResponse{Target: &schedulerv1.Target{WorkerId: "w"}})
			parent, end := context.WithCancel(t.Context())
			defer end()
			ctx := d.stalls.begin(parent, l)
			l.watch.turn()
			for _, e := range row.events {
				switch e {
				case 'h':
					l.watch.turn()
					l.watch.turn()
				case 'c':
					l.watch.turn()
				case 's':
					d.Stalled([]string{"v", "w"}, nil)
				case 'r':
					d.Stalled(nil, []string{"v", "w"})
				case 'o':
					d.Stalled([]string{"v"}, nil)
				default:
					d.Stalled(nil, nil)
				}
			}
			require.Equal(t, row.cut, cut(ctx))
			require.Equal(t, row.cut, ctx.Err() != nil)
			l.Settle(Result{})
			require.Empty(t, d.stalls.running, "what has ended is not watched")
			require.Error(t, ctx.Err())
			require.NoError(t, parent.Err())
		})
	}
}

// TestAStandingWorkerIsLeft: before the first byte the request goes to another worker, afterwards the stream is broken.
func TestAStandingWorkerIsLeft(t *testing.T) {
	t.Parallel()
	const ok, failed = schedulerv1.Outcome_OUTCOME_OK, schedulerv1.Outcome_OUTCOME_FAILED
	standing := func(d *Dispatcher, done <-chan error) (err error) {
		kittest.Eventually(t, func() error {
			d.Stalled([]string{"w0"}, nil)
			select {
			case err = <-done:
				return nil
			default:
				return errors.New("still waiting")
			}
		})
		return err
	}
	t.Run("before the first byte", func(t *testing.T) {
		t.Parallel()
		s := &scheduler{workers: []*worker{startWorker(t, "hang"), startWorker(t, plain(200, "{}"))}}
		d := dispatcher(t, s, func(c *Config) { c.Gateway = "g" })
		done := make(chan error, 1)
		go func() {
			a, err := d.Open(context.Background(), job(t, plainDoc))
			if err == nil {
				a.Close(d, nil)
			}
			done <- err
		}()
		kittest.Closed(t, s.workers[0].hung)
		require.NoError(t, standing(d, done))
		require.Equal(t, []schedulerv1.Outcome{failed, ok}, s.outcomes(t))
		for _, q := range s.routed {
			require.Equal(t, "g", q.GetGateway())
		}
	})
	t.Run("a call that only this worker can answer", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, plain(200, "{}"), "hang")
		s := &scheduler{}
		d := dispatcher(t, s)
		r := &schedulerv1.RouteResponse{HttpUrl: w.url, Target: &schedulerv1.Target{WorkerId: "w0"}}
		a, err := d.Direct(context.Background(), job(t, plainDoc), r)
		require.NoError(t, err)
		a.Close(d, nil)
		done := make(chan error, 1)
		go func() {
			_, err := d.Direct(context.Background(), job(t, plainDoc), r)
			done <- err
		}()
		kittest.Closed(t, w.hung)
		require.Equal(t, faultv1.Reason_REASON_WORKER_FAILED, fault.ReasonOf(standing(d, done)))
		require.Empty(t, s.outcomes(t), "nothing was booked, so nothing is reported")
		require.Empty(t, d.stalls.running)

		patient := job(t, plainDoc)
		patient.Patient = true
		ctx, cancel := context.WithCancel(context.Background())
		again := startWorker(t, "hang")
		go func() {
			_, err := d.Direct(ctx, patient, &schedulerv1.RouteResponse{HttpUrl: again.url, Target: r.GetTarget()})
			done <- err
		}()
		kittest.Closed(t, again.hung)
		require.Empty(t, d.stalls.running, "a worker may stand still over this one")
		cancel()
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(<-done))
	})
	t.Run("within a stream", func(t *testing.T) {
		t.Parallel()
		s := &scheduler{workers: []*worker{startWorker(t, strings.TrimSuffix(stream(chunk("a", "null")), "0\r\n\r\n"))}}
		d := dispatcher(t, s)
		a, err := d.Open(context.Background(), job(t, streamDoc))
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := drainStream(a.Stream)
			done <- err
		}()
		err = standing(d, done)
		require.Equal(t, faultv1.Reason_REASON_STREAM_BROKEN, fault.ReasonOf(err))
		a.Close(d, err)
		require.Equal(t, []schedulerv1.Outcome{failed}, s.outcomes(t))
	})
}

// TestASlowClientIsNotCut: what waits for its client, not for the worker, is left alone; a plain answer that stops is not.
func TestASlowClientIsNotCut(t *testing.T) {
	t.Parallel()
	const size = 64 << 10
	whole := plain(200, `"`+strings.Repeat("x", size)+`"`)
	rows := []struct {
		name, script string
		fails        bool
	}{
		{"the body is there", whole, false},
		{"the worker stops", whole[:len(whole)-100], true},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := dispatcher(t, &scheduler{workers: []*worker{startWorker(t, row.script)}}, func(c *Config) { c.BufferBytes = 1 << 10 })
			a, err := d.Open(context.Background(), job(t, plainDoc))
			require.NoError(t, err)
			require.True(t, a.More)
			for range 4 {
				d.Stalled([]string{"w0"}, nil) // the client does not read
			}
			done := make(chan error, 1)
			go func() {
				_, err := io.Copy(io.Discard, a.Reader())
				done <- err
			}()
			if !row.fails {
				require.NoError(t, <-done)
				a.Close(d, nil)
				return
			}
			kittest.Eventually(t, func() error {
				d.Stalled([]string{"w0"}, nil)
				select {
				case err = <-done:
					return nil
				default:
					return errors.New("still waiting")
				}
			})
			require.Error(t, err)
			a.Close(d, err)
		})
	}
}
