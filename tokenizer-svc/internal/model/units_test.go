package model_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// naiveIDs encodes a request without model, cache or cuts inside the pieces that the request asks for.
func naiveIDs(t *testing.T, r model.Request) []uint32 {
	t.Helper()
	var ids []uint32
	start := 0
	for _, end := range append(slices.Clone(r.Cuts), uint32(len(r.Text))) {
		var err error
		ids, err = (&fake{}).AppendIDs(ids, r.Text[start:end], r.AddSpecial)
		require.NoError(t, err)
		start = int(end)
	}
	return ids
}

// checkUnits compares one request with the naive way.
func checkUnits(t *testing.T, m *model.Model, e *model.Encoding, r model.Request) {
	t.Helper()
	e.Reset()
	require.NoError(t, m.Units(e, r))
	ids := naiveIDs(t, r)
	require.Equal(t, len(ids), e.Tokens())
	want := kvblock.AppendUnits(nil, r.Root, ids, r.Salt)
	require.True(t, slices.Equal(want, e.Units()), "units of %d bytes, cuts %v, salt %q", len(r.Text), r.Cuts, r.Salt)
	if r.WantIDs {
		require.True(t, slices.Equal(ids, e.IDs()))
	}
}

// TestUnitsEqualNaive sends random conversations that share beginnings, under different roots and salts, with and without
// ids, through caches of all sizes.
func TestUnitsEqualNaive(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 40 << 10, 1 << 20} {
		rng := rand.New(rand.NewPCG(uint64(size), 9))
		engine := &fake{}
		p := parts(engine, nil)
		p.Cache = segment.NewCache(size)
		m := newModel(t, p)
		var e model.Encoding
		for range 600 {
			r := model.Request{
				AddSpecial: rng.IntN(4) == 0, Root: uint64(rng.IntN(2)), Salt: []string{"", "s", "salt"}[rng.IntN(3)],
				WantIDs: rng.IntN(4) == 0,
			}
			for range rng.IntN(6) {
				r.Text = append(r.Text, message(byte(rng.IntN(2)), 120+16*rng.IntN(2)+rng.IntN(2))...)
			}
			r.Text = append(r.Text, strings.Repeat("x", rng.IntN(3)*rng.IntN(20))...)
			if !r.AddSpecial && rng.IntN(3) == 0 {
				for range rng.IntN(4) {
					r.Cuts = append(r.Cuts, uint32(rng.IntN(len(r.Text)+1)))
				}
				slices.Sort(r.Cuts)
			}
			checkUnits(t, m, &e, r)
		}
		require.Equal(t, size > 0, m.Stats().HitBytes.Load() > 0, "%d bytes", size)
	}
}

func TestUnitsOfKnownPiecesNeedNoEngine(t *testing.T) {
	t.Parallel()
	engine := &fake{}
	m := newModel(t, parts(engine, nil))
	text := slices.Concat(message(1, 200), message(2, 200))
	var e model.Encoding
	calls := func(r model.Request) int64 {
		before := engine.calls.Load()
		checkUnits(t, m, &e, r)
		return engine.calls.Load() - before
	}
	require.EqualValues(t, 2, calls(model.Request{Text: text}))
	require.Zero(t, calls(model.Request{Text: text}))
	require.EqualValues(t, 1, calls(model.Request{Text: append(text, message(3, 200)...)}), "the new message alone")
	require.EqualValues(t, 2, calls(model.Request{Text: text, WantIDs: true}), "ids were not kept")
	require.Zero(t, calls(model.Request{Text: text, WantIDs: true}))
	require.Zero(t, calls(model.Request{Text: text}), "what has ids has hashes")
	require.EqualValues(t, 2, calls(model.Request{Text: text, Salt: "other"}), "hashes of another chain")
	require.EqualValues(t, 2, calls(model.Request{Text: text, Root: 7}))
	require.EqualValues(t, 2, calls(model.Request{Text: text, AddSpecial: true}))
}

func TestOwnersDoNotShare(t *testing.T) {
	t.Parallel()
	shared := segment.NewCache(1 << 20)
	text := slices.Concat(message(1, 200), message(2, 200))
	var e model.Encoding
	for owner := range uint64(3) {
		engine := &fake{}
		p := parts(engine, nil)
		p.Cache, p.Owner = shared, owner
		m := newModel(t, p)
		before := engine.calls.Load()
		checkUnits(t, m, &e, model.Request{Text: text})
		require.EqualValues(t, 2, engine.calls.Load()-before)
	}
}

func TestAuditComparesUnits(t *testing.T) {
	t.Parallel()
	text := slices.Concat(message(1, 200), message(2, 200))
	rows := []struct {
		name   string
		change func(s *model.Served)
		want   model.Outcome
	}{
		{"right", func(*model.Served) {}, model.Equal},
		{"one hash differs", func(s *model.Served) { s.Units[3]++ }, model.Differs},
		{"one is missing", func(s *model.Served) { s.Units = s.Units[1:] }, model.Differs},
		{"another length", func(s *model.Served) { s.Tokens++ }, model.Differs},
		{"another salt", func(s *model.Served) { s.Request.Salt = "b" }, model.Differs},
		{"another root", func(s *model.Served) { s.Request.Root++ }, model.Differs},
		{"right ids", func(s *model.Served) { s.IDs = naiveIDs(t, s.Request) }, model.Equal},
		{"wrong ids", func(s *model.Served) { s.IDs = naiveIDs(t, s.Request)[1:] }, model.Differs},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, parts(&fake{}, &fake{}))
			auditor, reports := audit(t, 1)
			var e model.Encoding
			r := model.Request{Text: text, Root: 5, Salt: "a"}
			checkUnits(t, m, &e, r)
			s := model.Served{Request: r, Units: slices.Clone(e.Units()), Tokens: e.Tokens()}
			row.change(&s)
			auditor.Offer(m, s)
			got := <-reports
			require.Empty(t, cmp.Diff(row.want, got))
			used, _ := m.Fast()
			require.Equal(t, row.want == model.Equal, used)
		})
	}
}
