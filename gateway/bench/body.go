package bench

import (
	"encoding/hex"
	"math/rand/v2"
	"os"
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

// prose makes texts of the words that the demo model's own training text is made of, common ones more often; a few
// that exist nowhere keep a tokenizer's cache of words from knowing them all.
type prose struct{ words []string }

// newProse reads the words, one class per section.
func newProse(path string) (*prose, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &prose{}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "[") {
			p.words = append(p.words, strings.Fields(line)...)
		}
	}
	return p, nil
}

// text is about n bytes in JSON's spelling, with line breaks and quotes as chats have them.
func (p *prose) text(b []byte, r *rand.Rand, n int) []byte {
	for end := len(b) + n; len(b) < end; {
		switch k := r.IntN(80); {
		case k < 2:
			b = append(b, `.\n`...)
		case k < 4:
			b = append(b, `\"yes\" `...)
		case k < 6:
			b = strconv.AppendUint(b, uint64(r.Uint32()), 36)
			b = append(b, ' ')
		default:
			f := r.Float64()
			b = append(append(b, p.words[int(f*f*float64(len(p.words)))]...), ' ')
		}
	}
	return b
}

// turns is how many messages of a user a long body holds, and questionBytes the length of the last one.
const (
	turns         = 6
	questionBytes = 200
)

// appendHead is a body up to its last question: a system message and, in long ones, a conversation.
func (s shape) appendHead(b []byte, p *prose, r *rand.Rand) []byte {
	b = append(b, `{"model":"bench",`...)
	if s.stream {
		b = append(b, `"stream":true,`...)
	}
	b = append(b, `"temperature":0.7,"messages":[{"role":"system","content":"You are brief. `...)
	if s.bytes < 4096 {
		b = p.text(b, r, s.bytes*3/4-len(b))
	} else {
		part := (s.bytes - questionBytes) / (2*turns - 1)
		for range turns - 1 {
			b = p.text(b, r, part)
			b = append(b, `"},{"role":"user","content":"`...)
			b = p.text(b, r, part)
			b = append(b, `"},{"role":"assistant","content":"`...)
		}
		b = p.text(b, r, part)
	}
	return append(b, `"},{"role":"user","content":"`...)
}

// appendTail is the last question, which no other body has.
func (s shape) appendTail(b []byte, p *prose, r *rand.Rand) []byte {
	var salt [8]byte
	for i := range salt {
		salt[i] = byte(r.Uint32())
	}
	b = hex.AppendEncode(b, salt[:])
	b = append(b, ' ')
	b = p.text(b, r, max(questionBytes/4, s.bytes-len(b)-5))
	return append(b, `"}]}`...)
}

// bodies makes the bodies of one lane; no two are equal, in this lane or another.
type bodies struct {
	shape shape
	prose *prose
	r     *rand.Rand
	head  []byte // of known ones
	buf   []byte
}

// lanes counts the lanes of this process; it seeds their bodies, so that a run never repeats what an earlier one sent.
type lanes struct {
	prose *prose
	n     atomic.Uint64
}

// newBodies makes a lane's bodies. A lane of known ones keeps the conversation that its number names, so that it is
// the same in every round.
func (l *lanes) newBodies(s shape, lane int) *bodies {
	b := &bodies{shape: s, prose: l.prose, r: rand.New(rand.NewPCG(l.n.Add(1), uint64(s.bytes)))}
	if s.known {
		b.head = s.appendHead(nil, l.prose, rand.New(rand.NewPCG(uint64(lane), 1)))
	}
	return b
}

// next is the next body, valid until the one after it.
func (b *bodies) next() []byte {
	if b.shape.known {
		b.buf = append(b.buf[:0], b.head...)
	} else {
		b.buf = b.shape.appendHead(b.buf[:0], b.prose, b.r)
	}
	b.buf = b.shape.appendTail(b.buf, b.prose, b.r)
	return b.buf
}
