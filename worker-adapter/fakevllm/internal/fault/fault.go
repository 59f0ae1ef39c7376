// Package fault holds the ways in which a simulated worker can be made to misbehave. They are for tests of what stands
// in front of a worker; a real vLLM has none of them as switches, and all of them as accidents.
package fault

import (
	"fmt"
	"sync"
)

// Set is the state of all switches; the zero value is a healthy worker.
type Set struct {
	// Refuse closes the HTTP port and its connections; the answer to who sets it over that port is lost. The control
	// port, if there is one, takes it back.
	Refuse bool `json:"refuse" yaml:"refuse"`
	// Freeze makes the engine and every HTTP route hang.
	Freeze bool `json:"freeze" yaml:"freeze"`
	// DelayFirstByteMS holds back the first byte of each answer of a generating route.
	DelayFirstByteMS int `json:"delay_first_byte_ms" yaml:"delay_first_byte_ms"`
	// CutStreamAfter closes the connection of a stream after so many chunks; 0 is off.
	CutStreamAfter int `json:"cut_stream_after" yaml:"cut_stream_after"`
	// ErrorEventAfter ends a stream with an error event after so many chunks; 0 is off.
	ErrorEventAfter int `json:"error_event_after" yaml:"error_event_after"`
	// Status answers generating routes with that code (429, 500, 503, …); 0 is off.
	Status int `json:"status" yaml:"status"`
	// StatusOneIn applies Status to every n-th request only; 0 and 1 mean all.
	StatusOneIn int `json:"status_one_in" yaml:"status_one_in"`
	// DropEventOneIn loses every n-th live event message; 0 is off.
	DropEventOneIn int `json:"drop_event_one_in" yaml:"drop_event_one_in"`
	// StopEvents publishes nothing, and uses up no sequence number.
	StopEvents bool `json:"stop_events" yaml:"stop_events"`
	// WrongBind connects the event socket instead of binding it.
	WrongBind bool `json:"wrong_bind" yaml:"wrong_bind"`
}

// Validate says what is out of range.
func (s *Set) Validate() error {
	for name, n := range map[string]int{
		"delay_first_byte_ms": s.DelayFirstByteMS, "cut_stream_after": s.CutStreamAfter,
		"error_event_after": s.ErrorEventAfter, "status_one_in": s.StatusOneIn, "drop_event_one_in": s.DropEventOneIn,
	} {
		if n < 0 {
			return fmt.Errorf("%s: %d is negative", name, n)
		}
	}
	if s.Status != 0 && (s.Status < 400 || s.Status > 599) {
		return fmt.Errorf("status: %d is no error status", s.Status)
	}
	return nil
}

// Switches guard a Set; Apply hears of every change. Methods may be called by any goroutine.
type Switches struct {
	// Apply carries out what is not read per request: sockets, engine. It may be nil.
	Apply func(Set) error

	change sync.Mutex // one Apply at a time
	mu     sync.Mutex
	set    Set
	asked  uint64
	thawed chan struct{} // open while frozen
}

// Get returns the switches as they are.
func (w *Switches) Get() Set {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.set
}

// Put replaces all switches.
func (w *Switches) Put(s Set) error {
	if err := s.Validate(); err != nil {
		return err
	}
	w.change.Lock()
	defer w.change.Unlock()
	w.mu.Lock()
	switch {
	case s.Freeze && w.thawed == nil:
		w.thawed = make(chan struct{})
	case !s.Freeze && w.thawed != nil:
		close(w.thawed)
		w.thawed = nil
	}
	w.set = s
	w.mu.Unlock()
	if w.Apply == nil {
		return nil
	}
	return w.Apply(s)
}

// Thawed returns a channel that closes when the worker stops hanging; nil if it does not hang.
func (w *Switches) Thawed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.thawed == nil {
		return nil
	}
	return w.thawed
}

// FailWith returns the status with which this request must fail, or 0.
func (w *Switches) FailWith() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set.Status == 0 {
		return 0
	}
	w.asked++
	if n := uint64(w.set.StatusOneIn); n > 1 && w.asked%n != 0 {
		return 0
	}
	return w.set.Status
}
