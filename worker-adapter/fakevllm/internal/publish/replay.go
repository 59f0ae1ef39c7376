package publish

import (
	"bytes"
	"context"
	"encoding/binary"
)

// endMarker is sequence number -1, whose payload is empty.
var endMarker = bytes.Repeat([]byte{0xff}, 8)

// serveReplay answers one DEALER (or REQ) peer. A request is an empty delimiter and a first sequence number; with any
// other number of frames vLLM stays silent. The number is read as a big-endian integer of any length.
func (p *Publisher) serveReplay(ctx context.Context, conn *peer) {
	for ctx.Err() == nil {
		frames, err := conn.receive()
		if err != nil {
			return
		}
		if len(frames) != 2 {
			continue
		}
		if p.reply(conn, frames[0], bigEndian(frames[1])) != nil {
			return
		}
	}
}

// reply sends what the buffer holds from a number on, then the end marker. What was dropped from the buffer is
// silently missing: the client sees that the first number is larger than the one it asked for.
func (p *Publisher) reply(conn *peer, delimiter []byte, from uint64) error {
	p.mu.Lock()
	var batch []message
	for i := range p.ring {
		if p.ring[i].seq >= from {
			batch = append(batch, p.ring[i:]...)
			break
		}
	}
	p.mu.Unlock()
	frames := func(topic, seq, payload []byte) [][]byte {
		if p.opts.ReplayTopic {
			return [][]byte{delimiter, topic, seq, payload}
		}
		return [][]byte{delimiter, seq, payload}
	}
	var seq [8]byte
	for _, m := range batch {
		binary.BigEndian.PutUint64(seq[:], m.seq)
		if err := conn.send(frames([]byte(p.opts.Topic), seq[:], m.payload)...); err != nil {
			return err
		}
	}
	return conn.send(frames(nil, endMarker, nil)...)
}

// bigEndian reads an unsigned integer of any length; more than eight bytes keep their last eight.
func bigEndian(b []byte) uint64 {
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return n
}
