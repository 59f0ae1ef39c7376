package lifecycle

import (
	"fmt"
	"strings"
)

// sortByNeeds returns the components so that each comes after what it needs, and otherwise as they were given.
func sortByNeeds(components []Component) ([]Component, error) {
	s := sorter{byName: map[string]Component{}, state: map[string]visit{}}
	for _, c := range components {
		if _, twice := s.byName[c.Name]; twice || c.Name == "" {
			return nil, fmt.Errorf("component name %q is empty or used twice", c.Name)
		}
		s.byName[c.Name] = c
	}
	for _, c := range components {
		if err := s.visit(c, nil); err != nil {
			return nil, err
		}
	}
	return s.order, nil
}

// visit is how far the depth-first walk got with a component.
type visit int

const (
	unseen visit = iota
	open         // on the path from the root: meeting it again is a cycle
	placed
)

// sorter is one depth-first walk.
type sorter struct {
	byName map[string]Component
	state  map[string]visit
	order  []Component
}

// visit places what c needs before c. path is the way from the root, for the message about a circle.
func (s *sorter) visit(c Component, path []string) error {
	path = append(path, c.Name)
	switch s.state[c.Name] {
	case placed:
		return nil
	case open:
		return fmt.Errorf("components need each other in a circle: %s", strings.Join(path, " -> "))
	case unseen:
	}
	s.state[c.Name] = open
	for _, need := range c.Needs {
		other, known := s.byName[need]
		if !known {
			return fmt.Errorf("component %q needs %q, which does not exist", c.Name, need)
		}
		if err := s.visit(other, path); err != nil {
			return err
		}
	}
	s.state[c.Name] = placed
	s.order = append(s.order, c)
	return nil
}
