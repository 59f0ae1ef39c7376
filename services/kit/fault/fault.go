// Package fault is the one error type of kvmesh. A fault has a reason from a proto enum, a message that may be shown to
// the caller, and perhaps the request member at fault and a time after which trying again makes sense. It crosses gRPC
// as a status with google.rpc.ErrorInfo and comes out on the other side with the same reason.
//
// The cause stays in the process: it is for the log. Neither it nor the message of an INTERNAL fault travels. Messages
// never hold prompt text, token text or secrets.
package fault

import (
	"context"
	"fmt"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
)

// Reason says what went wrong, in a form that code may branch on.
type Reason = faultv1.Reason

// Error is a fault. It is immutable once it has been returned to a caller; the With methods copy.
type Error struct {
	// Reason decides the gRPC code and, at the edge, the HTTP status.
	Reason Reason
	// Message says in one sentence what is wrong and what to do. Callers see it, except for INTERNAL.
	Message string
	// Param names the request member at fault as the caller spelled it ("messages[2].role"); often empty.
	Param string
	// RetryAfter is when to try again; 0 makes no statement.
	RetryAfter time.Duration

	cause error
}

// New makes a fault without a cause. Errors belong into Wrap, not into the format's arguments, or their text crosses
// the wire.
func New(r Reason, format string, a ...any) *Error {
	return &Error{Reason: r, Message: sprintf(format, a)}
}

// Wrap makes a fault that was caused by err. The cause is part of Error() and of the errors.Is chain in this process
// and is not sent.
func Wrap(r Reason, err error, format string, a ...any) *Error {
	return &Error{Reason: r, Message: sprintf(format, a), cause: err}
}

// sprintf leaves a format without arguments as it is, so that a fixed text may hold a percent sign.
func sprintf(format string, a []any) string {
	if len(a) == 0 {
		return format
	}
	return fmt.Sprintf(format, a...)
}

// WithParam returns a copy that names the request member at fault.
func (e *Error) WithParam(param string) *Error {
	c := *e
	c.Param = param
	return &c
}

// WithRetryAfter returns a copy that says when to try again.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Error is for logs: reason, message and cause.
func (e *Error) Error() string {
	s := Name(e.Reason) + ": " + e.Message
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause, nil for a fault that came over RPC.
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is compare faults by reason alone. A CANCELLED fault also is context.Canceled and a
// DEADLINE_EXCEEDED fault context.DeadlineExceeded, wherever they came from.
func (e *Error) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e.Reason == faultv1.Reason_REASON_CANCELLED
	case context.DeadlineExceeded:
		return e.Reason == faultv1.Reason_REASON_DEADLINE_EXCEEDED
	}
	t, ok := target.(*Error)
	return ok && t != nil && t.Reason == e.Reason
}

// ReasonOf is the reason of From(err), UNSPECIFIED for nil.
func ReasonOf(err error) Reason {
	if e := From(err); e != nil {
		return e.Reason
	}
	return faultv1.Reason_REASON_UNSPECIFIED
}
