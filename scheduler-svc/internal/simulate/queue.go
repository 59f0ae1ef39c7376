package simulate

// queue is the waiting line of a worker: first in, first out, and preempted sequences at the front.
type queue struct {
	items []*sequence
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) peek() *sequence { return q.items[q.head] }

func (q *queue) push(s *sequence) { q.items = append(q.items, s) }

func (q *queue) pop() *sequence {
	s := q.items[q.head]
	q.items[q.head] = nil
	q.head++
	if q.head > 64 && q.head > len(q.items)/2 {
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return s
}

func (q *queue) pushFront(s *sequence) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = s
		return
	}
	q.items = append([]*sequence{s}, q.items...)
}

// finishes is a heap of decoders by the decode step after which they end; equal steps end in order of their requests.
type finishes struct{ heap []finishing }

type finishing struct {
	step int64
	seq  *sequence
}

func (f finishing) before(g finishing) bool {
	return f.step < g.step || f.step == g.step && f.seq.id < g.seq.id
}

func (f *finishes) push(step int64, s *sequence) {
	f.heap = append(f.heap, finishing{step, s})
	f.up(len(f.heap) - 1)
}

// due returns a sequence that ends at or before the step, or nil.
func (f *finishes) due(step int64) *sequence {
	if len(f.heap) == 0 || f.heap[0].step > step {
		return nil
	}
	s := f.heap[0].seq
	f.removeAt(0)
	return s
}

func (f *finishes) remove(s *sequence) {
	for i := range f.heap {
		if f.heap[i].seq == s {
			f.removeAt(i)
			return
		}
	}
}

func (f *finishes) removeAt(i int) {
	last := len(f.heap) - 1
	f.heap[i] = f.heap[last]
	f.heap[last] = finishing{}
	f.heap = f.heap[:last]
	if i < last {
		f.down(i)
		f.up(i)
	}
}

func (f *finishes) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !f.heap[i].before(f.heap[parent]) {
			return
		}
		f.heap[i], f.heap[parent] = f.heap[parent], f.heap[i]
		i = parent
	}
}

func (f *finishes) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(f.heap); c++ {
			if f.heap[c].before(f.heap[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		f.heap[i], f.heap[least] = f.heap[least], f.heap[i]
		i = least
	}
}
