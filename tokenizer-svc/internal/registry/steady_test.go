package registry_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
)

// TestFilesWrittenInPlace: looks that fall into the writing of a file load none of it.
func TestFilesWrittenInPlace(t *testing.T) {
	t.Parallel()
	o, dir := &opener{}, folder(t)
	r := newRegistry(t, o, registry.Spec{Name: "m", Path: dir})
	steps := []struct {
		write string
		loads uint32
	}{
		{"", 1}, // the first look loads
		{"", 1}, // nothing changed
		{`{"mod`, 1},
		{`{"model":{"a`, 1},
		{`{"model":{"a":1}}`, 1},
		{"", 2}, // two looks saw the same
		{"", 2},
	}
	for i, step := range steps {
		if step.write != "" {
			touch(t, dir, step.write)
		}
		r.Reload(t.Context())
		require.Equal(t, step.loads, o.loads.Load(), "step %d", i)
		require.Equal(t, registry.Ready, r.List()[0].State, "step %d", i)
	}
}

// TestChangedWhileRead: a load whose files changed meanwhile is dropped, engines and all, whether it went well or not;
// what answered before goes on.
func TestChangedWhileRead(t *testing.T) {
	t.Parallel()
	o, dir := &opener{}, folder(t)
	r := newRegistry(t, o, registry.Spec{Name: "m", Path: dir})
	written := 0
	write := func() {
		written++
		touch(t, dir, fmt.Sprintf(`{"model":{"a":%d}}`, 1<<(8*written)))
	}
	o.during = write
	r.Reload(t.Context())
	require.Equal(t, registry.Failed, r.List()[0].State)
	require.Contains(t, r.List()[0].Detail, "changed while they were read")
	require.EqualValues(t, 1, o.closed.Load(), "the dropped one is closed")

	o.during = nil
	r.Reload(t.Context())
	require.Equal(t, registry.Ready, r.List()[0].State, "the files stand as the first reading left them")

	for _, fails := range []bool{false, true} {
		closed := o.closed.Load()
		write()
		r.Reload(t.Context())
		o.during = write
		o.fail.Store(fails)
		r.Reload(t.Context())
		o.during = nil
		o.fail.Store(false)
		m, err := r.Acquire("m")
		require.NoError(t, err)
		before := first(t, m)
		m.Release()
		if !fails {
			require.Equal(t, closed+1, o.closed.Load(), "only the dropped one is closed")
		}
		r.Reload(t.Context())
		m, err = r.Acquire("m")
		require.NoError(t, err)
		require.Greater(t, first(t, m), before, "the next look loads what stands")
		m.Release()
	}
}

// TestFolderThatGoes: a model whose folder goes away answers on, and a folder that is back is loaded.
func TestFolderThatGoes(t *testing.T) {
	t.Parallel()
	o, dir := &opener{}, folder(t)
	spec := registry.Spec{Name: "m", Path: dir}
	r := newRegistry(t, o, spec)
	r.Reload(t.Context())
	require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
	look(t, r)
	m, err := r.Acquire("m")
	require.NoError(t, err)
	require.EqualValues(t, 1, first(t, m))
	m.Release()
	touch(t, dir, `{"model":{"back":1}}`)
	look(t, r)
	m, err = r.Acquire("m")
	require.NoError(t, err)
	require.EqualValues(t, 2, first(t, m))
	m.Release()
}

// TestNoIntervalLooksUntilLoaded: without an interval a model whose files changed under its first load, or came late, is
// looked at until it is loaded, and never again.
func TestNoIntervalLooksUntilLoaded(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	synctest.Test(t, func(t *testing.T) {
		o := &opener{}
		r, err := registry.New(registry.Config{
			Specs: []registry.Spec{{Name: "m", Path: dir}}, Opener: o, Interval: -1, Log: kittest.Logger(t),
		})
		require.NoError(t, err)
		var once sync.Once
		o.during = func() { once.Do(func() { touch(t, dir, `{"model":{"changed":1}}`) }) }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Run(ctx)
		}()
		synctest.Wait()
		require.Equal(t, registry.Failed, r.List()[0].State)
		time.Sleep(time.Minute) // the bubble's clock
		synctest.Wait()
		require.Equal(t, registry.Ready, r.List()[0].State)
		loads := o.loads.Load()
		touch(t, dir, `{"model":{"a":123456}}`)
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, loads, o.loads.Load(), "a loaded model is not looked at again")
		cancel()
		<-done
	})
}
