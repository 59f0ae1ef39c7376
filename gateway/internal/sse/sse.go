// Package sse finds the events of a server-sent event stream by the HTML standard's rules: lines end with CR LF, LF or
// CR, an event ends with an empty line, "data" lines are joined by a line feed, everything else is left alone. Bytes are
// never rewritten: the functions only tell where events end and what their data is.
package sse

import "bytes"

// Splitter finds event ends in a byte stream that arrives in pieces. The zero value is not ready; use NewSplitter.
type Splitter struct {
	blank bool // the current line is empty so far
	cr    bool // the last byte was a CR that ended a line; a LF now belongs to it
}

// NewSplitter stands at the start of a stream.
func NewSplitter() Splitter { return Splitter{blank: true} }

// Next looks at b[from:], which must be bytes it has not seen, and returns the offset behind the first event end, or -1
// when all of b was consumed without one.
func (s *Splitter) Next(b []byte, from int) int {
	for i := from; i < len(b); {
		c := b[i]
		if s.cr && c == '\n' {
			s.cr = false
			i++
			continue
		}
		s.cr = false
		if c != '\n' && c != '\r' {
			s.blank = false
			i += lineLen(b[i:])
			continue
		}
		s.cr = c == '\r'
		i++
		if !s.blank {
			s.blank = true
			continue
		}
		if s.cr && i < len(b) && b[i] == '\n' {
			s.cr = false
			i++
		}
		return i
	}
	return -1
}

// lineLen is the number of bytes before the first line end, or all.
func lineLen(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		n = len(b)
	}
	if cr := bytes.IndexByte(b[:n], '\r'); cr >= 0 {
		return cr
	}
	return n
}

// Event is what an event's fields say.
type Event struct {
	// Name is the value of the "event" field.
	Name []byte
	// Data is the value of the data lines, joined; nil when there is none. It may share the event's bytes.
	Data []byte
}

// IsDone tells whether the event's whole data is OpenAI's end mark.
func (e Event) IsDone() bool { return string(e.Data) == "[DONE]" }

// Parse reads one event as Splitter cut it.
func Parse(event []byte) Event {
	var e Event
	parts := 0
	for len(event) > 0 {
		n := lineLen(event)
		line := event[:n]
		event = event[n:]
		if len(event) > 0 {
			event = event[1:]
		}
		field, value := split(line)
		switch string(field) {
		case "data":
			e.Data = join(e.Data, value, parts)
			parts++
		case "event":
			e.Name = value
		}
	}
	return e
}

// split cuts a line at its first colon and drops one blank after it.
func split(line []byte) (field, value []byte) {
	field, value, found := bytes.Cut(line, []byte{':'})
	if found && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return field, value
}

// join appends a data line. The first one is taken as it lies.
func join(data, value []byte, parts int) []byte {
	if parts == 0 {
		if value == nil {
			return []byte{} // a field without a colon has the empty value, which is data too
		}
		return value[:len(value):len(value)]
	}
	out := make([]byte, 0, len(data)+1+len(value))
	out = append(out, data...)
	out = append(out, '\n')
	return append(out, value...)
}
