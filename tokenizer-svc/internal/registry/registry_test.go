package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
)

// stub is an engine of one id per byte plus the number of its load.
type stub struct {
	load   uint32
	closed *atomic.Int64
}

func (s stub) AppendIDs(dst []uint32, text []byte, _ bool) ([]uint32, error) {
	for _, b := range text {
		dst = append(dst, uint32(b)+1000*s.load)
	}
	return dst, nil
}

func (s stub) AppendText(dst []byte, _ []uint32, _ bool) ([]byte, error) { return dst, nil }
func (s stub) Close()                                                    { s.closed.Add(1) }

// opener makes stubs and counts.
type opener struct {
	loads  atomic.Uint32
	closed atomic.Int64
	fail   atomic.Bool
	// hold delays loads of the model "slow" until it is closed; nil delays none.
	hold chan struct{}
	// during is called within each load, after the files were read; nil is not.
	during func()
}

// OpenRemote is not asked: no spec of these tests names a worker.
func (o *opener) OpenRemote(registry.Spec) (*model.Model, error) {
	return nil, errors.New("no worker here")
}

func (o *opener) Open(spec registry.Spec, def *definition.Definition) (*model.Model, error) {
	if o.hold != nil && spec.Name == "slow" {
		<-o.hold
	}
	if o.during != nil {
		o.during()
	}
	if o.fail.Load() {
		return nil, errors.New("the engine refuses")
	}
	return model.New(model.Parts{
		Name: spec.Name, Definition: def, Reference: stub{load: o.loads.Add(1), closed: &o.closed}, Vocabulary: 256,
	})
}

// folder makes a model directory with a readable tokenizer.json.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	touch(t, dir, `{"model":{}}`)
	return dir
}

// touch replaces the directory's tokenizer.json by one with other content and another time.
func touch(t *testing.T, dir, content string) {
	t.Helper()
	path := filepath.Join(dir, "tokenizer.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	stamp := time.Now().Add(-time.Duration(len(content)) * time.Minute)
	require.NoError(t, os.Chtimes(path, stamp, stamp))
}

func newRegistry(t *testing.T, o *opener, specs ...registry.Spec) *registry.Registry {
	t.Helper()
	r, err := registry.New(registry.Config{Specs: specs, Opener: o, Log: kittest.Logger(t)})
	require.NoError(t, err)
	return r
}

// look looks as often as files that changed and stand still need.
func look(t *testing.T, r *registry.Registry) {
	t.Helper()
	r.Reload(t.Context())
	r.Reload(t.Context())
}

// run runs the registry until the test ends.
func run(t *testing.T, r *registry.Registry) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

func first(t *testing.T, m *model.Model) uint32 {
	t.Helper()
	ids, err := m.Encode(nil, []byte("\x01"), false)
	require.NoError(t, err)
	return ids[0] / 1000
}

func TestSlowAndBrokenModelsDoNotStopOthers(t *testing.T) {
	t.Parallel()
	o := &opener{hold: make(chan struct{})}
	r := newRegistry(t, o, registry.Spec{Name: "slow", Path: folder(t)}, registry.Spec{Name: "good", Path: folder(t)},
		registry.Spec{Name: "absent", Path: filepath.Join(t.TempDir(), "none")})
	_, err := r.Acquire("good")
	var notReady *registry.NotReadyError
	require.ErrorAs(t, err, &notReady)
	require.Equal(t, registry.Loading, notReady.Status.State)
	require.ErrorContains(t, err, `"good" is loading`)
	run(t, r)
	kittest.Eventually(t, func() error {
		m, err := r.Acquire("good")
		if err == nil {
			m.Release()
		}
		return err
	})
	kittest.Eventually(t, func() error {
		if _, err := r.Acquire("absent"); !errors.As(err, &notReady) || notReady.Status.State != registry.Failed {
			return errors.New("absent has not failed yet")
		}
		return nil
	})
	require.ErrorContains(t, notReady, "not usable")
	_, err = r.Acquire("slow")
	require.ErrorContains(t, err, "loading")
	_, err = r.Acquire("other")
	require.ErrorIs(t, err, registry.ErrUnknown)
	select {
	case <-r.Loaded():
		t.Fatal("loaded while one model still loads")
	default:
	}
	close(o.hold)
	kittest.Closed(t, r.Loaded())
	var states []registry.State
	for _, status := range r.List() {
		states = append(states, status.State)
	}
	require.Equal(t, []registry.State{registry.Failed, registry.Ready, registry.Ready}, states, "absent, good, slow")
}

func TestReloadKeepsRequestsGoing(t *testing.T) {
	t.Parallel()
	o, dir := &opener{}, folder(t)
	r := newRegistry(t, o, registry.Spec{Name: "m", Path: dir})
	r.Reload(t.Context())
	old, err := r.Acquire("m")
	require.NoError(t, err)
	require.EqualValues(t, 1, first(t, old))
	look(t, r)
	require.EqualValues(t, 1, o.loads.Load(), "nothing changed")
	touch(t, dir, `{"model":{"changed":true}}`)
	look(t, r)
	fresh, err := r.Acquire("m")
	require.NoError(t, err)
	require.EqualValues(t, 2, first(t, fresh))
	require.EqualValues(t, 1, first(t, old), "the old one answers while it is held")
	require.Zero(t, o.closed.Load())
	old.Release()
	require.EqualValues(t, 1, o.closed.Load())
	fresh.Release()
	require.EqualValues(t, 1, o.closed.Load(), "the current one stays open")
}

func TestFailedReloadKeepsTheOld(t *testing.T) {
	t.Parallel()
	o, dir := &opener{}, folder(t)
	r := newRegistry(t, o, registry.Spec{Name: "m", Path: dir})
	r.Reload(t.Context())
	o.fail.Store(true)
	touch(t, dir, `{"model":{"broken":1}}`)
	look(t, r)
	m, err := r.Acquire("m")
	require.NoError(t, err)
	require.EqualValues(t, 1, first(t, m))
	m.Release()
	require.Equal(t, registry.Ready, r.List()[0].State)
	o.fail.Store(false)
	touch(t, dir, `{"model":{"good":"again"}}`)
	look(t, r)
	m, err = r.Acquire("m")
	require.NoError(t, err)
	require.EqualValues(t, 2, first(t, m))
	m.Release()
}

func TestFailedModelComesWithItsFiles(t *testing.T) {
	t.Parallel()
	o := &opener{}
	dir := filepath.Join(t.TempDir(), "later")
	r := newRegistry(t, o, registry.Spec{Name: "m", Path: dir})
	r.Reload(t.Context())
	require.Equal(t, registry.Failed, r.List()[0].State)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tekken.json"), nil, 0o600))
	look(t, r)
	require.Equal(t, registry.Unsupported, r.List()[0].State)
	touch(t, dir, `{"model":{}}`)
	look(t, r)
	require.Equal(t, registry.Ready, r.List()[0].State)
	require.Empty(t, r.List()[0].Detail)
}

// fetched is a hub that gives one directory after a number of failures.
type fetched struct {
	dir      string
	failures atomic.Int32
	calls    atomic.Int32
}

func (f *fetched) Fetch(_ context.Context, name, revision string) (string, error) {
	f.calls.Add(1)
	if name != "org/m" || revision != "v1" {
		return "", errors.New("asked for another model")
	}
	if f.failures.Add(-1) >= 0 {
		return "", errors.New("hub away")
	}
	return f.dir, nil
}

func TestModelsFromTheHub(t *testing.T) {
	t.Parallel()
	hub := &fetched{dir: folder(t)}
	hub.failures.Store(1)
	r, err := registry.New(registry.Config{
		Specs: []registry.Spec{{Name: "m", Hub: "org/m", Revision: "v1"}}, Opener: &opener{}, Fetcher: hub, Log: kittest.Logger(t),
	})
	require.NoError(t, err)
	r.Reload(t.Context())
	require.Equal(t, registry.Failed, r.List()[0].State)
	require.Contains(t, r.List()[0].Detail, "hub away")
	r.Reload(t.Context())
	require.Equal(t, registry.Ready, r.List()[0].State)
	r.Reload(t.Context())
	require.EqualValues(t, 2, hub.calls.Load(), "a loaded model is not asked for again")
}

func TestHubModelWithoutAHub(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, &opener{}, registry.Spec{Name: "m", Hub: "org/m"})
	r.Reload(t.Context())
	require.Contains(t, r.List()[0].Detail, "no hub is configured")
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	_, err := registry.New(registry.Config{Specs: []registry.Spec{{Name: "m"}, {Name: "m"}}})
	require.ErrorContains(t, err, "configured twice")
}

