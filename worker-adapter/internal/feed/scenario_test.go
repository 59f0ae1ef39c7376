package feed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq/zmqtest"
)

func errorf(format string, a ...any) error { return fmt.Errorf(format, a...) }

// TestScenarios plays what happens between a worker and its adapter. Each batch's hash is its place in the scenario, so
// that "applied 1 to n" means: each once, in order, none missing.
func TestScenarios(t *testing.T) {
	t.Parallel()
	noReplay := func(c *feed.Config) { c.Replay = "" }
	rows := []struct {
		name   string
		before func(*testing.T, *zmqtest.Publisher)
		change func(*feed.Config)
		play   func(*bundle)
	}{
		{name: "from the start", play: func(b *bundle) {
			b.publish(1, 5)
			b.expect(1, 5, 0)
			b.incomplete(false)
		}},
		{name: "late", before: func(t *testing.T, p *zmqtest.Publisher) {
			for n := range uint64(20) {
				p.Publish(batch(t, n+1))
			}
		}, play: func(b *bundle) {
			b.expect(1, 20, 0)
			b.publish(21, 25)
			b.expect(1, 25, 0)
			b.incomplete(false)
		}},
		{name: "late, old framing", before: func(t *testing.T, p *zmqtest.Publisher) {
			p.OldReplay = true
			for n := range uint64(20) {
				p.Publish(batch(t, n+1))
			}
		}, play: func(b *bundle) { b.expect(1, 20, 0) }},
		{name: "late, the buffer begins later", before: func(t *testing.T, p *zmqtest.Publisher) {
			for n := range uint64(20) {
				p.Publish(batch(t, n+1))
			}
			p.Forget(5)
		}, play: func(b *bundle) {
			b.expect(16, 20, 0)
			b.publish(21, 21)
			b.expect(16, 21, 0)
			b.incomplete(true)
		}},
		{name: "gap", play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Lose(batch(b.t, 4))
			b.Lose(batch(b.t, 5))
			b.publish(6, 9)
			b.expect(1, 9, 0)
			require.EqualValues(b.t, 1, b.gaps.n.Load())
			b.incomplete(false)
		}},
		{name: "gap in what came during a replay", play: func(b *bundle) {
			b.publish(1, 3)
			for n := uint64(4); n < 60; n += 2 {
				b.Lose(batch(b.t, n))
				b.publish(n+1, n+1)
			}
			b.publish(60, 60)
			b.expect(1, 60, 0)
		}},
		{name: "gap beyond the buffer", play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			for n := uint64(4); n < 10; n++ {
				b.Lose(batch(b.t, n))
			}
			b.Forget(2)
			b.publish(10, 12)
			b.expect(8, 12, 1)
			b.incomplete(true)
		}},
		{name: "a number used up", play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Waste()
			b.publish(4, 6)
			b.expect(4, 6, 1)
			b.incomplete(true)
		}},
		{name: "gap without replay", change: noReplay, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Lose(batch(b.t, 4))
			b.publish(5, 7)
			b.expect(5, 7, 1)
			b.incomplete(true)
		}},
		{name: "restart", play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Restart()
			b.WaitSubscriber()
			b.publish(7, 8)
			b.expect(7, 8, 1)
			b.incomplete(false)
		}},
		{name: "restart that was heard late", play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Restart()
			b.publish(7, 16)
			b.expect(7, 16, 1)
			b.incomplete(false)
		}},
		{name: "restart without replay", change: noReplay, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Restart()
			b.WaitSubscriber()
			b.publish(7, 8)
			b.expect(7, 8, 1)
		}},
		{name: "connection lost, same process", play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Hangup()
			b.publish(4, 6)
			b.expect(1, 6, 0)
			b.WaitSubscriber()
			b.publish(7, 7)
			b.expect(1, 7, 0)
		}},
		{name: "the last batch is lost, then silence", change: func(c *feed.Config) {
			c.IdleCheck = 20 * time.Millisecond
		}, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Lose(batch(b.t, 4))
			b.expect(1, 4, 0)
			b.publish(5, 5)
			b.expect(1, 5, 0)
		}},
		{name: "gap, and the replay does not answer", change: impatient, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Mute(true)
			b.Lose(batch(b.t, 4))
			b.publish(5, 7)
			b.expect(5, 7, 1)
			b.incomplete(true)
		}},
		{name: "connection lost, and the replay does not answer", change: impatient, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Mute(true)
			b.Hangup()
			b.expect(1, 0, 1)
			b.Mute(false)
			b.WaitSubscriber()
			b.publish(4, 5)
			b.expect(1, 5, 1)
		}},
		{name: "restart under a deaf replay", change: impatient, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Mute(true)
			b.Restart()
			b.WaitSubscriber()
			b.publish(7, 9)
			b.expect(7, 9, 1)
		}},
		{name: "idle, and the replay does not answer", change: func(c *feed.Config) {
			impatient(c)
			c.IdleCheck = 10 * time.Millisecond
		}, play: func(b *bundle) {
			b.publish(1, 3)
			b.expect(1, 3, 0)
			b.Mute(true)
			b.publish(4, 4)
			b.expect(1, 4, 0)
			b.publish(5, 5)
			b.expect(1, 5, 0)
		}},
		{name: "undecodable batch", play: func(b *bundle) {
			b.publish(1, 2)
			b.Publish([]byte{0xc1})
			b.publish(3, 4)
			b.expect(1, 4, 0)
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := zmqtest.Start(t)
			if row.before != nil {
				row.before(t, p)
			}
			b := follow(t, p, row.change)
			b.WaitSubscriber()
			row.play(b)
		})
	}
}

