package simulate

// absent marks a unit that the pool does not hold.
const absent = int32(-1)

// pool is a worker's KV cache in blocks. Units of the workload are cached by id, whole; what a sequence holds beyond
// its cached units (tails, answers, duplicate computations) is private and counted only.
//
// Conservation: total = free + private + unitBlocks*(held + idle), each part non-negative.
type pool struct {
	unitBlocks int
	total      int
	free       int
	private    int
	held       int     // units with a reference
	idle       int     // cached units without one, in the list
	refs       []int32 // by unit: absent, 0 idle, else references
	prev, next []int32 // LRU list over idle units; index len(refs) is the sentinel
	evicted    int
}

func newPool(totalBlocks, unitBlocks, distinct int) *pool {
	p := &pool{
		unitBlocks: unitBlocks, total: totalBlocks, free: totalBlocks,
		refs: make([]int32, distinct), prev: make([]int32, distinct+1), next: make([]int32, distinct+1),
	}
	for i := range p.refs {
		p.refs[i] = absent
	}
	p.prev[distinct], p.next[distinct] = int32(distinct), int32(distinct)
	return p
}

func (p *pool) sentinel() int32 { return int32(len(p.refs)) }

// has reports whether the unit is cached.
func (p *pool) has(u uint32) bool { return p.refs[u] != absent }

// reusable returns the blocks an allocation can take: free ones and cached ones without a reference.
func (p *pool) reusable() int { return p.free + p.idle*p.unitBlocks }

// used returns the share of blocks that something references, vLLM's cache usage.
func (p *pool) used() float64 { return 1 - float64(p.reusable())/float64(p.total) }

// ref takes a reference on a cached unit.
func (p *pool) ref(u uint32) {
	if p.refs[u] == 0 {
		p.unlink(int32(u))
		p.idle--
		p.held++
	}
	p.refs[u]++
}

// unref drops a reference; the last one makes the unit the most recently used idle one.
func (p *pool) unref(u uint32) {
	p.refs[u]--
	if p.refs[u] > 0 {
		return
	}
	p.held--
	p.idle++
	s := p.sentinel()
	last := p.prev[s]
	p.next[last], p.prev[u] = int32(u), last
	p.next[u], p.prev[s] = s, int32(u)
}

// take turns reusable blocks into private ones, evicting the least recently used units. The caller has checked that
// they suffice.
func (p *pool) take(blocks int) {
	for p.free < blocks {
		victim := p.next[p.sentinel()]
		p.unlink(victim)
		p.refs[victim] = absent
		p.idle--
		p.evicted++
		p.free += p.unitBlocks
	}
	p.free -= blocks
	p.private += blocks
}

// give frees private blocks.
func (p *pool) give(blocks int) {
	p.private -= blocks
	p.free += blocks
}

// cache turns a unit's worth of private blocks into the cached, referenced unit. It returns false when another
// sequence has cached it already; the blocks then stay private.
func (p *pool) cache(u uint32) bool {
	if p.refs[u] != absent {
		return false
	}
	p.private -= p.unitBlocks
	p.held++
	p.refs[u] = 1
	return true
}

func (p *pool) unlink(u int32) {
	p.next[p.prev[u]], p.prev[p.next[u]] = p.next[u], p.prev[u]
}

// warm caches every unit, unreferenced, as far as there is room.
func (p *pool) warm() {
	for u := range p.refs {
		if p.free < p.unitBlocks {
			return
		}
		p.take(p.unitBlocks)
		p.cache(uint32(u))
		p.unref(uint32(u))
	}
}
