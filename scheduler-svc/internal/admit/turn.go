package admit

// maxOvertaken bounds how often requests of its own tenant that came later go first.
const maxOvertaken = 16

// next is the waiter whose turn it is, nil when all have theirs or had it in vain: deficits over prefix order. Of the most urgent, those are
// in credit whose tenant has been served at most QuantumTokens more than the least served one that waits; among these the
// longest known prefix goes first, since what one request computes the next then finds, then the least served tenant, then
// who came first. So between two tenants that always have work the counters differ by the quantum and one request at most,
// however well the prompts of one are cached. A request that its own tenant's later ones have overtaken maxOvertaken times
// goes before all prefixes.
func (q *Queue) next(l *line) *Waiter {
	best, floor := turn{}, q.floor(l)
	for _, w := range l.waiters {
		if w.awake || l.vain(w) || w.Priority != floor.priority {
			continue
		}
		t := turn{w: w, spent: q.tenants.Spent(w.Tenant)}
		if t.spent <= floor.spent+float64(q.cfg.QuantumTokens) && (best.w == nil || t.before(best)) {
			best = t
		}
	}
	if best.w == nil {
		return nil
	}
	for _, w := range l.waiters {
		if !w.awake && !l.vain(w) && w.Tenant == best.w.Tenant && w.Priority == best.w.Priority && w.serial < best.w.serial {
			w.overtaken++
		}
	}
	return best.w
}

type floor struct {
	priority int32
	spent    float64
}

// floor is the highest priority that waits and, of that, the least counter.
func (q *Queue) floor(l *line) floor {
	var f floor
	for i, any := 0, false; i < len(l.waiters); i++ {
		w := l.waiters[i]
		if w.awake || l.vain(w) || any && w.Priority < f.priority {
			continue
		}
		spent := q.tenants.Spent(w.Tenant)
		if !any || w.Priority > f.priority || spent < f.spent {
			f = floor{w.Priority, spent}
		}
		any = true
	}
	return f
}

type turn struct {
	w     *Waiter
	spent float64
}

func (t turn) before(o turn) bool {
	late, other := t.w.overtaken >= maxOvertaken, o.w.overtaken >= maxOvertaken
	switch {
	case late != other:
		return late
	case !late && t.w.hit != o.w.hit:
		return t.w.hit > o.w.hit
	case !late && t.spent != o.spent:
		return t.spent < o.spent
	}
	return t.w.serial < o.w.serial
}

// Refresh asks up to most waiters, those asked longest ago, how much of their prompt somebody holds now. It calls their
// Peek outside the queue's lock.
func (q *Queue) Refresh(most int) {
	for _, w := range q.stalest(most) {
		hit := w.Peek()
		q.mu.Lock()
		w.hit = hit
		q.mu.Unlock()
	}
}

// stalest returns waiters with a Peek in turn: each of them once before any twice.
func (q *Queue) stalest(most int) []*Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []*Waiter
	oldest := q.asked
	for _, l := range q.lines {
		for _, w := range l.waiters {
			if w.Peek != nil && len(out) < most && w.asked <= oldest {
				w.asked = oldest + 1
				out = append(out, w)
			}
		}
	}
	if len(out) < most { // all have been asked in this round
		q.asked++
	}
	return out
}
