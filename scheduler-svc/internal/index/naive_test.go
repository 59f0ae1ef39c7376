package index

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// naive is the obvious index: a map of maps, and one pass per stream.
type naive map[uint64]map[naiveHolder]struct{}

type naiveHolder struct {
	stream int
	tier   Tier
}

func (n naive) add(stream int, tier Tier, units []uint64) int {
	changed := 0
	for _, u := range units {
		if n[u] == nil {
			n[u] = map[naiveHolder]struct{}{}
		}
		if _, ok := n[u][naiveHolder{stream, tier}]; !ok {
			n[u][naiveHolder{stream, tier}] = struct{}{}
			changed++
		}
	}
	return changed
}

func (n naive) remove(stream int, tier Tier, units []uint64) int {
	changed := 0
	for _, u := range units {
		if _, ok := n[u][naiveHolder{stream, tier}]; ok {
			delete(n[u], naiveHolder{stream, tier})
			changed++
		}
	}
	return changed
}

func (n naive) clear(stream int, tier Tier) {
	for u := range n {
		delete(n[u], naiveHolder{stream, tier})
	}
}

func (n naive) holds(stream int, tier Tier, u uint64) bool {
	_, ok := n[u][naiveHolder{stream, tier}]
	return ok
}

func (n naive) hit(stream int, units []uint64) Hit {
	var h Hit
	for _, u := range units {
		fast := n.holds(stream, Device, u)
		if !fast && !n.holds(stream, Host, u) && !n.holds(stream, Storage, u) {
			break
		}
		h.Units++
		if !fast {
			h.Slow++
		}
	}
	return h
}

// digest returns the stream's count and digest over all tiers.
func (n naive) digest(stream int) (int, uint64) {
	var d kvblock.Digest
	count := 0
	for u, holders := range n {
		for h := range holders {
			if h.stream == stream {
				d.Add(u)
				count++
			}
		}
	}
	return count, d.Value()
}

// model drives an index and the naive one with the same operations.
type model struct {
	t       *testing.T
	index   *Index
	streams []*Stream
	naive   naive
	chains  [][]uint64
	walk    Walk
}

func newModel(t *testing.T, streams, chains, length int) *model {
	m := &model{t: t, index: New(Config{}), naive: naive{}}
	for range streams {
		m.streams = append(m.streams, m.index.Open())
	}
	for c := range chains {
		chain := make([]uint64, length)
		for i := range chain {
			chain[i] = uint64(c*length + i) // small numbers and 0: no luck from good hashes
			if c > 0 && i < length/2 {
				chain[i] = uint64(i) // shared prefix
			}
		}
		m.chains = append(m.chains, chain)
	}
	return m
}

// step applies one random operation to both.
func (m *model) step(op, a, b, c uint) {
	stream := int(a % uint(len(m.streams)))
	tier := Tier(b % uint(Tiers))
	chain := m.chains[c%uint(len(m.chains))]
	from := int(b/3) % len(chain)
	part := chain[from:min(len(chain), from+1+int(a/7)%40)]
	s := m.streams[stream]
	switch op % 16 {
	case 0, 1, 2, 3, 4, 5, 6:
		require.Equal(m.t, m.naive.add(stream, tier, part), s.Add(tier, part))
	case 7, 8, 9, 10:
		require.Equal(m.t, m.naive.remove(stream, tier, part), s.Remove(tier, part))
	case 11:
		m.naive.clear(stream, tier)
		s.Clear(tier)
	case 12:
		m.replace(stream, s, part)
	case 13:
		m.index.Sweep()
	case 14:
		m.dropAndReopen(stream)
	case 15:
		load := s.Replace()
		load.Add(tier, part)
		load.Abort()
	}
}

func (m *model) replace(stream int, s *Stream, part []uint64) {
	load := s.Replace()
	load.Add(Device, part)
	load.Add(Host, part[:len(part)/2])
	for t := range Tiers {
		m.naive.clear(stream, Tier(t))
	}
	m.naive.add(stream, Device, part)
	m.naive.add(stream, Host, part[:len(part)/2])
	load.Commit()
}

