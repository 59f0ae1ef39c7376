package fault

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
)

// Domain is the ErrorInfo domain of all kvmesh faults.
const Domain = "kvmesh"

// paramKey is the ErrorInfo metadata key of Error.Param.
const paramKey = "param"

// internalText is all that an INTERNAL fault says to other processes.
const internalText = "internal error"

// awayText is what an UNAVAILABLE status of the transport becomes.
const awayText = "a service of the mesh cannot be reached now"

// maxTextBytes bounds message and param on the wire. Both may repeat what a client sent, and gRPC puts the status into
// a header block that many proxies limit to 8 KiB.
const maxTextBytes = 2048

// GRPCStatus is the fault as it crosses RPC: code, message, ErrorInfo with reason and param, RetryInfo if there is a
// time. The cause is left out, and for INTERNAL the message too.
func (e *Error) GRPCStatus() *status.Status {
	r := e.Remote()
	info := &errdetails.ErrorInfo{Reason: Name(r.Reason), Domain: Domain}
	if r.Param != "" {
		info.Metadata = map[string]string{paramKey: r.Param}
	}
	details := []protoadapt.MessageV1{info}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	st := status.New(Code(r.Reason), r.Message)
	if with, err := st.WithDetails(details...); err == nil {
		return with
	}
	return st
}

// Remote is the fault as the other side of an RPC knows it: without its cause, and for INTERNAL with the short text.
// Transports that do not serialise use it so that callers see the same over each of them.
func (e *Error) Remote() *Error {
	msg := bounded(e.Message)
	if Code(e.Reason) == codes.Internal {
		msg = internalText
	}
	return &Error{Reason: e.Reason, Message: msg, Param: bounded(e.Param), RetryAfter: e.RetryAfter}
}

// bounded makes s fit for a proto string field: valid UTF-8 of at most maxTextBytes.
func bounded(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= maxTextBytes {
		return s
	}
	cut := maxTextBytes
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}

// From finds the fault in err: a fault in its chain, a gRPC status (ours or not), a context error, else INTERNAL with
// err as its cause. It returns nil for nil; assign the result to an error variable only after a nil check.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	var st interface{ GRPCStatus() *status.Status }
	if errors.As(err, &st) {
		return fromStatus(st.GRPCStatus(), err)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return Wrap(faultv1.Reason_REASON_CANCELLED, err, "the request was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return Wrap(faultv1.Reason_REASON_DEADLINE_EXCEEDED, err, "the deadline passed")
	}
	return Wrap(faultv1.Reason_REASON_INTERNAL, err, internalText)
}

// fromStatus rebuilds a fault. A status that kvmesh made has all its facts in details; from any other only the code is
// taken as a reason, and err stays the cause so that the log shows what the other side said.
func fromStatus(st *status.Status, err error) *Error {
	out := &Error{Reason: reasonOfCode(st.Code()), Message: st.Message(), cause: err}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() != Domain {
				continue
			}
			if r, ok := Parse(d.GetReason()); ok {
				out.Reason = r
			}
			out.Param = d.GetMetadata()[paramKey]
			out.cause = nil
		case *errdetails.RetryInfo:
			out.RetryAfter = max(0, d.GetRetryDelay().AsDuration().Round(time.Millisecond))
		}
	}
	if st.Code() == codes.ResourceExhausted && isSizeRefusal(st.Message()) {
		out.Reason = faultv1.Reason_REASON_TOO_LARGE
	}
	if out.cause != nil && out.Reason == faultv1.Reason_REASON_UNAVAILABLE {
		out.Message = awayText // the transport's own words name addresses, which no client is to see
	}
	return out
}

// isSizeRefusal knows gRPC's own refusals of large messages ("received message larger than max", "trying to send
// message larger than max", "message after decompression larger than max"): it reports them with the code of overload.
func isSizeRefusal(msg string) bool {
	return strings.HasPrefix(msg, "grpc: ") && strings.Contains(msg, "larger than max") ||
		strings.HasPrefix(msg, "trying to send message larger than max")
}
