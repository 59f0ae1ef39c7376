package rpc

import (
	"sync"

	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// memTransport keeps a call's header and trailer metadata. It is the grpc.ServerTransportStream in the handler's
// context, so grpc.SetHeader and friends work as they do over a wire.
type memTransport struct {
	method string

	mu      sync.Mutex
	header  metadata.MD
	trailer metadata.MD
	sent    bool
	onSent  func() // called once, with mu held, when the header can no longer change
}

// Method is the full method name.
func (t *memTransport) Method() string { return t.method }

// SetHeader adds to the header. As over a wire it fails once the header has been sent.
func (t *memTransport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.setHeader(md)
}

// SendHeader adds to the header and sends it.
func (t *memTransport) SendHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.setHeader(md); err != nil {
		return err
	}
	t.markSent()
	return nil
}

// SetTrailer adds to the trailer, which the caller sees at the end.
func (t *memTransport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = metadata.Join(t.trailer, md)
	return nil
}

// setHeader is called with mu held.
func (t *memTransport) setHeader(md metadata.MD) error {
	if t.sent {
		return fault.New(faultv1.Reason_REASON_INTERNAL, "rpc: the header has been sent already")
	}
	t.header = metadata.Join(t.header, md)
	return nil
}

// flush sends the header if that has not happened; the first message of a stream does so.
func (t *memTransport) flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.markSent()
}

// markSent is called with mu held. An empty header counts as sent too.
func (t *memTransport) markSent() {
	if t.sent {
		return
	}
	t.sent = true
	if t.onSent != nil {
		t.onSent()
	}
}

// headerCopy keeps the two sides from writing to one map.
func (t *memTransport) headerCopy() metadata.MD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.header.Copy()
}

func (t *memTransport) trailerCopy() metadata.MD {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.trailer.Copy()
}
