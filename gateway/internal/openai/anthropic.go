package openai

import (
	"net/http"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// anthropicType is the type of Anthropic's error object for a status, by the list in its API's reference.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status < http.StatusInternalServerError {
		return "invalid_request_error"
	}
	return "api_error"
}

// StatusOfType is the status that belongs to the type of an error object without a code, as Anthropic's are; 500 where it
// tells nothing.
func StatusOfType(kind string) int {
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	} {
		if anthropicType(status) == kind {
			return status
		}
	}
	return http.StatusInternalServerError
}

// AnthropicBody is the failure as Anthropic's Messages API spells it: {"type":"error","error":{type,message,…}}. The
// members of OpenAI's object that Anthropic's does not have stand beside them.
func (f Failure) AnthropicBody() []byte {
	b := append(make([]byte, 0, len(f.Body)+64), `{"type":"error","error":{"type":"`...)
	b = append(b, anthropicType(f.Status)...)
	b = append(b, `","message":`...)
	b = jsontext.AppendQuoted(b, []byte(f.message))
	return f.appendEnd(b)
}

// AnthropicEvent is the failure as an event of a Messages stream, which are named.
func (f Failure) AnthropicEvent() []byte {
	b := append([]byte("event: error\ndata: "), f.AnthropicBody()...)
	return append(b, "\n\n"...)
}