func TestRunLooksForChangesAndReleases(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	synctest.Test(t, func(t *testing.T) {
		o := &opener{}
		var outcomes []error
		var mu sync.Mutex
		r, err := registry.New(registry.Config{
			Specs: []registry.Spec{{Name: "m", Path: dir}}, Opener: o, Interval: time.Second, Log: kittest.Logger(t),
			OnLoad: func(_ string, _ time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				outcomes = append(outcomes, err)
			},
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Run(ctx)
		}()
		synctest.Wait()
		require.EqualValues(t, 1, o.loads.Load())
		touch(t, dir, `{"model":{"a":1}}`)
		time.Sleep(1500 * time.Millisecond) // the bubble's clock, not the machine's
		synctest.Wait()
		require.EqualValues(t, 1, o.loads.Load(), "one look is not enough")
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 2, o.loads.Load())
		require.EqualValues(t, 1, o.closed.Load())
		cancel()
		<-done
		require.EqualValues(t, 2, o.closed.Load())
		require.Equal(t, []error{nil, nil}, outcomes)
		_, err = r.Acquire("m")
		require.Error(t, err)
	})
}

func TestAcquireDuringReloads(t *testing.T) {
	t.Parallel()
	o, dir := &opener{}, folder(t)
	r := newRegistry(t, o, registry.Spec{Name: "m", Path: dir})
	r.Reload(t.Context())
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				m, err := r.Acquire("m")
				if err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
				m.Release()
				runtime.Gosched() // leaves a loaded machine to the reloads
			}
		})
	}
	for i := range 30 {
		touch(t, dir, `{"model":{}}`+strings.Repeat(" ", i))
		look(t, r)
	}
	close(stop)
	group.Wait()
	require.Equal(t, int64(o.loads.Load())-1, o.closed.Load(), "all but the current one are closed")
}
