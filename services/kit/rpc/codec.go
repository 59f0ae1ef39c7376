package rpc

import (
	"fmt"
	"math/bits"
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is gRPC's own codec of messages but for the buffers. gRPC takes one of 1 MiB for all that is larger than 32 KiB
// and clears it, which costs more than the rest of a call with a prompt in it.
type codec struct{ pool *buffers }

func newCodec() codec { return codec{pool: &buffers{}} }

// Name is that of gRPC's codec: on the wire they are the same.
func (codec) Name() string { return "proto" }

// Marshal writes a message into a buffer that gRPC gives back.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("marshal: %T is no message", v)
	}
	opts := proto.MarshalOptions{UseCachedSize: true}
	size := proto.Size(m) // sets what UseCachedSize reads
	if mem.IsBelowBufferPoolingThreshold(size) {
		b, err := opts.Marshal(m)
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	b := c.pool.Get(size)
	if _, err := opts.MarshalAppend((*b)[:0], m); err != nil {
		c.pool.Put(b)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(b, c.pool)}, nil
}

// Unmarshal reads a message, which keeps nothing of data.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("unmarshal: %T is no message", v)
	}
	b := data.MaterializeToBuffer(c.pool)
	defer b.Free()
	return proto.Unmarshal(b.ReadOnlyData(), m)
}

const (
	leastBits = 10 // 1 KiB, below which gRPC pools nothing
	mostBits  = 23 // 8 MiB; a larger message has a buffer of its own
)

// buffers is a mem.BufferPool with a class for each power of two. What it gives holds old bytes: its users write all of a
// buffer before they read it.
type buffers struct{ classes [mostBits + 1]sync.Pool }

// Get gives a buffer of n bytes.
func (p *buffers) Get(n int) *[]byte {
	class := max(leastBits, bits.Len(uint(max(n, 1)-1)))
	if class > mostBits {
		b := make([]byte, n)
		return &b
	}
	b, ok := p.classes[class].Get().(*[]byte)
	if !ok {
		fresh := make([]byte, 1<<class)
		b = &fresh
	}
	*b = (*b)[:n]
	return b
}

// Put takes a buffer of Get back.
func (p *buffers) Put(b *[]byte) {
	class := bits.Len(uint(cap(*b))) - 1
	if class < leastBits || class > mostBits || cap(*b) != 1<<class {
		return
	}
	p.classes[class].Put(b)
}