func (m *model) dropAndReopen(stream int) {
	for t := range Tiers {
		m.naive.clear(stream, Tier(t))
	}
	m.streams[stream].Close()
	m.streams[stream] = m.index.Open()
	require.NotNil(m.t, m.streams[stream])
}

func (m *model) check() {
	for _, chain := range m.chains {
		m.index.Walk(chain, &m.walk)
		longest := 0
		for i, s := range m.streams {
			want := m.naive.hit(i, chain)
			require.Equal(m.t, want, m.walk.Hit(s.Number()), "stream %d", i)
			longest = max(longest, want.Units)
		}
		require.Equal(m.t, longest, m.walk.Held())
	}
	for i, s := range m.streams {
		count, digest := m.naive.digest(i)
		require.Equal(m.t, count, s.Units())
		require.Equal(m.t, digest, s.Digest())
		require.Zero(m.t, s.Lost())
	}
}

func TestIndexEqualsNaiveMap(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name                    string
		streams, chains, length int
		steps                   int
	}{
		{"one stream", 1, 3, 100, 1500},
		{"inline holders", 4, 5, 60, 3000},
		{"shared sets", 40, 3, 50, 3000},
		{"many streams", 300, 2, 30, 1000},
	}
	for _, row := range rows {
		for seed := range uint64(3) {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 7))
				m := newModel(t, row.streams, row.chains, row.length)
				for i := range row.steps {
					m.step(r.Uint(), r.Uint(), r.Uint(), r.Uint())
					if i%499 == 498 {
						m.check()
					}
				}
				m.check()
			})
		}
	}
}

func FuzzIndexEqualsNaiveMap(f *testing.F) {
	f.Add(uint8(3), []byte{0, 1, 2, 3, 7, 1, 2, 3, 12, 0, 0, 0, 13, 0, 0, 0, 14, 1, 0, 0})
	f.Add(uint8(30), []byte{0, 9, 0, 0, 1, 10, 0, 0, 2, 11, 0, 0, 3, 12, 0, 0, 4, 13, 0, 0, 5, 14, 0, 0, 7, 9, 0, 0})
	f.Fuzz(func(t *testing.T, streams uint8, ops []byte) {
		m := newModel(t, int(streams)%64+1, 3, 24)
		ops = ops[:min(len(ops), 4*512)]
		for ; len(ops) >= 4; ops = ops[4:] {
			m.step(uint(ops[0]), uint(ops[1]), uint(ops[2]), uint(ops[3]))
		}
		m.check()
	})
}

func TestManyTargetsAreExact(t *testing.T) {
	t.Parallel()
	for _, targets := range []int{1, 2, 4, 5, 96, 1024, 4096, 5000} {
		x := New(Config{})
		chain := make([]uint64, min(64, 1+16_384/targets))
		for i := range chain {
			chain[i] = rand.Uint64()
		}
		var streams []*Stream
		for n := range targets {
			s := x.Open()
			s.Add(Device, chain[:n%len(chain)+1])
			streams = append(streams, s)
		}
		var w Walk
		x.Walk(chain, &w)
		for n, s := range streams {
			require.Equal(t, Hit{Units: n%len(chain) + 1}, w.Hit(s.Number()), "target %d of %d", n, targets)
		}
	}
}

func TestStreamsHaveABound(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	for range MaxStreams {
		require.NotNil(t, x.Open())
	}
	require.Nil(t, x.Open())
}

func TestEmptiedIndexGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	x := New(Config{})
	empty := x.Stats().Bytes
	streams := map[int]*Stream{}
	units := make([]uint64, 20_000)
	for i := range units {
		units[i] = rand.Uint64()
	}
	for n := range 8 {
		streams[n] = x.Open()
		streams[n].Add(Device, units)
	}
	require.Equal(t, len(units), x.Stats().Units)
	for s := range maps.Values(streams) {
		s.Close()
	}
	require.Equal(t, 8, x.Stats().Dead)
	require.Equal(t, 8, x.Sweep())
	got := x.Stats()
	require.Equal(t, Stats{Bytes: empty}, got)
}
