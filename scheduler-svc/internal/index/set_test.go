package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// poolModel keeps, beside a pool, what each unit's holders should be.
type poolModel struct {
	pool  *setPool
	words []word
	want  [][]uint16
}

func newPoolModel(units int, maxBytes int64) *poolModel {
	m := &poolModel{pool: newSetPool(maxBytes), words: make([]word, units), want: make([][]uint16, units)}
	for i := range m.words {
		m.words[i], m.want[i] = inlineWord([]uint16{7}), []uint16{7}
	}
	return m
}

// step adds or removes a random holder of a random unit, one of few, so that sets are shared.
func (m *poolModel) step(r *rand.Rand, holders int) {
	u, id := r.IntN(len(m.words)), uint16(r.IntN(holders))
	at, has := slices.BinarySearch(m.want[u], id)
	switch {
	case !has:
		if w, ok := m.pool.with(m.words[u], id); ok {
			m.words[u], m.want[u] = w, slices.Insert(slices.Clone(m.want[u]), at, id)
		}
	case len(m.want[u]) > 1:
		if w, ok := m.pool.without(m.words[u], id); ok {
			m.words[u], m.want[u] = w, slices.Delete(slices.Clone(m.want[u]), at, at+1)
		}
	}
}

func (m *poolModel) check(t *testing.T) {
	t.Helper()
	seen, bytes := map[string]word{}, int64(0)
	for u, w := range m.words {
		require.Equal(t, m.want[u], w.appendIDs(nil, m.pool), "unit %d", u)
		require.Equal(t, len(m.want[u]) > inlineMax, w.isSet())
		key := string(bytesOf(m.want[u]))
		if other, ok := seen[key]; ok {
			require.Equal(t, other, w, "equal sets have equal words")
			continue
		}
		seen[key] = w
		if w.isSet() {
			bytes += int64(setBytes + 2*len(m.want[u]))
		}
	}
	require.Equal(t, bytes, m.pool.size(), "no set outlives its units")
}

func bytesOf(ids []uint16) []byte {
	var out []byte
	for _, id := range ids {
		out = append(out, byte(id), byte(id>>8))
	}
	return out
}

func TestPoolSharesAndFreesSets(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := newPoolModel(30, 1<<30)
		holders := 8 + r.IntN(30)
		for i := range 4000 {
			m.step(r, holders)
			if i%500 == 0 {
				m.check(t)
			}
		}
		m.check(t)
	}
}

func TestPoolKeepsItsBound(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 5))
	m := newPoolModel(50, 2000)
	for range 5000 {
		m.step(r, 40)
		require.LessOrEqual(t, m.pool.bytes, int64(2000))
	}
	m.check(t)
}

func TestKeepFiltersHolders(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		ids  []uint16
		want []uint16
	}{
		{"inline", []uint16{1, 2, 3}, []uint16{2}},
		{"inline to nobody", []uint16{1, 3}, nil},
		{"a set to a set", []uint16{2, 4, 6, 8, 10, 11}, []uint16{2, 4, 6, 8, 10}},
		{"a set to inline", []uint16{1, 2, 3, 5, 7, 9}, []uint16{2}},
		{"a set to nobody", []uint16{1, 3, 5, 7, 9}, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p := newSetPool(1 << 20)
			w := inlineWord(row.ids[:1])
			for _, id := range row.ids[1:] {
				w, _ = p.with(w, id)
			}
			out, ok := p.keep(w, func(id uint16) bool { return id%2 == 0 })
			require.True(t, ok)
			require.Equal(t, row.want, out.appendIDs(nil, p))
			p.drop(out)
			require.Zero(t, p.size())
		})
	}
}

func TestAReusedPlaceIsAnotherWord(t *testing.T) {
	t.Parallel()
	p := newSetPool(1 << 20)
	five := func(from uint16) word {
		w := inlineWord([]uint16{from})
		for i := range uint16(4) {
			w, _ = p.with(w, from+1+i)
		}
		return w
	}
	old := five(10)
	require.NotNil(t, p.load(old))
	p.drop(old)
	require.Nil(t, p.load(old))
	again := five(50)
	require.Equal(t, old.place(), again.place())
	require.NotEqual(t, old, again)
	require.Nil(t, p.load(old), "a reader with the old word looks the unit up again")
	require.Equal(t, []uint16{50, 51, 52, 53, 54}, p.load(again).ids)
}
