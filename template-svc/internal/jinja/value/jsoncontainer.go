package value

// Members are gathered on a stack and then moved to a slab of just their
// number.

// array reads the members of an array, whose bracket is read already.
func (p *jsonParser) array(depth int) (Value, error) {
	base := len(p.cells)
	p.space()
	if p.at < len(p.s) && p.s[p.at] == ']' {
		p.at++
		return List(nil), nil
	}
	for {
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		p.cells = append(p.cells, v)
		more, err := p.next(']')
		if err != nil {
			return Value{}, err
		}
		if !more {
			break
		}
	}
	n := len(p.cells) - base
	if len(p.cellSlab) < n {
		p.cellSlab = make([]Value, max(n, p.room))
		if p.firstCells == nil {
			p.firstCells = p.cellSlab
		}
	}
	out := p.cellSlab[:n:n]
	p.cellSlab = p.cellSlab[n:]
	copy(out, p.cells[base:])
	p.cells = p.cells[:base]
	return List(out), nil
}

// next reads "," or the closing sign.
func (p *jsonParser) next(end byte) (more bool, err error) {
	p.space()
	if p.at < len(p.s) {
		switch p.s[p.at] {
		case ',':
			p.at++
			return true, nil
		case end:
			p.at++
			return false, nil
		}
	}
	return false, p.fail("',' or '" + string(end) + "' expected")
}

// object reads the members of an object, whose brace is read already.
func (p *jsonParser) object(depth int) (Value, error) {
	base := len(p.entries)
	p.space()
	if p.at < len(p.s) && p.s[p.at] == '}' {
		p.at++
		return OfDict(&Dict{}), nil
	}
	for {
		p.space()
		if p.at >= len(p.s) || p.s[p.at] != '"' {
			return Value{}, p.fail("string key expected")
		}
		key, err := p.str()
		if err != nil {
			return Value{}, err
		}
		p.space()
		if p.at >= len(p.s) || p.s[p.at] != ':' {
			return Value{}, p.fail("':' expected")
		}
		p.at++
		p.space()
		v, err := p.value(depth)
		if err != nil {
			return Value{}, err
		}
		p.entries = append(p.entries, Entry{Str(key), v})
		more, err := p.next('}')
		if err != nil {
			return Value{}, err
		}
		if !more {
			return p.dict(base), nil
		}
	}
}

// dict cuts the entries above base off the stack and makes a dict of them.
func (p *jsonParser) dict(base int) Value {
	n := len(p.entries) - base
	if len(p.slab) < n {
		p.slab = make([]Entry, max(n, p.room))
		if p.firstEntries == nil {
			p.firstEntries = p.slab
		}
	}
	if len(p.dicts) == 0 {
		p.dicts = make([]Dict, max(1, p.room/4))
		if p.firstDicts == nil {
			p.firstDicts = p.dicts
		}
	}
	d := &p.dicts[0]
	p.dicts = p.dicts[1:]
	d.entries = p.slab[:0:n]
	p.slab = p.slab[n:]
	for i := base; i < base+n; i++ {
		e := &p.entries[i]
		d.SetStr(e.Key.AsStr(), e.Val)
	}
	p.entries = p.entries[:base]
	return OfDict(d)
}
