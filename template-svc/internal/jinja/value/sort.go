package value

import (
	"slices"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// CPython compares neighbours first and then inserts by bisection; which
// pair a failing sort names depends on it.

// insertionBelow is the length up to which CPython sorts by binary insertion
// alone, which decides the pair that a failing comparison names.
const insertionBelow = 64

// sorter sorts places by their keys; the first failed comparison ends it.
type sorter struct {
	m    *limit.Meter
	keys []Value
	err  error
}

// less compares the keys of two places; after a fault it gives false, so
// that the sort ends.
func (s *sorter) less(a, b int) bool {
	if s.err != nil {
		return false
	}
	if s.err = s.m.Step(); s.err != nil {
		return false
	}
	var ok bool
	ok, s.err = Compare(s.m, Less, s.keys[a], s.keys[b])
	return ok
}

// SortOrder gives the stable order of keys as places in it: what Python's
// sorted does with keys.
func SortOrder(m *limit.Meter, keys []Value, reversed bool) ([]int, error) {
	if err := m.Product(len(keys), cellBytes); err != nil {
		return nil, err
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	if reversed {
		reverse(order)
	}
	s := sorter{m: m, keys: keys}
	if run := s.run(order); run < len(order) {
		if len(order) < insertionBelow {
			s.insert(order, run)
		} else {
			slices.SortStableFunc(order, s.compare)
		}
	}
	if reversed {
		reverse(order)
	}
	return order, s.err
}

// run finds how much of order is sorted already, turning a falling run round.
func (s *sorter) run(order []int) int {
	if len(order) < 2 {
		return len(order)
	}
	n := 2
	if s.less(order[1], order[0]) {
		for n < len(order) && s.less(order[n], order[n-1]) {
			n++
		}
		reverse(order[:n])
		return n
	}
	for n < len(order) && !s.less(order[n], order[n-1]) {
		n++
	}
	return n
}

// insert puts the places from start on into the sorted ones before them.
func (s *sorter) insert(order []int, start int) {
	for ; start < len(order) && s.err == nil; start++ {
		pivot := order[start]
		lo, hi := 0, start
		for lo < hi {
			mid := lo + (hi-lo)/2
			if s.less(pivot, order[mid]) {
				hi = mid
			} else {
				lo = mid + 1
			}
		}
		copy(order[lo+1:start+1], order[lo:start])
		order[lo] = pivot
	}
}

// compare is less as a three-way comparison.
func (s *sorter) compare(a, b int) int {
	switch {
	case s.less(a, b):
		return -1
	case s.less(b, a):
		return 1
	}
	return 0
}
