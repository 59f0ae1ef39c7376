package model_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// fake is an engine with one id per byte, 1 before and 2 after with special tokens. Faults are switched on by change.
type fake struct {
	// change may alter the ids of a text; nil changes nothing.
	change func(text []byte, ids []uint32) ([]uint32, error)
	calls  atomic.Int64
	closed atomic.Int64
	// lying makes every id wrong, from the time it is set.
	lying atomic.Bool
}

func (f *fake) AppendIDs(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	f.calls.Add(1)
	var ids []uint32
	for _, b := range text {
		ids = append(ids, uint32(b)+10)
	}
	if addSpecial {
		ids = append(append([]uint32{1}, ids...), 2)
	}
	if f.lying.Load() {
		for i := range ids {
			ids[i]++
		}
	}
	if f.change != nil {
		var err error
		if ids, err = f.change(text, ids); err != nil {
			return dst, err
		}
	}
	return append(dst, ids...), nil
}

func (f *fake) AppendText(dst []byte, ids []uint32, _ bool) ([]byte, error) {
	for _, id := range ids {
		dst = append(dst, byte(id-10))
	}
	return dst, nil
}

func (f *fake) Close() { f.closed.Add(1) }

// def has one token to cut after.
func def() *definition.Definition {
	return &definition.Definition{
		Added: []definition.AddedToken{{ID: 300, Content: "<e>"}},
		Cut:   definition.Cut{Raw: []definition.CutToken{{Content: "<e>", After: true}}},
	}
}

func parts(reference, fast *fake) model.Parts {
	p := model.Parts{Name: "m", Reference: reference, Definition: def(), Vocabulary: 266, Cache: segment.NewCache(1 << 20), Owner: 1}
	if fast != nil {
		p.Fast = fast
	}
	return p
}

func newModel(t *testing.T, p model.Parts) *model.Model {
	t.Helper()
	m, err := model.New(p)
	require.NoError(t, err)
	return m
}

func message(seed byte, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = 'a' + (seed+byte(i))%26
	}
	return append(out, "<e>"...)
}

func TestFastEngineIsUsedWhenEqual(t *testing.T) {
	t.Parallel()
	reference, fast := &fake{}, &fake{}
	m := newModel(t, parts(reference, fast))
	used, why := m.Fast()
	require.True(t, used, why)
	before := reference.calls.Load()
	ids, err := m.Encode([]uint32{7}, []byte("ab"), true)
	require.NoError(t, err)
	require.Equal(t, []uint32{7, 1, 'a' + 10, 'b' + 10, 2}, ids)
	require.Equal(t, before, reference.calls.Load(), "the reference encoded too")
	text, err := m.Decode(nil, ids[2:4], false)
	require.NoError(t, err)
	require.Equal(t, "ab", string(text))
	require.EqualValues(t, 301, m.IDLimit(), "the added token's id is the largest")
	require.Equal(t, 266, m.Vocabulary())
}

func TestFastEngineIsRefused(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		change func(text []byte, ids []uint32) ([]uint32, error)
		says   string
	}{
		{"other ids for NUL", func(text []byte, ids []uint32) ([]uint32, error) {
			if slices.Contains(text, 0) {
				return ids[1:], nil
			}
			return ids, nil
		}, "differs from the reference"},
		{"other ids for long runs", func(text []byte, ids []uint32) ([]uint32, error) {
			if len(text) > 400 {
				return append(ids, 5), nil
			}
			return ids, nil
		}, "differs from the reference"},
		{"an error", func(text []byte, ids []uint32) ([]uint32, error) { return nil, errors.New("broken") }, "fails on probe 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, parts(&fake{}, &fake{change: row.change}))
			used, why := m.Fast()
			require.False(t, used)
			require.Contains(t, why, row.says)
			ids, err := m.Encode(nil, []byte("a\x00"), false)
			require.NoError(t, err)
			require.Equal(t, []uint32{'a' + 10, 10}, ids)
		})
	}
}

func TestWithoutFastEngine(t *testing.T) {
	t.Parallel()
	p := parts(&fake{}, nil)
	p.FastRefused = "not supported"
	m := newModel(t, p)
	used, why := m.Fast()
	require.False(t, used)
	require.Equal(t, "not supported", why)
	segments, _ := m.Segments()
	require.True(t, segments, "the reference may be cached too")
}