// impatient makes replays that are not answered fail at once.
func impatient(c *feed.Config) { c.ReplayIdle = 20 * time.Millisecond }

// TestMuteReplay: live batches wait for a replay socket that says nothing no longer than they may, however much silence
// a replay is allowed. The fault is counted and named until a replay succeeds.
func TestMuteReplay(t *testing.T) {
	t.Parallel()
	p := zmqtest.Start(t)
	b := follow(t, p, func(c *feed.Config) {
		c.ReplayIdle, c.ReplayWithin = time.Hour, 300*time.Millisecond
	})
	b.WaitSubscriber()
	b.publish(1, 3)
	b.expect(1, 3, 0)
	b.Mute(true)
	b.Lose(batch(b.t, 4))
	b.publish(5, 7)
	b.expect(5, 7, 1)
	b.incomplete(true)
	require.EqualValues(t, 1, b.unreplayed.n.Load())
	require.Contains(t, b.fault(), zmq.ErrReplayCut.Error())

	b.Mute(false)
	next := uint64(8)
	kittest.Eventually(t, func() error { // a machine under load may be too slow for the first
		b.Lose(batch(b.t, next))
		b.publish(next+1, next+1)
		next += 2
		if why := b.fault(); why != "" {
			return errorf("still named: %s", why)
		}
		return nil
	})
}

// TestPendingBound: live batches beyond the bound during a replay are dropped and fetched again.
func TestPendingBound(t *testing.T) {
	t.Parallel()
	p := zmqtest.Start(t)
	b := follow(t, p, func(c *feed.Config) { c.PendingBytes = 1 })
	b.WaitSubscriber()
	b.publish(1, 3)
	for n := uint64(4); n < 40; n += 3 {
		b.Lose(batch(b.t, n))
		b.publish(n+1, n+2)
	}
	b.publish(40, 40)
	b.expect(1, 40, 0)
}

// TestWrongEndpoint: an endpoint that can never work ends the feed.
func TestWrongEndpoint(t *testing.T) {
	t.Parallel()
	f := feed.New(feed.Config{}, &sink{}, nil, feed.Metrics{})
	require.ErrorContains(t, f.Run(t.Context()), "want tcp://host:port")
}
