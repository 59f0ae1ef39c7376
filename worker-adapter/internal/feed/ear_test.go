package feed

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

// TestLiveQueueIsBoundedInBytes: batches that nobody takes push back on the publisher before they fill the memory.
func TestLiveQueueIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	require.Greater(t, liveBytes, zmq.MaxMessageBytes+messageBytes, "the largest message must fit")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := &ear{ctx: ctx, in: make(chan message, liveQueue), room: semaphore.NewWeighted(4000)}
		var put atomic.Int32
		go func() {
			for seq := range uint64(6) {
				e.Updated(zmq.Update{Seq: seq, Payload: make([]byte, 1000)})
				put.Add(1)
			}
		}()
		synctest.Wait()
		require.EqualValues(t, 3, put.Load(), "three of 1,128 bytes fit into 4,000")
		first := <-e.in
		require.EqualValues(t, 1128, first.room)
		e.room.Release(first.room)
		synctest.Wait()
		require.EqualValues(t, 4, put.Load())
		cancel()
		synctest.Wait()
		require.EqualValues(t, 6, put.Load(), "an end frees the connection")
		require.Len(t, e.in, 3)
	})
}
