package bench

import (
	"container/list"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// heldBlocks is the size of the mock worker's cache: 1M tokens.
const heldBlocks = 1 << 16

// recorder keeps the prompts that the mock worker was sent and tells afterwards, as a vLLM does, which blocks they left in
// its cache. It makes the token ids itself, with a template and a tokenizer service of its own, and not before it is
// asked: neither the latencies of a run nor the CPU of an arm has that in it.
type recorder struct {
	template  templatev1.TemplateServiceClient
	tokenizer tokenizerv1.TokenizerServiceClient

	mu     sync.Mutex
	bodies [][]byte
	subs   []net.Conn
	seq    uint64
	room   int                      // blocks
	held   map[uint64]*list.Element // hash of a block -> its place in used
	used   list.List                // hashes, the latest first
}

// newRecorder makes a recorder of the two services' addresses; without them it keeps nothing.
func newRecorder(oracle string) (*recorder, error) {
	r := &recorder{room: heldBlocks, held: map[uint64]*list.Element{}}
	template, tokenizer, found := strings.Cut(oracle, " ")
	if !found {
		return r, nil
	}
	t, err := grpc.NewClient(template, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	k, err := grpc.NewClient(tokenizer, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	r.template, r.tokenizer = templatev1.NewTemplateServiceClient(t), tokenizerv1.NewTokenizerServiceClient(k)
	return r, nil
}

// on tells whether prompts are kept.
func (r *recorder) on() bool { return r.template != nil }

// keep remembers a body.
func (r *recorder) keep(body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, body)
}

// take returns what was kept.
func (r *recorder) take() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.bodies
	r.bodies = nil
	return out
}

// stepPrompts is how many prompts are in one batch: an engine works on many at once and publishes after each step.
const stepPrompts = 8

// tell publishes what the kept prompts did to the cache.
func (r *recorder) tell(ctx context.Context) error {
	var prompts [][]uint32
	for _, body := range r.take() {
		var q struct{ Messages json.RawMessage }
		if err := json.Unmarshal(body, &q); err != nil || q.Messages == nil {
			continue // what an adapter asks of its worker
		}
		ids, err := r.ids(ctx, q.Messages)
		if err != nil {
			return err
		}
		prompts = append(prompts, ids)
	}
	for step := range slices.Chunk(prompts, stepPrompts) {
		r.publish(r.batch(step))
	}
	return nil
}

// ids are the tokens of a conversation.
func (r *recorder) ids(ctx context.Context, messages []byte) ([]uint32, error) {
	text, err := r.template.Render(ctx, &templatev1.RenderRequest{Model: "bench", MessagesJson: messages})
	if err != nil {
		return nil, err
	}
	out, err := r.tokenizer.Encode(ctx, &tokenizerv1.EncodeRequest{
		Model: "bench", Text: text.GetText(), WantTokenIds: true, Salting: &tokenizerv1.Salting{},
	})
	return out.GetTokenIds(), err
}

// batch is the events of one step.
func (r *recorder) batch(prompts [][]uint32) []byte {
	var events message
	count := 0
	for _, ids := range prompts {
		count += r.events(&events, ids)
	}
	var m message
	m.array(3)
	m.float(float64(time.Now().UnixMicro()) / 1e6)
	m.array(count)
	m = append(m, events...)
	m.number(0)
	return m
}

// events appends what one prompt does to the cache and returns how many events that is: the blocks that have to go, and
// those that are new. A full block's hash is of all before it, so new ones are the end of a prompt.
func (r *recorder) events(m *message, ids []uint32) (count int) {
	chain := kvblock.AppendUnits(nil, kvblock.Namespace{Model: "a worker's own"}.Root(), ids, "")
	known := 0
	for known < len(chain) && r.held[chain[known]] != nil {
		known++
	}
	for _, h := range slices.Backward(chain) { // the end of a prompt goes before its beginning
		if e := r.held[h]; e != nil {
			r.used.MoveToFront(e)
			continue
		}
		r.held[h] = r.used.PushFront(h)
	}
	var gone []uint64
	for r.used.Len() > r.room {
		h := r.used.Remove(r.used.Back()).(uint64)
		delete(r.held, h)
		gone = append(gone, h)
	}
	if len(gone) > 0 {
		count++
		m.object(3)
		m.field("type").text("BlockRemoved")
		m.field("block_hashes").hashes(gone)
		m.field("medium").text("GPU")
	}
	if known < len(chain) {
		count++
		m.object(6)
		m.field("type").text("BlockStored")
		m.field("block_hashes").hashes(chain[known:])
		m.field("parent_block_hash")
		if known == 0 {
			*m = append(*m, 0xc0) // nil
		} else {
			m.number(chain[known-1])
		}
		m.field("token_ids").ids(ids[known*kvblock.UnitTokens : len(chain)*kvblock.UnitTokens])
		m.field("block_size").number(kvblock.UnitTokens)
		m.field("medium").text("GPU")
	}
	return count
}

// message is MessagePack.
type message []byte

func (m *message) array(n int)  { *m = append(*m, 0xdd, byte(n>>24), byte(n>>16), byte(n>>8), byte(n)) }
func (m *message) object(n int) { *m = append(*m, 0x80|byte(n)) }
func (m *message) text(s string) {
	*m = append(append(*m, 0xd9, byte(len(s))), s...)
}

func (m *message) field(name string) *message {
	m.text(name)
	return m
}

func (m *message) float(f float64) {
	*m = binary.BigEndian.AppendUint64(append(*m, 0xcb), math.Float64bits(f))
}

func (m *message) number(n uint64) { *m = binary.BigEndian.AppendUint64(append(*m, 0xcf), n) }

func (m *message) hashes(hs []uint64) {
	m.array(len(hs))
	for _, h := range hs {
		m.number(h)
	}
}

// ids are in their shortest forms, as vLLM's encoder has them.
func (m *message) ids(ids []uint32) {
	m.array(len(ids))
	for _, id := range ids {
		switch {
		case id < 0x80:
			*m = append(*m, byte(id))
		case id < 0x100:
			*m = append(*m, 0xcc, byte(id))
		case id < 0x10000:
			*m = binary.BigEndian.AppendUint16(append(*m, 0xcd), uint16(id))
		default:
			*m = binary.BigEndian.AppendUint32(append(*m, 0xce), id)
		}
	}
}

// serve is the worker's publisher: ZMTP 3.0 with the NULL mechanism, as much of it as a subscriber needs.
func (r *recorder) serve(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			if err := greet(c); err != nil {
				_ = c.Close()
				return
			}
			r.mu.Lock()
			r.subs = append(r.subs, c)
			r.mu.Unlock()
			_, _ = io.Copy(io.Discard, c) // subscriptions: everything goes to everyone
		}()
	}
}

// greet shakes hands with a subscriber.
func greet(c net.Conn) error {
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB"
	if _, err := c.Write(slices.Concat(greeting, []byte{4, byte(len(ready))}, []byte(ready))); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, greeting); err != nil {
		return err
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	_, err := io.CopyN(io.Discard, c, int64(head[1]))
	return err
}

// publish sends a batch to whoever listens: topic, number, payload.
func (r *recorder) publish(payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	frames := append([]byte{1, 2}, "kv"...)
	frames = binary.BigEndian.AppendUint64(append(frames, 1, 8), r.seq)
	frames = binary.BigEndian.AppendUint64(append(frames, 2), uint64(len(payload)))
	frames = append(frames, payload...)
	r.seq++
	r.subs = slices.DeleteFunc(r.subs, func(c net.Conn) bool {
		_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, err := c.Write(frames)
		return err != nil // an arm that has ended
	})
}
