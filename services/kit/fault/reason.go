package fault

import (
	"strings"

	"google.golang.org/grpc/codes"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
)

// reasonPrefix is what the enum's names have in front, by buf's STANDARD rules; on the wire it is left out.
const reasonPrefix = "REASON_"

// Name is the reason as ErrorInfo, metric labels and receipts spell it: "NO_WORKER".
func Name(r Reason) string { return strings.TrimPrefix(r.String(), reasonPrefix) }

// Parse is the inverse of Name; false for a name this build does not know.
func Parse(name string) (Reason, bool) {
	r, ok := faultv1.Reason_value[reasonPrefix+name]
	return Reason(r), ok
}

// Code is the gRPC code a reason travels with. RESOURCE_EXHAUSTED and UNAVAILABLE are kept for what may succeed later:
// a body that is too large is INVALID_ARGUMENT, because no retry makes it smaller.
func Code(r Reason) codes.Code {
	switch r {
	case faultv1.Reason_REASON_INVALID_REQUEST,
		faultv1.Reason_REASON_TOO_LARGE,
		faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE,
		faultv1.Reason_REASON_TEMPLATE_FAILED, // the template judged the messages
		faultv1.Reason_REASON_TOKENIZER_FAILED:
		return codes.InvalidArgument
	case faultv1.Reason_REASON_UNAUTHENTICATED:
		return codes.Unauthenticated
	case faultv1.Reason_REASON_PERMISSION_DENIED:
		return codes.PermissionDenied
	case faultv1.Reason_REASON_MODEL_NOT_FOUND, faultv1.Reason_REASON_NOT_FOUND:
		return codes.NotFound
	case faultv1.Reason_REASON_METHOD_NOT_ALLOWED:
		return codes.Unimplemented
	case faultv1.Reason_REASON_OVERLOADED:
		return codes.ResourceExhausted
	case faultv1.Reason_REASON_NO_WORKER,
		faultv1.Reason_REASON_UNAVAILABLE,
		faultv1.Reason_REASON_WORKER_FAILED,
		faultv1.Reason_REASON_MODEL_LOADING:
		return codes.Unavailable
	case faultv1.Reason_REASON_DEADLINE_EXCEEDED:
		return codes.DeadlineExceeded
	case faultv1.Reason_REASON_CANCELLED:
		return codes.Canceled
	case faultv1.Reason_REASON_STREAM_BROKEN:
		return codes.Aborted
	case faultv1.Reason_REASON_TEMPLATE_LIMIT, faultv1.Reason_REASON_UNSUPPORTED_MODEL:
		return codes.FailedPrecondition
	case faultv1.Reason_REASON_SNAPSHOT_NEEDED:
		return codes.OutOfRange
	case faultv1.Reason_REASON_UNSPECIFIED, faultv1.Reason_REASON_INTERNAL:
	}
	return codes.Internal
}

// reasonOfCode is for statuses that kvmesh did not make: gRPC's own, a proxy's, or a newer peer's unknown reason.
func reasonOfCode(c codes.Code) Reason {
	switch c {
	case codes.Canceled:
		return faultv1.Reason_REASON_CANCELLED
	case codes.DeadlineExceeded:
		return faultv1.Reason_REASON_DEADLINE_EXCEEDED
	case codes.InvalidArgument:
		return faultv1.Reason_REASON_INVALID_REQUEST
	case codes.NotFound:
		return faultv1.Reason_REASON_NOT_FOUND
	case codes.PermissionDenied:
		return faultv1.Reason_REASON_PERMISSION_DENIED
	case codes.Unauthenticated:
		return faultv1.Reason_REASON_UNAUTHENTICATED
	case codes.ResourceExhausted:
		return faultv1.Reason_REASON_OVERLOADED
	case codes.Unavailable:
		return faultv1.Reason_REASON_UNAVAILABLE
	case codes.Unimplemented:
		return faultv1.Reason_REASON_METHOD_NOT_ALLOWED
	case codes.Aborted:
		return faultv1.Reason_REASON_STREAM_BROKEN
	case codes.OutOfRange:
		return faultv1.Reason_REASON_SNAPSHOT_NEEDED
	}
	return faultv1.Reason_REASON_INTERNAL
}
