// Package rpc builds gRPC servers and client connections whose address picks the transport: tcp:// and unix:// are
// grpc-go, mem:// is a call inside the process. All three run the same server interceptors, deadlines, health and
// faults, so a mesh in one process behaves like one of many.
//
// # Server interceptors, outermost first
//
//   - recover turns a panic into an INTERNAL fault and logs the stack.
//   - trace continues the caller's trace, if the server has a tracer.
//   - deadline takes 20 ms off the caller's deadline, so that the callee can say what timed out before the caller stops
//     listening, and refuses calls with less than 50 ms left.
//   - metrics counts calls by method and reason and measures their time.
//   - log writes one debug line per call.
//   - fault makes every error a fault and logs the cause of INTERNAL ones.
//   - what ServerDeps.Interceptors adds (authentication, limits).
//   - validate checks the request against its protovalidate rules.
//
// # Calls in memory
//
// A unary call runs the handler in the caller's goroutine. It is not serialised: the callee gets a shallow copy of the
// request and the caller a shallow copy of the response, so both see the same slices, maps and sub-messages. Messages
// are therefore immutable once they are sent, on either side.
//
// A cancelled context reaches the handler at once, but the call returns only when the handler does: handlers watch
// their context. A streaming call runs its handler in a goroutine of its own, with a bounded queue each way; it ends
// when the handler returns or the caller's context ends. As with gRPC, a caller that stops receiving early must cancel.
//
// The handler's context has the caller's deadline and cancellation and none of its values. Of the caller's outgoing
// metadata, what the client's allow-list names becomes the handler's incoming metadata. Message size limits do not
// apply.
package rpc
