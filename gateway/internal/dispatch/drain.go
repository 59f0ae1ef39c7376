package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// streamBytes is the first size of a stream's buffer: several events of a token each fit, and an idle stream holds it.
const streamBytes = 1024

// burstBytes is how far a buffer grows for streams that come faster than they are read.
const burstBytes = 32 << 10

// bufferPool lends stream buffers.
type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, streamBytes)
	return &b
}

func (p *bufferPool) put(b *[]byte) { p.pool.Put(b) }

// drainTime is how long the end of a body may come after [DONE] for its connection to be kept.
const drainTime = 250 * time.Millisecond

// drains waits for the ends of bodies whose streams are over for the client.
type drains struct{ wg sync.WaitGroup }

// drain owns resp.
func (d *drains) drain(resp *wire.Response) {
	d.wg.Go(func() {
		defer resp.Close()
		resp.WakeAfter(context.Background(), drainTime)
		var b [512]byte
		for range 8 {
			if _, err := resp.Read(b[:]); err != nil {
				return
			}
		}
	})
}

func (d *drains) wait() { d.wg.Wait() }
