package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/deadline"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// endpoint is a server as mem:// clients see it: methods, interceptors and the calls that are running.
type endpoint struct {
	addr    memAddr
	peer    *peer.Peer           // what handlers see as the caller; shared, read only
	methods map[string]memMethod // by full name; read only once serving
	unary   grpc.UnaryServerInterceptor
	stream  grpc.StreamServerInterceptor

	// direct runs unary calls; nil where interceptors or traces need the chain.
	direct *directCalls
	// base is what handlers' contexts hold of the server.
	base context.Context //nolint:containedctx // the root of every handler's context

	mu       sync.Mutex
	running  *memCall // a list
	draining bool
	stopped  bool          // running calls were cancelled
	idle     chan struct{} // closed when draining and nothing runs
}

// memCall is one running call and its handler's context, which ends with the caller's and has none of its values. What
// the caller owes is endpoint.end.
type memCall struct {
	memTransport
	deadline.Context
	ep     *endpoint
	caller context.Context //nolint:containedctx // the call is a context

	prep   *preparer
	once   sync.Once
	values context.Context //nolint:containedctx // as above; made when a handler asks for a value

	before, after *memCall // in endpoint.running, guarded by its mu
}

// Value is the incoming metadata's, the peer's and the transport's. Most handlers never ask, and the metadata of a call
// is not gathered before.
func (c *memCall) Value(key any) any {
	if _, ancestor := key.(*int); ancestor { // see deadline.Context
		return c.Context.Value(key)
	}
	c.once.Do(func() {
		ctx := metadata.NewIncomingContext(c.ep.base, c.prep.metadata(c.caller))
		c.values = grpc.NewContextWithServerTransportStream(ctx, &c.memTransport)
	})
	return c.values.Value(key)
}

// memMethod is one method of one registered service; exactly one of unary and stream is set.
type memMethod struct {
	impl    any
	unary   *grpc.MethodDesc
	stream  *grpc.StreamDesc
	metrics *methodMetrics // of unary ones
	counted int64
}

// memAddr is a mem:// name as a net.Addr.
type memAddr string

func (memAddr) Network() string  { return SchemeMem }
func (a memAddr) String() string { return SchemeMem + "://" + string(a) }

// newEndpoint is not on the network yet: Start takes the name.
func newEndpoint(name string, list []Interceptor) *endpoint {
	e := &endpoint{addr: memAddr(name), methods: map[string]memMethod{}, idle: make(chan struct{})}
	e.peer = &peer.Peer{Addr: e.addr, LocalAddr: e.addr}
	e.base = peer.NewContext(context.Background(), e.peer)
	e.unary, e.stream = chainUnary(list), chainStream(list)
	return e
}

// register adds a service's methods, whose metrics are bound.
func (e *endpoint) register(desc *grpc.ServiceDesc, impl any, metrics *serverMetrics) {
	prefix := "/" + desc.ServiceName + "/"
	for i := range desc.Methods {
		name := prefix + desc.Methods[i].MethodName
		e.methods[name] = memMethod{
			impl: impl, unary: &desc.Methods[i], metrics: metrics.of(name), counted: counted(name),
		}
	}
	for i := range desc.Streams {
		e.methods[prefix+desc.Streams[i].StreamName] = memMethod{impl: impl, stream: &desc.Streams[i]}
	}
}

// begin admits a call, or refuses it while the server stops. Each admitted call is ended once. The handler's context
// has the caller's deadline (an earlier one with due), its cancellation, a peer, the incoming metadata and nothing else.
func (e *endpoint) begin(caller context.Context, method string, prep *preparer, due time.Time) (*memCall, error) {
	c := &memCall{memTransport: memTransport{method: method}, ep: e, caller: caller, prep: prep}
	c.Start(caller, due)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return nil, fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server at %s is stopping", e.addr)
	}
	if c.after = e.running; c.after != nil {
		c.after.before = c
	}
	e.running = c
	return c, nil
}

// end gives back what begin took. Ending the context first lets go of the caller's, which may live much longer.
func (e *endpoint) end(c *memCall) {
	c.End()
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.before != nil {
		c.before.after = c.after
	} else {
		e.running = c.after
	}
	if c.after != nil {
		c.after.before = c.before
	}
	c.before, c.after = nil, nil
	if e.draining && e.running == nil {
		close(e.idle)
	}
}

// drain refuses new calls and returns a channel that closes when none runs. It may be called once.
func (e *endpoint) drain() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	if e.running == nil {
		close(e.idle)
	}
	return e.idle
}

// cancelAll ends the contexts of running calls.
func (e *endpoint) cancelAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	for c := e.running; c != nil; c = c.after {
		c.End()
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
