package mirror

// unitPool keeps the units of blocks that have more than one, side by side and free of pointers.
type unitPool struct {
	units []uint64
	// free are the places that were given back, by the number of units.
	free map[int32][]int32
}

// keep copies units and returns where they lie.
func (p *unitPool) keep(units []uint64) int32 {
	n := int32(len(units))
	if free := p.free[n]; len(free) > 0 {
		at := free[len(free)-1]
		p.free[n] = free[:len(free)-1]
		copy(p.units[at:at+n], units)
		return at
	}
	at := int32(len(p.units))
	p.units = append(p.units, units...)
	return at
}

// release gives n units at a place back.
func (p *unitPool) release(at, n int32) {
	if p.free == nil {
		p.free = map[int32][]int32{}
	}
	p.free[n] = append(p.free[n], at)
}

// units are a block's own, in order, valid until the next block learns.
func (s *store) unitsOf(b *block) []uint64 {
	switch b.count {
	case 0:
		return nil
	case 1:
		return b.tail[:]
	}
	return s.pool.units[b.many : b.many+b.count]
}

// learn gives a block its units.
func (s *store) learn(b *block, units []uint64) {
	s.unlearn(b)
	b.count, b.content = int32(len(units)), known
	b.tail[0] = units[len(units)-1]
	if len(units) > 1 {
		b.many = s.pool.keep(units)
	}
}

// unlearn takes a block's units away. It must not be claimed.
func (s *store) unlearn(b *block) {
	if b.count > 1 {
		s.pool.release(b.many, b.count)
	}
	b.count, b.tail[0] = 0, 0
}
