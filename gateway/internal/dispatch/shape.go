package dispatch

import "bytes"

// shape is the bytes around a token's text in the events of one stream. They hardly ever change within a stream, so an
// event that has them and no quote in between says nothing but its text: it need not be searched.
type shape struct {
	bytes  []byte
	prefix int // bytes[:prefix] comes before the text, bytes[prefix:] after it
}

// textMarks are the members that hold a token's text, each with its opening quote.
func textMarks() [3]string { return [3]string{`"content":"`, `"text":"`, `"reasoning":"`} }

// learn takes the shape of an event that is known to be a plain token. Events with a quote in their text teach nothing.
func (s *shape) learn(event []byte) {
	for _, mark := range textMarks() {
		at := bytes.Index(event, []byte(mark))
		if at < 0 {
			continue
		}
		start := at + len(mark)
		end := bytes.IndexByte(event[start:], '"')
		if end < 0 || end > 0 && event[start+end-1] == '\\' {
			return
		}
		s.bytes = append(append(s.bytes[:0], event[:start]...), event[start+end:]...)
		s.prefix = start
		return
	}
}

// fits tells whether an event has the shape.
func (s *shape) fits(event []byte) bool {
	n := len(s.bytes)
	if n == 0 || len(event) < n {
		return false
	}
	tail := len(event) - (n - s.prefix)
	return string(event[:s.prefix]) == string(s.bytes[:s.prefix]) && string(event[tail:]) == string(s.bytes[s.prefix:]) &&
		bytes.IndexByte(event[s.prefix:tail], '"') < 0
}
