package admit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestKeysCheck(t *testing.T) {
	t.Parallel()
	digest := sha256.Sum256([]byte("hashed"))
	k, err := NewKeys([]Key{{Name: "a", Key: "plain"}, {SHA256: hex.EncodeToString(digest[:])}}, time.Now)
	require.NoError(t, err)
	rows := []struct{ name, authorization, bare, want string }{
		{"bearer", "Bearer plain", "", "a"},
		{"any case", "bEaReR plain", "", "a"},
		{"blanks", "Bearer  plain ", "", "a"},
		{"hashed", "Bearer hashed", "", "key-2"},
		{"bare header", "", "plain", "a"},
		{"authorization wins", "Bearer hashed", "plain", "key-2"},
		{"nothing", "", "", ""},
		{"scheme alone", "Bearer", "", ""},
		{"other scheme", "Basic plain", "", ""},
		{"key alone", "plain", "", ""},
		{"wrong", "Bearer plai", "", ""},
		{"not ASCII", "Bearer schüssel", "", ""},
		{"the digest is no key", "Bearer " + hex.EncodeToString(digest[:]), "", ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, err := k.Check(row.authorization, row.bare)
			if row.want == "" {
				require.Equal(t, faultv1.Reason_REASON_UNAUTHENTICATED, fault.ReasonOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, c.Name)
		})
	}
}

func TestWithoutKeysEverybodyIsLetIn(t *testing.T) {
	t.Parallel()
	k, err := NewKeys(nil, time.Now)
	require.NoError(t, err)
	require.False(t, k.Required())
	c, err := k.Check("", "")
	require.NoError(t, err)
	require.NoError(t, c.Allow(time.Now()))
	require.NoError(t, c.MayUse("any"))
}

func TestBadKeys(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]Key{
		"neither": {Name: "x"}, "both": {Key: "a", SHA256: "b"}, "short": {SHA256: "abcd"},
		"not hexadecimal": {SHA256: "zz00000000000000000000000000000000000000000000000000000000000000"},
	} {
		_, err := NewKeys([]Key{k}, time.Now)
		require.ErrorContains(t, err, "keys[0]", name)
	}
}

func TestModelsOfAKey(t *testing.T) {
	t.Parallel()
	k, err := NewKeys([]Key{{Key: "a", Models: []string{"m"}}}, time.Now)
	require.NoError(t, err)
	c, err := k.Check("Bearer a", "")
	require.NoError(t, err)
	require.NoError(t, c.MayUse("m"))
	require.Equal(t, faultv1.Reason_REASON_PERMISSION_DENIED, fault.ReasonOf(c.MayUse("M")))
}

func TestRate(t *testing.T) {
	t.Parallel()
	k, err := NewKeys([]Key{{Key: "a", RequestsPerMinute: 60}}, time.Now)
	require.NoError(t, err)
	c, err := k.Check("Bearer a", "")
	require.NoError(t, err)
	now := time.Unix(1000, 0)
	for range 60 {
		require.NoError(t, c.Allow(now))
	}
	err = c.Allow(now)
	require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
	require.Equal(t, time.Second, fault.From(err).RetryAfter)
	require.NoError(t, c.Allow(now.Add(time.Second)))
	require.Error(t, c.Allow(now.Add(time.Second)))
	for range 60 {
		require.NoError(t, c.Allow(now.Add(time.Hour)), "the bucket fills up to a minute's worth")
	}
	require.Error(t, c.Allow(now.Add(time.Hour)))
}

// queue is a queue whose number of waiting requests can be seen.
func queue(cfg QueueConfig) (*Queue, *int) {
	var mu sync.Mutex
	waiting := 0
	return NewQueue(cfg, func(d int) { mu.Lock(); waiting += d; mu.Unlock() }), &waiting
}

func TestQueueWithoutBoundsCountsNothing(t *testing.T) {
	t.Parallel()
	q, _ := queue(QueueConfig{})
	leave, err := q.Enter(context.Background(), "m", 0)
	require.NoError(t, err)
	leave()
	running, waiting := q.Counts()
	require.Zero(t, running+waiting)
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, waiting := queue(QueueConfig{MaxInflightPerWorker: 1, Limit: 10})
		leave, err := q.Enter(context.Background(), "m", 1)
		require.NoError(t, err)
		var order []int
		var mu sync.Mutex
		for i := range 4 {
			go func() {
				next, err := q.Enter(context.Background(), "m", 1)
				if err == nil {
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					next()
				}
			}()
			synctest.Wait()
		}
		require.Equal(t, 4, *waiting)
		leave()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3}, order)
		running, left := q.Counts()
		require.Zero(t, running+left)
		require.Zero(t, *waiting)
		require.Empty(t, q.models, "a model without requests is forgotten")
	})
}

func TestQueueBoundIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, _ := queue(QueueConfig{MaxInflightPerWorker: 2, Limit: 3, Timeout: time.Minute})
		var leaves []func()
		for range 4 { // two workers, two each
			leave, err := q.Enter(context.Background(), "m", 2)
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		ctx, cancel := context.WithCancel(context.Background())
		for range 3 {
			go func() { _, _ = q.Enter(ctx, "m", 2) }()
		}
		synctest.Wait()
		_, err := q.Enter(context.Background(), "m", 2)
		require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
		require.Positive(t, fault.From(err).RetryAfter)
		cancel()
		synctest.Wait()
		running, waiting := q.Counts()
		require.Equal(t, 4, running)
		require.Zero(t, waiting, "who leaves frees the place in the queue at once")
		for _, leave := range leaves {
			leave()
		}
	})
}

func TestQueueTimeoutAndDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, _ := queue(QueueConfig{MaxInflight: 1, Limit: 3, Timeout: time.Second})
		leave, err := q.Enter(context.Background(), "a", 1)
		require.NoError(t, err)
		_, err = q.Enter(context.Background(), "b", 1)
		require.Equal(t, faultv1.Reason_REASON_OVERLOADED, fault.ReasonOf(err))
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, err = q.Enter(ctx, "b", 1)
		require.Equal(t, faultv1.Reason_REASON_DEADLINE_EXCEEDED, fault.ReasonOf(err))
		leave()
		leave, err = q.Enter(context.Background(), "b", 1)
		require.NoError(t, err)
		leave()
	})
}

// TestQueueModelsDoNotBlockEachOther: a full model leaves the places of another one alone.
func TestQueueModelsDoNotBlockEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, _ := queue(QueueConfig{MaxInflightPerWorker: 1, Limit: 10})
		full, err := q.Enter(context.Background(), "full", 1)
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if leave, err := q.Enter(context.Background(), "full", 1); err == nil {
				leave()
			}
		}()
		synctest.Wait()
		other, err := q.Enter(context.Background(), "other", 1)
		require.NoError(t, err)
		other()
		full()
		<-done
	})
}

// TestQueueRandomLeavers: whoever leaves at whatever moment, no place is lost or given twice.
func TestQueueRandomLeavers(t *testing.T) {
	t.Parallel()
	q, _ := queue(QueueConfig{MaxInflight: 3, Limit: 1000})
	var wg sync.WaitGroup
	var mu sync.Mutex
	running, most := 0, 0
	for i := range 400 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			if i%3 == 0 {
				go cancel()
			} else {
				defer cancel()
			}
			leave, err := q.Enter(ctx, "m", 1)
			if err != nil {
				return
			}
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			mu.Lock()
			running--
			mu.Unlock()
			leave()
		})
	}
	wg.Wait()
	a, b := q.Counts()
	require.Zero(t, a+b)
	require.LessOrEqual(t, most, 3)
}
