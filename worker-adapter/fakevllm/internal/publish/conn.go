package publish

import (
	"encoding/binary"
	"net"
	"sync"
)

// ZMTP 3.0 frame flags.
const (
	flagMore = 1 << 0
	flagLong = 1 << 1
)

// wire lets two goroutines write whole frames to one connection: ours, which sends messages, and the ZMTP layer's
// reader, which answers a peer's heartbeat in the middle of whatever we send. During the handshake it writes through.
type wire struct {
	net.Conn
	mu     sync.Mutex
	framed bool
	part   []byte // beginning of a frame that the ZMTP layer has not finished
}

// Write takes what the ZMTP layer writes, header and body apart, and passes on whole frames only.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.framed {
		return w.Conn.Write(p)
	}
	w.part = append(w.part, p...)
	for n := frameLen(w.part); n > 0 && n <= len(w.part); n = frameLen(w.part) {
		if _, err := w.Conn.Write(w.part[:n]); err != nil {
			return 0, err
		}
		w.part = w.part[n:]
	}
	return len(p), nil
}

// frameLen is the length of the frame that b begins with, 0 if its header is not there yet.
func frameLen(b []byte) int {
	switch {
	case len(b) < 2:
		return 0
	case b[0]&flagLong == 0:
		return 2 + int(b[1])
	case len(b) < 9:
		return 0
	}
	return 9 + int(binary.BigEndian.Uint64(b[1:9]))
}

// frames begins to keep frames whole; it is called when the handshake is done.
func (w *wire) frames() {
	w.mu.Lock()
	w.framed = true
	w.mu.Unlock()
}

// send writes one multipart message as one packet.
func (w *wire) send(parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += 9 + len(p)
	}
	buf := make([]byte, 0, size)
	for i, p := range parts {
		var flags byte
		if i < len(parts)-1 {
			flags = flagMore
		}
		if len(p) > 255 {
			buf = binary.BigEndian.AppendUint64(append(buf, flags|flagLong), uint64(len(p)))
		} else {
			buf = append(buf, flags, byte(len(p)))
		}
		buf = append(buf, p...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.Conn.Write(buf)
	return err
}
