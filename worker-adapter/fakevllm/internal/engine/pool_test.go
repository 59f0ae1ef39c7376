package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func hashOf(n int) Hash {
	var h Hash
	h[31], h[30] = byte(n), byte(n>>8)
	return h
}

// naive is the pool as its description reads: a list of free blocks and a scan over all contents.
type naive struct {
	hash  map[int32]int // contents of a block, absent if none
	refs  map[int32]int
	queue []int32
	order []int32 // blocks in the order in which they were cached
	log   []int   // hashes that were removed
}

func newNaive(n int) *naive {
	p := &naive{hash: map[int32]int{}, refs: map[int32]int{}}
	for i := range n {
		p.queue = append(p.queue, int32(i+1))
	}
	return p
}

func (p *naive) take(n int) []int32 {
	out := slices.Clone(p.queue[:n])
	p.queue = slices.Delete(p.queue, 0, n)
	for _, b := range out {
		if h, ok := p.hash[b]; ok {
			p.log = append(p.log, h)
			delete(p.hash, b)
			p.order = slices.DeleteFunc(p.order, func(x int32) bool { return x == b })
		}
		p.refs[b] = 1
	}
	return out
}

func (p *naive) lookup(chain []int) []int32 {
	var out []int32
	for _, h := range chain {
		i := slices.IndexFunc(p.order, func(b int32) bool { return p.hash[b] == h })
		if i < 0 {
			break
		}
		out = append(out, p.order[i])
	}
	return out
}

func (p *naive) touch(blocks []int32) {
	for _, b := range blocks {
		if p.refs[b] == 0 {
			p.queue = slices.DeleteFunc(p.queue, func(x int32) bool { return x == b })
		}
		p.refs[b]++
	}
}

func (p *naive) release(blocks []int32, strict bool) {
	for _, b := range slices.Backward(blocks) {
		if p.refs[b]--; p.refs[b] > 0 {
			continue
		}
		if _, ok := p.hash[b]; ok || strict {
			p.queue = append(p.queue, b)
			continue
		}
		p.queue = slices.Insert(p.queue, 0, b)
	}
}

func TestPoolBehavesAsItsDescription(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 7))
			const size = 24
			real, model := newPool(size, strict), newNaive(size)
			var held [][]int32
			removed := 0
			for range 400 {
				switch r.IntN(3) {
				case 0: // a sequence: its cached prefix, then new blocks of which the full ones are cached
					chain := make([]Hash, 1+r.IntN(6))
					numbers := make([]int, len(chain))
					family := r.IntN(6)
					for i := range chain {
						numbers[i] = family*10 + i
						chain[i] = hashOf(numbers[i])
					}
					hits := real.lookup(nil, chain[:len(chain)-1], 0)
					require.Equal(t, model.lookup(numbers[:len(chain)-1]), hits)
					need := len(chain) - len(hits)
					if need+real.idle(hits) > real.free {
						continue
					}
					real.touch(hits)
					model.touch(hits)
					fresh := real.take(nil, need)
					require.Equal(t, model.take(need), fresh)
					blocks := append(slices.Clone(hits), fresh...)
					for i := len(hits); i < len(chain)-r.IntN(2); i++ {
						real.cache(blocks[i], chain[i], 0)
						model.hash[blocks[i]] = numbers[i]
						model.order = append(model.order, blocks[i])
					}
					held = append(held, blocks)
				case 1:
					if len(held) == 0 {
						continue
					}
					i := r.IntN(len(held))
					real.release(held[i])
					model.release(held[i], strict)
					held = slices.Delete(held, i, i+1)
				case 2:
					require.Equal(t, len(model.queue), real.free)
					require.InDelta(t, float64(size-real.free)/size, real.usage(), 1e-9)
				}
			}
			for i, e := range real.events {
				require.Equal(t, kvevent.BlockRemoved, e.Kind)
				require.Equal(t, hashOf(model.log[i]), e.Hashes[0])
				removed++
			}
			require.Len(t, model.log, removed)
		}
	}
}

func TestPoolForgetsOnlyWhenNothingIsInUse(t *testing.T) {
	t.Parallel()
	p := newPool(4, false)
	blocks := p.take(nil, 2)
	p.cache(blocks[0], hashOf(1), 0)
	require.False(t, p.reset())
	p.release(blocks)
	require.True(t, p.reset())
	require.Empty(t, p.lookup(nil, []Hash{hashOf(1)}, 0))
	require.Equal(t, kvevent.AllBlocksCleared, p.events[len(p.events)-1].Kind)
	require.Len(t, p.take(nil, 4), 4)
	require.Len(t, p.events, 1, "forgotten blocks are not removed once more")
}

func TestHashChain(t *testing.T) {
	t.Parallel()
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	plain := appendHashes(nil, tokens, 4, &Scope{})
	require.Len(t, plain, 2)
	require.Equal(t, plain, appendHashes(appendHashes(nil, tokens[:4], 4, &Scope{}), tokens, 4, &Scope{}),
		"a chain goes on where it ended")
	for _, row := range []struct {
		name  string
		scope Scope
	}{
		{"salt", Scope{Salt: "s"}},
		{"adapter", Scope{LoRAID: 1, LoRAName: "a", LoRAPath: "p"}},
		{"adapter of another path", Scope{LoRAID: 1, LoRAName: "a", LoRAPath: "q"}},
		{"adapter and salt", Scope{LoRAID: 1, LoRAName: "a", LoRAPath: "p", Salt: "s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			other := appendHashes(nil, tokens, 4, &row.scope)
			require.NotEqual(t, plain[0], other[0])
			require.NotEqual(t, plain[1], other[1], "what is before a block is in its hash")
		})
	}
	s := Scope{LoRAName: "a", Salt: "s"}
	require.Equal(t, []kvevent.Extra{{Name: "a"}, {Name: "s"}}, s.extras(0))
	require.Equal(t, []kvevent.Extra{{Name: "a"}}, s.extras(1))
	require.Nil(t, (&Scope{}).extras(0))
}
