package bench

import (
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
)

// shape is what a body is like, and with it what the mesh can know of it.
type shape struct {
	// bytes is about the body's length.
	bytes int
	// known tells that all but the last question was sent before: a conversation that goes on.
	known bool
	// stream asks for events.
	stream bool
}

// words are what texts are made of; rare ones keep a tokenizer's own cache of words from knowing them all.
func words() []string {
	return strings.Fields("the quick brown fox jumps over a lazy dog while seven engineers measure how much time one request " +
		"costs when it passes through several services before any worker has seen it and why does the answer change with " +
		"load memory network scheduler prefix cache tokens river mountain island harbour station bridge market window " +
		"paper yellow purple silver morning evening winter summer question answer reason because without between another")
}

// text is about n bytes of prose in JSON's spelling, with line breaks and quotes as chats have them.
func text(b []byte, r *rand.Rand, n int) []byte {
	list := words()
	for end := len(b) + n; len(b) < end; {
		switch k := r.IntN(40); {
		case k == 0:
			b = append(b, `.\n`...)
		case k == 1:
			b = append(b, `\"yes\" `...)
		case k < 5:
			b = strconv.AppendUint(b, uint64(r.Uint32()), 36)
			b = append(b, ' ')
		default:
			b = append(append(b, list[r.IntN(len(list))]...), ' ')
		}
	}
	return b
}

// turns is how many messages of a user a long body holds.
const turns = 6

// appendHead is a body up to its last question: a system message and, in long ones, a conversation.
func (s shape) appendHead(b []byte, r *rand.Rand) []byte {
	b = append(b, `{"model":"bench",`...)
	if s.stream {
		b = append(b, `"stream":true,`...)
	}
	b = append(b, `"temperature":0.7,"messages":[{"role":"system","content":"You are brief. `...)
	if s.bytes < 4096 {
		b = text(b, r, s.bytes*3/4-len(b))
	} else {
		part := s.bytes / (2 * turns)
		for range turns - 1 {
			b = text(b, r, part)
			b = append(b, `"},{"role":"user","content":"`...)
			b = text(b, r, part)
			b = append(b, `"},{"role":"assistant","content":"`...)
		}
		b = text(b, r, part)
	}
	return append(b, `"},{"role":"user","content":"`...)
}

// appendTail is the last question, which no other body has.
func (s shape) appendTail(b []byte, r *rand.Rand) []byte {
	var salt [8]byte
	for i := range salt {
		salt[i] = byte(r.Uint32())
	}
	b = hex.AppendEncode(b, salt[:])
	b = append(b, ' ')
	b = text(b, r, max(40, s.bytes-len(b)-5))
	return append(b, `"}]}`...)
}

// bodies makes the bodies of one lane; no two are equal, in this lane or another.
type bodies struct {
	shape shape
	r     *rand.Rand
	head  []byte // of known ones
	buf   []byte
}

// lanes counts the lanes of this process; it seeds their bodies, so that a run never repeats what an earlier one sent.
type lanes struct{ n atomic.Uint64 }

// newBodies makes a lane's bodies. A lane of known ones keeps the conversation that its number names, so that it is
// the same in every round.
func (l *lanes) newBodies(s shape, lane int) *bodies {
	b := &bodies{shape: s, r: rand.New(rand.NewPCG(l.n.Add(1), uint64(s.bytes)))}
	if s.known {
		b.head = s.appendHead(nil, rand.New(rand.NewPCG(uint64(lane), 1)))
	}
	return b
}

// next is the next body, valid until the one after it.
func (b *bodies) next() []byte {
	if b.shape.known {
		b.buf = append(b.buf[:0], b.head...)
	} else {
		b.buf = b.shape.appendHead(b.buf[:0], b.r)
	}
	b.buf = b.shape.appendTail(b.buf, b.r)
	return b.buf
}
