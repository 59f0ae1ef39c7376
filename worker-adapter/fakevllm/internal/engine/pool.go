package engine

import "github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"

// medium is where vLLM's own block pool lives, on CPU builds too.
const medium = "GPU"

// block is one physical KV block. Free blocks (refs 0) form the reuse queue; cached ones keep their contents there.
type block struct {
	hash       Hash
	group      int32
	cached     bool
	refs       int32
	prev, next int32 // neighbours in the free queue
	twin       int32 // next block with the same hash, in the order of caching; none at the end
}

const none = int32(-1)

// pool is vLLM's block pool: a queue of reusable blocks in order of last use and a map from hash to blocks. Two blocks
// may hold the same hash (a fully cached aligned prompt computes its last block again); each is announced and removed
// on its own. It is not safe for concurrent use and records what changed in events.
type pool struct {
	blocks []block // index 0 is the head of the free queue, as vLLM's null block it is never handed out
	byHash map[uint64]int32
	free   int
	events []kvevent.Event
	// strict queues all blocks by last use; otherwise those without contents are reused before any cached one.
	strict bool
}

// key is a block's place in the map: groups keep blocks of their own under equal hashes.
func key(h *Hash, group int32) uint64 { return h.Uint64() + uint64(group)*0x9e3779b97f4a7c15 }

// newPool has n usable blocks.
func newPool(n int, strict bool) *pool {
	p := &pool{blocks: make([]block, n+1), byHash: make(map[uint64]int32, n), strict: strict}
	p.blocks[0] = block{prev: 0, next: 0, twin: none}
	for i := int32(1); i <= int32(n); i++ {
		p.blocks[i].twin = none
		p.link(i, p.blocks[0].prev)
	}
	return p
}

// link puts a free block behind at; behind the head is the front of the queue.
func (p *pool) link(i, at int32) {
	b := &p.blocks[i]
	b.prev, b.next = at, p.blocks[at].next
	p.blocks[b.next].prev = i
	p.blocks[at].next = i
	p.free++
}

// unlink takes a free block out of the reuse queue.
func (p *pool) unlink(i int32) {
	b := &p.blocks[i]
	p.blocks[b.prev].next = b.next
	p.blocks[b.next].prev = b.prev
	p.free--
}

// lookup returns the blocks of the longest prefix of the chain that a group has cached.
func (p *pool) lookup(dst []int32, chain []Hash, group int32) []int32 {
	for i := range chain {
		b, ok := p.byHash[key(&chain[i], group)]
		if !ok {
			break
		}
		dst = append(dst, b)
	}
	return dst
}

// idle counts those of the blocks that nobody references: taking them up makes the reusable ones fewer.
func (p *pool) idle(blocks []int32) int {
	n := 0
	for _, i := range blocks {
		if p.blocks[i].refs == 0 {
			n++
		}
	}
	return n
}

// touch references cached blocks for one more sequence; those that nobody held leave the reuse queue.
func (p *pool) touch(blocks []int32) {
	for _, i := range blocks {
		if p.blocks[i].refs == 0 {
			p.unlink(i)
		}
		p.blocks[i].refs++
	}
}

// take hands out n blocks from the front of the queue; the caller has checked that they are there. Contents that were
// cached are gone with it, one BlockRemoved each.
func (p *pool) take(dst []int32, n int) []int32 {
	for range n {
		i := p.blocks[0].next
		p.unlink(i)
		b := &p.blocks[i]
		if b.cached {
			p.forget(i)
			p.events = append(p.events, kvevent.Event{
				Kind: kvevent.BlockRemoved, Hashes: []Hash{b.hash}, Medium: medium, Group: int(b.group),
			})
		}
		b.refs = 1
		dst = append(dst, i)
	}
	return dst
}

// forget takes block i out of the map and keeps its twins.
func (p *pool) forget(i int32) {
	b := &p.blocks[i]
	at := key(&b.hash, b.group)
	b.cached = false
	if head := p.byHash[at]; head != i {
		for p.blocks[head].twin != i {
			head = p.blocks[head].twin
		}
		p.blocks[head].twin = b.twin
	} else if b.twin == none {
		delete(p.byHash, at)
	} else {
		p.byHash[at] = b.twin
	}
	b.twin = none
}

// cache gives a group's referenced block its contents.
func (p *pool) cache(i int32, h Hash, group int32) {
	b := &p.blocks[i]
	b.hash, b.group, b.cached, b.twin = h, group, true, none
	k := key(&h, group)
	at, ok := p.byHash[k]
	if !ok {
		p.byHash[k] = i
		return
	}
	for p.blocks[at].twin != none {
		at = p.blocks[at].twin
	}
	p.blocks[at].twin = i
}

// release gives a sequence's blocks back, last first, so that tails are reused before heads. Cached ones go behind all
// that were used before.
func (p *pool) release(blocks []int32) {
	for k := len(blocks) - 1; k >= 0; k-- {
		i := blocks[k]
		b := &p.blocks[i]
		if b.refs--; b.refs > 0 {
			continue
		}
		if b.cached || p.strict {
			p.link(i, p.blocks[0].prev)
			continue
		}
		p.link(i, 0)
	}
}

// reset forgets all contents. It fails while some block is referenced, as vLLM's does.
func (p *pool) reset() bool {
	if p.free != len(p.blocks)-1 {
		return false
	}
	for i := range p.blocks {
		p.blocks[i].cached, p.blocks[i].twin = false, none
	}
	clear(p.byHash)
	p.events = append(p.events, kvevent.Event{Kind: kvevent.AllBlocksCleared})
	return true
}

// usage is the share of blocks in use; cached blocks that nobody references count as free.
func (p *pool) usage() float64 {
	n := len(p.blocks) - 1
	return float64(n-p.free) / float64(n)
}
