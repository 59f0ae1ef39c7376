package fleet

// line names every pool's queue: the first in order of the names that its workers share, base models before adapters, so
// that loading an adapter renames nothing.
func (v *View) line(workers map[string]*worker) {
	for _, p := range v.Pools {
		p.Line = p.Model
	}
	for _, w := range workers {
		models := w.card.GetModels()
		for _, m := range models {
			a, b := v.root(models[0].GetId()), v.root(m.GetId())
			if a != b && b.before(a) {
				a, b = b, a
			}
			b.Line = a.Model
		}
	}
	for _, p := range v.Pools {
		p.Line = v.root(p.Model).Model
	}
}

// root follows the names that a pool's line was merged into. Each step is shortened on the way, so the next look is short.
func (v *View) root(model string) *Pool {
	p := v.Pools[model]
	for p.Line != p.Model {
		p.Line = v.Pools[p.Line].Line
		p = v.Pools[p.Line]
	}
	return p
}

func (p *Pool) before(o *Pool) bool {
	if base, other := p.Parent == "", o.Parent == ""; base != other {
		return base
	}
	return p.Model < o.Model
}
