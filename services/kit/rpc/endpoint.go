package rpc

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// endpoint is a server as mem:// clients see it: methods, interceptors and the calls that are running.
type endpoint struct {
	addr    memAddr
	peer    *peer.Peer           // what handlers see as the caller; shared, read only
	methods map[string]memMethod // by full name; read only once serving
	unary   grpc.UnaryServerInterceptor
	stream  grpc.StreamServerInterceptor

	mu       sync.Mutex
	running  map[*memCall]struct{}
	draining bool
	stopped  bool          // running calls were cancelled
	idle     chan struct{} // closed when draining and nothing runs
}

// memCall is one running call. ctx is the handler's; what the caller owes is end.
type memCall struct {
	memTransport
	caller context.Context
	ctx    context.Context
	cancel context.CancelFunc
}

// memMethod is one method of one registered service; exactly one of unary and stream is set.
type memMethod struct {
	impl   any
	unary  *grpc.MethodDesc
	stream *grpc.StreamDesc
}

// memAddr is a mem:// name as a net.Addr.
type memAddr string

func (memAddr) Network() string  { return SchemeMem }
func (a memAddr) String() string { return SchemeMem + "://" + string(a) }

// newEndpoint is not on the network yet: Start takes the name.
func newEndpoint(name string, list []Interceptor) *endpoint {
	e := &endpoint{addr: memAddr(name), methods: map[string]memMethod{}}
	e.running, e.idle = map[*memCall]struct{}{}, make(chan struct{})
	e.peer = &peer.Peer{Addr: e.addr, LocalAddr: e.addr}
	e.unary, e.stream = chainUnary(list), chainStream(list)
	return e
}

// register adds a service's methods.
func (e *endpoint) register(desc *grpc.ServiceDesc, impl any) {
	prefix := "/" + desc.ServiceName + "/"
	for i := range desc.Methods {
		e.methods[prefix+desc.Methods[i].MethodName] = memMethod{impl: impl, unary: &desc.Methods[i]}
	}
	for i := range desc.Streams {
		e.methods[prefix+desc.Streams[i].StreamName] = memMethod{impl: impl, stream: &desc.Streams[i]}
	}
}

// begin admits a call, or refuses it while the server stops. Each admitted call is ended once. The handler's context
// has the caller's deadline and cancellation, a peer, the incoming metadata and nothing else.
func (e *endpoint) begin(caller context.Context, method string, md metadata.MD) (*memCall, error) {
	c := &memCall{memTransport: memTransport{method: method}, caller: caller}
	c.ctx, c.cancel = context.WithCancel(valueless{caller})
	e.mu.Lock()
	draining := e.draining
	if !draining {
		e.running[c] = struct{}{}
	}
	e.mu.Unlock()
	if draining {
		c.cancel()
		return nil, fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server at %s is stopping", e.addr)
	}
	c.ctx = metadata.NewIncomingContext(peer.NewContext(c.ctx, e.peer), md)
	c.ctx = grpc.NewContextWithServerTransportStream(c.ctx, &c.memTransport)
	return c, nil
}

// end gives back what begin took. Cancelling first lets go of the caller's context, which may live much longer.
func (e *endpoint) end(c *memCall) {
	c.cancel()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, c)
	if e.draining && len(e.running) == 0 {
		close(e.idle)
	}
}

// drain refuses new calls and returns a channel that closes when none runs. It may be called once.
func (e *endpoint) drain() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	if len(e.running) == 0 {
		close(e.idle)
	}
	return e.idle
}

// cancelAll ends the contexts of running calls.
func (e *endpoint) cancelAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for c := range e.running {
		c.cancel()
	}
}

// wasStopped tells a handler's own cancellation from the server's.
func (e *endpoint) wasStopped() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stopped
}

// result is a call's error as its caller sees it. A handler that the server's hard stop cancelled reports CANCELLED;
// its caller, who did not cancel, learns that the server is gone, as over a wire.
func (e *endpoint) result(c *memCall, err error) error {
	if err == nil {
		return nil
	}
	f := fault.From(err).Remote()
	if f.Reason == faultv1.Reason_REASON_CANCELLED && c.caller.Err() == nil && e.wasStopped() {
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server at %s stopped", e.addr)
	}
	return f
}

// valueless is a context without its values. It offers AfterFunc so that contexts made from it need no goroutine each
// to watch it.
type valueless struct{ context.Context }

// Value answers one kind of key: package context looks for its own cancelable ancestor under a pointer to int, and a
// context that finds it joins it directly, which is cheaper than AfterFunc. No value of a caller has such a key.
func (v valueless) Value(key any) any {
	if _, ancestor := key.(*int); ancestor {
		return v.Context.Value(key)
	}
	return nil
}

// AfterFunc is what package context asks a foreign parent for before it resorts to a goroutine.
func (v valueless) AfterFunc(f func()) func() bool { return context.AfterFunc(v.Context, f) }