func TestFailingReferenceClosesTheEngines(t *testing.T) {
	t.Parallel()
	reference, fast := &fake{change: func([]byte, []uint32) ([]uint32, error) { return nil, errors.New("broken") }}, &fake{}
	_, err := model.New(parts(reference, fast))
	require.ErrorContains(t, err, `check tokenizer "m"`)
	require.EqualValues(t, 1, reference.closed.Load())
	require.EqualValues(t, 1, fast.closed.Load())
}

func TestReferenceWithoutIDsIsAFault(t *testing.T) {
	t.Parallel()
	silent := &fake{change: func([]byte, []uint32) ([]uint32, error) { return nil, nil }}
	_, err := model.New(parts(silent, nil))
	require.ErrorContains(t, err, "no ids for a text")
}

func TestSegmentsAreReused(t *testing.T) {
	t.Parallel()
	engine := &fake{}
	m := newModel(t, parts(engine, nil))
	first := slices.Concat(message(1, 200), message(2, 200))
	second := slices.Concat(first, message(3, 200))
	for _, special := range []bool{false, true} {
		for _, text := range [][]byte{first, second, second} {
			want, err := (&fake{}).AppendIDs(nil, text, special)
			require.NoError(t, err)
			got, err := m.Encode(nil, text, special)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	before := engine.calls.Load()
	_, err := m.Encode(nil, second, true)
	require.NoError(t, err)
	require.Equal(t, before, engine.calls.Load(), "all pieces are known")
	require.Positive(t, m.Stats().HitBytes.Load())
	require.Positive(t, m.Stats().MissBytes.Load())
}

func TestSegmentsAreRefused(t *testing.T) {
	t.Parallel()
	contextual := func(text []byte, ids []uint32) ([]uint32, error) {
		// The first byte of a text counts differently: pieces differ from the whole.
		if len(ids) > 0 {
			ids[0] += 1000
		}
		return ids, nil
	}
	rows := []struct {
		name   string
		change func(p *model.Parts)
		says   string
	}{
		{"pieces differ", func(p *model.Parts) { p.Reference = &fake{change: contextual} }, "pieces of probe"},
		{"rules refuse", func(p *model.Parts) { p.Definition.Cut = definition.Cut{Refused: "a rule"} }, "a rule"},
		{"cache is off", func(p *model.Parts) { p.Cache = nil }, "is off"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := parts(&fake{}, nil)
			row.change(&p)
			m := newModel(t, p)
			used, why := m.Segments()
			require.False(t, used)
			require.Contains(t, why, row.says)
			text := slices.Concat(message(1, 200), message(2, 200))
			want, err := p.Reference.AppendIDs(nil, text, false)
			require.NoError(t, err)
			got, err := m.Encode(nil, text, false)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// TestSpecialTokensThatDependOnTheText go through the engine whole: no fixed affix may be put around pieces.
func TestSpecialTokensThatDependOnTheText(t *testing.T) {
	t.Parallel()
	odd := func(text []byte, ids []uint32) ([]uint32, error) {
		if len(ids) == len(text)+2 {
			ids[0] = uint32(len(text))
		}
		return ids, nil
	}
	m := newModel(t, parts(&fake{change: odd}, nil))
	text := slices.Concat(message(1, 200), message(2, 200))
	ids, err := m.Encode(nil, text, true)
	require.NoError(t, err)
	require.EqualValues(t, len(text), ids[0])
}

func TestErrorsOfPiecesComeThrough(t *testing.T) {
	t.Parallel()
	engine := &fake{}
	m := newModel(t, parts(engine, nil))
	broken := errors.New("broken")
	engine.change = func([]byte, []uint32) ([]uint32, error) { return nil, broken }
	_, err := m.Encode(nil, slices.Concat(message(1, 200), message(2, 200)), false)
	require.ErrorIs(t, err, broken)
}

func TestReferencesCount(t *testing.T) {
	t.Parallel()
	reference, fast := &fake{}, &fake{}
	m := newModel(t, parts(reference, fast))
	require.True(t, m.Retain())
	m.Release()
	require.Zero(t, reference.closed.Load())
	m.Release()
	require.EqualValues(t, 1, reference.closed.Load())
	require.EqualValues(t, 1, fast.closed.Load())
	require.False(t, m.Retain(), "a closed model came back")
}

func TestReferencesUnderConcurrentUse(t *testing.T) {
	t.Parallel()
	reference := &fake{}
	m := newModel(t, parts(reference, nil))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for m.Retain() {
				if reference.closed.Load() > 0 {
					t.Error("used after close")
				}
				m.Release()
			}
		})
	}
	m.Release()
	group.Wait()
	require.EqualValues(t, 1, reference.closed.Load())
}

// audit runs an auditor until the test ends and returns it with its reports.
func audit(t *testing.T, every int) (*model.Auditor, <-chan model.Outcome) {
	t.Helper()
	reports := make(chan model.Outcome, 64)
	auditor := model.NewAuditor(every, func(_ *model.Model, o model.Outcome) { reports <- o })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		auditor.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return auditor, reports
}

func served(text []byte, ids []uint32) model.Served {
	return model.Served{Request: model.Request{Text: text}, IDs: ids}
}

func TestAuditFindsALie(t *testing.T) {
	t.Parallel()
	reference, fast := &fake{}, &fake{}
	m := newModel(t, parts(reference, fast))
	auditor, reports := audit(t, 1)
	text := []byte("some text")
	offer := func() []uint32 {
		ids, err := m.Encode(nil, text, false)
		require.NoError(t, err)
		auditor.Offer(m, served(text, ids))
		return ids
	}
	right := offer()
	require.Equal(t, model.Equal, <-reports)
	fast.lying.Store(true)
	require.NotEqual(t, right, offer())
	require.Equal(t, model.Differs, <-reports)
	used, why := m.Fast()
	require.False(t, used)
	require.Contains(t, why, "audited request")
	segments, _ := m.Segments()
	require.False(t, segments, "pieces from the fast engine may be wrong too")
	require.Equal(t, right, offer(), "the reference answers from now on")
	fast.lying.Store(false)
	used, _ = m.Fast()
	require.False(t, used, "the switch is for good")
}

func TestAuditTakesASample(t *testing.T) {
	t.Parallel()
	for every, want := range map[int]int{0: 0, 1: 12, 4: 3, 100: 0} {
		m := newModel(t, parts(&fake{}, &fake{}))
		auditor, reports := audit(t, every)
		got := 0
		for i := range 12 {
			auditor.Offer(m, served([]byte("x"), []uint32{'x' + 10}))
			if every > 0 && (i+1)%every == 0 {
				require.Equal(t, model.Equal, <-reports)
				got++
			}
		}
		require.Empty(t, reports)
		require.Equal(t, want, got, "every %d", every)
	}
}

func TestAuditDropsWhatItCannotTake(t *testing.T) {
	t.Parallel()
	m := newModel(t, parts(&fake{}, &fake{}))
	reports := make(chan model.Outcome, 64)
	// Nobody runs this auditor: its queue fills.
	auditor := model.NewAuditor(1, func(_ *model.Model, o model.Outcome) { reports <- o })
	auditor.Offer(m, served(make([]byte, 1<<20), nil))
	require.Equal(t, model.Dropped, <-reports, "too long")
	for range 4 {
		auditor.Offer(m, served([]byte("x"), nil))
	}
	require.Empty(t, reports)
	auditor.Offer(m, served([]byte("x"), nil))
	require.Equal(t, model.Dropped, <-reports, "queue full")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	auditor.Run(ctx)
	m.Release()
	require.False(t, m.Retain(), "a sample kept its reference")
}

func TestAuditOfAFailingReference(t *testing.T) {
	t.Parallel()
	reference, fast := &fake{}, &fake{}
	m := newModel(t, parts(reference, fast))
	reference.change = func([]byte, []uint32) ([]uint32, error) { return nil, errors.New("broken") }
	auditor, reports := audit(t, 1)
	auditor.Offer(m, served([]byte("x"), []uint32{1}))
	require.Equal(t, model.Failed, <-reports)
	used, _ := m.Fast()
	require.True(t, used, "nothing is proven against the fast engine")
}
