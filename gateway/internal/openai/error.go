package openai

import (
	"math"
	"net/http"
	"strconv"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// StatusClientClosed is the status in logs and metrics of a request whose client went away; nobody receives it.
const StatusClientClosed = 499

// Types of OpenAI's error object.
const (
	typeInvalid   = "invalid_request_error"
	typeAuth      = "authentication_error"
	typePermitted = "permission_error"
	typeLimit     = "rate_limit_error"
	typeServer    = "server_error"
)

// class is how a reason looks in OpenAI's words.
type class struct {
	status    int
	kind      string
	code      string
	retryable bool
}

func classOf(r fault.Reason) class {
	switch r {
	case faultv1.Reason_REASON_INVALID_REQUEST:
		return class{status: http.StatusBadRequest, kind: typeInvalid, code: "invalid_request"}
	case faultv1.Reason_REASON_TOO_LARGE:
		return class{status: http.StatusRequestEntityTooLarge, kind: typeInvalid, code: "request_too_large"}
	case faultv1.Reason_REASON_UNAUTHENTICATED:
		return class{status: http.StatusUnauthorized, kind: typeAuth, code: "invalid_api_key"}
	case faultv1.Reason_REASON_PERMISSION_DENIED:
		return class{status: http.StatusForbidden, kind: typePermitted, code: "permission_denied"}
	case faultv1.Reason_REASON_MODEL_NOT_FOUND:
		return class{status: http.StatusNotFound, kind: typeInvalid, code: "model_not_found"}
	case faultv1.Reason_REASON_NOT_FOUND:
		return class{status: http.StatusNotFound, kind: typeInvalid, code: "not_found"}
	case faultv1.Reason_REASON_METHOD_NOT_ALLOWED:
		return class{status: http.StatusMethodNotAllowed, kind: typeInvalid, code: "method_not_allowed"}
	case faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE:
		return class{status: http.StatusUnsupportedMediaType, kind: typeInvalid, code: "unsupported_media_type"}
	case faultv1.Reason_REASON_OVERLOADED:
		return class{status: http.StatusTooManyRequests, kind: typeLimit, code: "rate_limit_exceeded", retryable: true}
	case faultv1.Reason_REASON_NO_WORKER:
		return class{status: http.StatusServiceUnavailable, kind: typeServer, code: "no_worker", retryable: true}
	case faultv1.Reason_REASON_UNAVAILABLE, faultv1.Reason_REASON_MODEL_LOADING:
		return class{status: http.StatusServiceUnavailable, kind: typeServer, code: "unavailable", retryable: true}
	case faultv1.Reason_REASON_DEADLINE_EXCEEDED:
		return class{status: http.StatusGatewayTimeout, kind: typeServer, code: "timeout"}
	case faultv1.Reason_REASON_CANCELLED:
		return class{status: StatusClientClosed, kind: typeInvalid, code: "cancelled"}
	case faultv1.Reason_REASON_WORKER_FAILED:
		return class{status: http.StatusBadGateway, kind: typeServer, code: "upstream_failed"}
	case faultv1.Reason_REASON_STREAM_BROKEN:
		return class{status: http.StatusBadGateway, kind: typeServer, code: "upstream_lost"}
	default:
		return class{status: http.StatusInternalServerError, kind: typeServer, code: "internal_error"}
	}
}

// Failure is a fault as the client sees it.
type Failure struct {
	// Status is the HTTP status.
	Status int
	// Body is {"error":{message,type,param,code}}.
	Body []byte
	// RetryAfterSeconds is set on every 429 and 503.
	RetryAfterSeconds int
	// Reason is the fault's.
	Reason fault.Reason

	message, param, code string
}

// NewFailure makes the error object of any error. INTERNAL faults show a fixed text.
func NewFailure(err error) Failure {
	f := fault.From(err)
	c := classOf(f.Reason)
	out := Failure{Status: c.status, Reason: f.Reason, message: f.Message, param: f.Param, code: c.code}
	if c.status == http.StatusInternalServerError || out.message == "" {
		out.message = "The server had an error while processing the request."
	}
	if f.Reason == faultv1.Reason_REASON_CANCELLED {
		out.message = "The client went away." // whatever the library said that noticed it
	}
	if f.Reason == faultv1.Reason_REASON_MODEL_NOT_FOUND && out.param == "" {
		out.param = "model"
	}
	out.Body = out.body(c.kind)
	if c.retryable {
		out.RetryAfterSeconds = max(1, int(math.Ceil(float64(f.RetryAfter)/float64(time.Second))))
	}
	return out
}

// body is OpenAI's error object.
func (f Failure) body(kind string) []byte {
	b := make([]byte, 0, 128+len(f.message))
	b = append(b, `{"error":{"message":`...)
	b = jsontext.AppendQuoted(b, []byte(f.message))
	b = append(b, `,"type":"`...)
	b = append(b, kind...)
	b = append(b, '"')
	return f.appendEnd(b)
}

// appendEnd writes the members that follow message and type, and closes both objects.
func (f Failure) appendEnd(b []byte) []byte {
	b = append(b, `,"param":`...)
	if f.param == "" {
		b = append(b, "null"...)
	} else {
		b = jsontext.AppendQuoted(b, []byte(f.param))
	}
	b = append(b, `,"code":"`...)
	b = append(b, f.code...)
	return append(b, `"}}`...)
}

// Event is the failure as a server-sent event.
func (f Failure) Event() []byte {
	b := make([]byte, 0, len(f.Body)+8)
	b = append(b, "data: "...)
	b = append(b, f.Body...)
	return append(b, "\n\n"...)
}

// RetryAfter is the header's value, empty for none.
func (f Failure) RetryAfter() string {
	if f.RetryAfterSeconds == 0 {
		return ""
	}
	return strconv.Itoa(f.RetryAfterSeconds)
}
