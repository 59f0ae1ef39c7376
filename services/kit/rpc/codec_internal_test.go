package rpc

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that ours is compared with
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
)

func TestBuffersFitTheirClass(t *testing.T) {
	t.Parallel()
	var p buffers
	for _, row := range []struct{ n, capacity int }{
		{0, 1 << 10},
		{1, 1 << 10},
		{1 << 10, 1 << 10},
		{1<<10 + 1, 1 << 11},
		{33 << 10, 64 << 10},
		{64 << 10, 64 << 10},
		{1 << 23, 1 << 23},
		{1<<23 + 1, 1<<23 + 1},
	} {
		for range 3 {
			b := p.Get(row.n)
			require.Len(t, *b, row.n)
			if row.n <= 1<<mostBits {
				require.Equal(t, row.capacity, cap(*b))
			}
			*b = (*b)[:row.n/2]
			p.Put(b)
		}
	}
	odd := make([]byte, 3000)
	p.Put(&odd)
	require.Equal(t, 4096, cap(*p.Get(3000)), "a buffer of another make was taken in")
}

// message has a text and ids of about n bytes.
func message(r *rand.Rand, n int) *tokenizerv1.EncodeRequest {
	m := &tokenizerv1.EncodeRequest{Model: "m", Text: make([]byte, n), WantTokenIds: true}
	for i := range m.Text {
		m.Text[i] = byte(r.Uint32())
	}
	for range r.IntN(5) {
		m.Cuts = append(m.Cuts, r.Uint32())
	}
	return m
}

// cut divides bytes as a transport does.
func cut(r *rand.Rand, b []byte) mem.BufferSlice {
	var out mem.BufferSlice
	for len(b) > 0 {
		n := 1 + r.IntN(len(b))
		out, b = append(out, mem.SliceBuffer(b[:n])), b[n:]
	}
	return out
}

// TestCodecEqualsGRPCs sends messages of all sizes from either codec to the other, with buffers in use over and over.
func TestCodecEqualsGRPCs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 4))
	ours, theirs := newCodec(), encoding.GetCodecV2("proto")
	require.Equal(t, theirs.Name(), ours.Name())
	for range 300 {
		want := message(r, r.IntN(1<<r.IntN(18)))
		for _, way := range []struct{ from, to encoding.CodecV2 }{{ours, theirs}, {theirs, ours}, {ours, ours}} {
			data, err := way.from.Marshal(want)
			require.NoError(t, err)
			got := &tokenizerv1.EncodeRequest{}
			pieces := cut(r, data.Materialize())
			require.NoError(t, way.to.Unmarshal(pieces, got))
			data.Free()
			require.True(t, proto.Equal(want, got))
		}
	}
}

// TestCodecKeepsNothingOfItsBuffer uses a message after its buffer has become another one's.
func TestCodecKeepsNothingOfItsBuffer(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 5))
	c := newCodec()
	want, got := message(r, 5000), &tokenizerv1.EncodeRequest{}
	data, err := c.Marshal(want)
	require.NoError(t, err)
	require.NoError(t, c.Unmarshal(cut(r, data.Materialize()), got))
	data.Free()
	for range 10 {
		b := c.pool.Get(6000)
		clear(*b)
		c.pool.Put(b)
	}
	require.True(t, proto.Equal(want, got))
}

func TestCodecRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	c := newCodec()
	_, err := c.Marshal("text")
	require.ErrorContains(t, err, "string is no message")
	require.ErrorContains(t, c.Unmarshal(nil, 1), "int is no message")
	broken := mem.BufferSlice{mem.SliceBuffer([]byte{0xff})}
	require.Error(t, c.Unmarshal(broken, &tokenizerv1.EncodeRequest{}))
}
