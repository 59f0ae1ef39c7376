package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// list is a scheduler that only lists.
type list struct {
	schedulerv1.SchedulerServiceClient
	mu               sync.Mutex
	models           []*schedulerv1.FleetModel
	err              error
	stalled, resting []string
	asked            *schedulerv1.ListModelsRequest
	calls            atomic.Int32
}

// set changes what is listed, or why nothing is.
func (l *list) set(models []*schedulerv1.FleetModel, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models, l.err = models, err
}

func (l *list) ListModels(_ context.Context, q *schedulerv1.ListModelsRequest, _ ...grpc.CallOption) (
	*schedulerv1.ListModelsResponse, error,
) {
	l.calls.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = q
	if l.err != nil {
		return nil, l.err
	}
	return &schedulerv1.ListModelsResponse{Models: l.models, StalledWorkers: l.stalled, RestingWorkers: l.resting}, nil
}

func model(id, parent string) *schedulerv1.FleetModel {
	return &schedulerv1.FleetModel{Id: id, Parent: parent, Workers: 1, ReadyWorkers: 1}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	two := []*schedulerv1.FleetModel{model("a", ""), model("b", ""), model("lora", "b")}
	one := []*schedulerv1.FleetModel{model("a", ""), model("lora", "a")}
	named := []*schedulerv1.FleetModel{model("a", ""), {Id: "again", AliasOf: "a", Workers: 1, ReadyWorkers: 1}, model("lora", "a")}
	rows := []struct {
		name   string
		cfg    Config
		models []*schedulerv1.FleetModel
		ask    string
		want   Model
		reason fault.Reason
	}{
		{"by id", Config{}, two, "b", Model{ID: "b", Base: "b", ReadyWorkers: 1}, 0},
		{"adapter", Config{}, two, "lora", Model{ID: "lora", Base: "b", LoRA: "lora", ReadyWorkers: 1}, 0},
		{"alias", Config{Aliases: map[string]string{"x": "a"}}, two, "x", Model{ID: "a", Base: "a", Rename: true, ReadyWorkers: 1}, 0},
		{"alias of an adapter", Config{Aliases: map[string]string{"x": "lora"}}, two, "x", Model{ID: "lora", Base: "b", LoRA: "lora", Rename: true, ReadyWorkers: 1}, 0},
		{"further name", Config{}, named, "again", Model{ID: "again", Base: "a", ReadyWorkers: 1}, 0},
		{"alias of a further name", Config{Aliases: map[string]string{"x": "again"}}, named, "x", Model{ID: "again", Base: "a", Rename: true, ReadyWorkers: 1}, 0},
		{"none, one base of two names", Config{}, named, "", Model{ID: "a", Base: "a", ReadyWorkers: 1}, 0},
		{"none, one base", Config{}, one, "", Model{ID: "a", Base: "a", ReadyWorkers: 1}, 0},
		{"none, two bases", Config{}, two, "", Model{}, faultv1.Reason_REASON_INVALID_REQUEST},
		{"none, a default", Config{DefaultModel: "b"}, two, "", Model{ID: "b", Base: "b", Rename: true, ReadyWorkers: 1}, 0},
		{"none, nobody", Config{}, nil, "", Model{}, faultv1.Reason_REASON_NO_WORKER},
		{"unknown", Config{}, two, "c", Model{}, faultv1.Reason_REASON_MODEL_NOT_FOUND},
		{"case counts", Config{}, two, "A", Model{}, faultv1.Reason_REASON_MODEL_NOT_FOUND},
		{"unknown, a default", Config{DefaultModel: "b"}, two, "gpt-4", Model{ID: "b", Base: "b", Rename: true, ReadyWorkers: 1}, 0},
		{"alias of nobody's model", Config{Aliases: map[string]string{"x": "gone"}}, two, "x", Model{}, faultv1.Reason_REASON_MODEL_NOT_FOUND},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := New(row.cfg, &list{models: row.models}, time.Now)
			m, err := f.Resolve(context.Background(), row.ask)
			if row.reason != 0 {
				require.Equal(t, row.reason, fault.ReasonOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, m)
		})
	}
}

// TestAModelWhoseWorkersDiedIsNotUnknown: 503, not 404.
func TestAModelWhoseWorkersDiedIsNotUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &list{models: []*schedulerv1.FleetModel{model("a", "")}}
		f := New(Config{}, l, time.Now)
		_, err := f.Resolve(context.Background(), "a")
		require.NoError(t, err)
		l.set(nil, nil)
		time.Sleep(time.Second) // of the bubble's clock: the view grows old
		_, err = f.Fresh(context.Background())
		require.NoError(t, err)
		_, err = f.Resolve(context.Background(), "a")
		require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err))
		require.Positive(t, fault.From(err).RetryAfter)
	})
}

// TestNothingIsUnknownBeforeTheFirstWorker: clients try again after 503 and give up after 404.
func TestNothingIsUnknownBeforeTheFirstWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &list{}
		f := New(Config{Aliases: map[string]string{"b": "a"}, DefaultModel: "a"}, l, time.Now)
		for _, name := range []string{"a", "b", "any", ""} {
			_, err := f.Resolve(context.Background(), name)
			require.Equal(t, faultv1.Reason_REASON_NO_WORKER, fault.ReasonOf(err), name)
			require.Positive(t, fault.From(err).RetryAfter, name)
		}
		l.set([]*schedulerv1.FleetModel{model("c", "")}, nil)
		time.Sleep(staleAfter)
		_, err := f.Resolve(context.Background(), "any")
		require.Equal(t, faultv1.Reason_REASON_MODEL_NOT_FOUND, fault.ReasonOf(err))
	})
}

func TestANewModelIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &list{models: []*schedulerv1.FleetModel{model("a", "")}}
		f := New(Config{}, l, time.Now)
		_, err := f.View(context.Background())
		require.NoError(t, err)
		l.set([]*schedulerv1.FleetModel{model("a", ""), model("new", "")}, nil)
		time.Sleep(staleAfter)
		_, err = f.Resolve(context.Background(), "new")
		require.NoError(t, err)
		// Names that nobody knows do not turn into a call each.
		before := l.calls.Load()
		for range 50 {
			_, err = f.Resolve(context.Background(), "none")
			require.Error(t, err)
		}
		require.LessOrEqual(t, l.calls.Load(), before+1)
	})
}

func TestALostSchedulerLeavesTheLastView(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &list{models: []*schedulerv1.FleetModel{model("a", "")}}
		f := New(Config{Refresh: time.Second}, l, time.Now)
		var age atomic.Int64
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx, func(d time.Duration) { age.Store(int64(d)) }, func(_, _ []string) {})
		}()
		synctest.Wait()
		l.set(nil, errors.New("down"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.GreaterOrEqual(t, time.Duration(age.Load()), 9*time.Second)
		_, err := f.Resolve(context.Background(), "a")
		require.NoError(t, err)
		l.set([]*schedulerv1.FleetModel{model("a", "")}, nil)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Less(t, time.Duration(age.Load()), time.Second)
		cancel()
		<-done
	})
}

// TestEveryQuestionIsASignOfLife: each names the gateway and a lease of several questions, and brings what stands still.
func TestEveryQuestionIsASignOfLife(t *testing.T) {
	t.Parallel()
	for refresh, lease := range map[time.Duration]uint32{500 * time.Millisecond: 5000, 4 * time.Second: 20_000} {
		synctest.Test(t, func(t *testing.T) {
			l := &list{stalled: []string{"w1", "w2"}, resting: []string{"w3"}}
			f := New(Config{Refresh: refresh, Gateway: "g"}, l, time.Now)
			ctx, cancel := context.WithCancel(context.Background())
			var told [][]string
			done := make(chan struct{})
			go func() {
				defer close(done)
				f.Run(ctx, func(time.Duration) {}, func(stalled, resting []string) { told = append(told, stalled, resting) })
			}()
			time.Sleep(2*refresh + refresh/2)
			cancel()
			<-done
			require.EqualValues(t, 3, l.calls.Load())
			require.Equal(t, "g", l.asked.GetGateway())
			require.Equal(t, lease, l.asked.GetLeaseMs())
			require.Equal(t, slices.Repeat([][]string{{"w1", "w2"}, {"w3"}}, 3), told)
		})
	}
}

// TestUnloadedAdapters: one that left while its base model lost no worker is unknown; one whose worker is away is not.
func TestUnloadedAdapters(t *testing.T) {
	t.Parallel()
	base := func(ready uint32) *schedulerv1.FleetModel {
		return &schedulerv1.FleetModel{Id: "b", Workers: 2, ReadyWorkers: ready}
	}
	for name, row := range map[string]struct {
		next []*schedulerv1.FleetModel
		want faultv1.Reason
	}{
		"unloaded":            {[]*schedulerv1.FleetModel{base(2)}, faultv1.Reason_REASON_MODEL_NOT_FOUND},
		"a worker joined too": {[]*schedulerv1.FleetModel{base(3)}, faultv1.Reason_REASON_MODEL_NOT_FOUND},
		"its worker is away":  {[]*schedulerv1.FleetModel{base(1)}, faultv1.Reason_REASON_NO_WORKER},
		"everything is away":  {[]*schedulerv1.FleetModel{model("other", "")}, faultv1.Reason_REASON_NO_WORKER},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &list{models: []*schedulerv1.FleetModel{base(2), model("lora", "b")}}
			now := time.Unix(0, 0)
			f := New(Config{}, l, func() time.Time { return now })
			_, err := f.Resolve(t.Context(), "lora")
			require.NoError(t, err)
			l.set(row.next, nil)
			now = now.Add(time.Hour)
			_, err = f.Fresh(t.Context())
			require.NoError(t, err)
			_, err = f.Resolve(t.Context(), "lora")
			require.Equal(t, row.want, fault.ReasonOf(err), "%v", err)
			_, err = f.Resolve(t.Context(), "never")
			require.Equal(t, faultv1.Reason_REASON_MODEL_NOT_FOUND, fault.ReasonOf(err))
		})
	}
}

func TestWithoutAnyViewItIsUnavailable(t *testing.T) {
	t.Parallel()
	f := New(Config{}, &list{err: errors.New("down")}, time.Now)
	_, err := f.Resolve(context.Background(), "a")
	require.Equal(t, faultv1.Reason_REASON_UNAVAILABLE, fault.ReasonOf(err))
}

func TestNamesAndCounts(t *testing.T) {
	t.Parallel()
	f := New(Config{Aliases: map[string]string{"z": "a", "b": "a"}}, &list{models: []*schedulerv1.FleetModel{model("a", ""), model("l", "a")}}, time.Now)
	require.Equal(t, []string{"b", "z"}, f.AliasNames())
	id, ok := f.Alias("z")
	require.True(t, ok)
	require.Equal(t, "a", id)
	v, err := f.View(context.Background())
	require.NoError(t, err)
	require.Equal(t, 2, v.ReadyWorkers())
	require.Equal(t, "a", v.Find("l").GetParent())
	require.Nil(t, v.Find("none"))
}
