package dispatch

import "bytes"

// vLLM 0.32 puts system_fingerprint on the chunks that end a choice, but with a usage chunk on that alone. Where kvmesh asked
// for the usage and hides it, the end of the last choice is held until the usage chunk is seen and gets the member back: vLLM
// sends the two together.

// hide takes the event in [from, end) out of the buffer and stamps the held one in [start, from). It returns the end of what
// can be handed out.
func (s *Stream) hide(start, from, end int) int {
	held := s.buf[start:from]
	if len(held) > 0 && len(s.fingerprint) > 0 {
		if at := bytes.LastIndexByte(held, '}'); at >= 0 {
			member := append([]byte(`,"system_fingerprint":`), s.fingerprint...)
			tail := append(member, held[at:]...)
			from = start + at + copy(s.buf[start+at:end], tail) // shorter than the usage chunk that held the member too
		}
	}
	s.held = 0
	copy(s.buf[from:], s.buf[end:s.filled])
	s.filled -= end - from
	s.scanned = from
	return from
}

// release hands out what is held when no more comes.
func (s *Stream) release() []byte {
	s.ready += s.held
	s.held = 0
	return s.buf[:s.ready]
}
