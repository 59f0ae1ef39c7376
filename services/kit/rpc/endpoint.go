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

	hard     context.Context // ends when running calls must
	hardStop context.CancelFunc

	mu       sync.Mutex
	running  int
	draining bool
	idle     chan struct{} // closed when draining and nothing runs
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

func newEndpoint(name string, list []Interceptor) *endpoint {
	e := &endpoint{addr: memAddr(name), methods: map[string]memMethod{}, idle: make(chan struct{})}
	e.peer = &peer.Peer{Addr: e.addr, LocalAddr: e.addr}
	e.unary, e.stream = chainUnary(list), chainStream(list)
	e.hard, e.hardStop = context.WithCancel(context.Background())
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

// begin admits a call, or refuses it while the server stops. Each admitted call calls end once.
func (e *endpoint) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.draining {
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server at %s is stopping", e.addr)
	}
	e.running++
	return nil
}

func (e *endpoint) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	if e.draining && e.running == 0 {
		close(e.idle)
	}
}

// drain refuses new calls and returns a channel that closes when none runs. It may be called once.
func (e *endpoint) drain() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
	if e.running == 0 {
		close(e.idle)
	}
	return e.idle
}

// calleeContext makes the handler's context: deadline and cancellation of the caller's, ended by the server's hard stop
// too, with a peer, the incoming metadata and nothing else. The cancel function must be called.
func (e *endpoint) calleeContext(
	caller context.Context, md metadata.MD, sts grpc.ServerTransportStream,
) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(valueless{caller})
	stop := context.AfterFunc(e.hard, cancel)
	ctx = peer.NewContext(ctx, e.peer)
	ctx = metadata.NewIncomingContext(ctx, md)
	return grpc.NewContextWithServerTransportStream(ctx, sts), func() {
		stop()
		cancel()
	}
}

// result is a call's error as its caller sees it. A handler that the server's hard stop cancelled reports CANCELLED; its
// caller, who did not cancel, learns that the server is gone, as over a wire.
func (e *endpoint) result(caller context.Context, err error) error {
	if err == nil {
		return nil
	}
	f := fault.From(err).Remote()
	if f.Reason == faultv1.Reason_REASON_CANCELLED && e.hard.Err() != nil && caller.Err() == nil {
		return fault.New(faultv1.Reason_REASON_UNAVAILABLE, "the server at %s stopped", e.addr)
	}
	return f
}

// valueless is a context without its values. It offers AfterFunc so that contexts made from it do not each need a
// goroutine to watch it.
type valueless struct{ context.Context }

func (valueless) Value(any) any { return nil }

func (v valueless) AfterFunc(f func()) func() bool { return context.AfterFunc(v.Context, f) }
