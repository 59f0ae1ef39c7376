package openai

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

func TestAnthropicErrors(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reason        fault.Reason
		status        int
		kind, param   string
		code, message string
	}{
		"unknown model": {faultv1.Reason_REASON_MODEL_NOT_FOUND, 404, "not_found_error", "model", "model_not_found", "m"},
		"unknown path":  {faultv1.Reason_REASON_NOT_FOUND, 404, "not_found_error", "", "not_found", "m"},
		"bad request":   {faultv1.Reason_REASON_INVALID_REQUEST, 400, "invalid_request_error", "", "invalid_request", "m"},
		"no key":        {faultv1.Reason_REASON_UNAUTHENTICATED, 401, "authentication_error", "", "invalid_api_key", "m"},
		"not allowed":   {faultv1.Reason_REASON_PERMISSION_DENIED, 403, "permission_error", "", "permission_denied", "m"},
		"large":         {faultv1.Reason_REASON_TOO_LARGE, 413, "request_too_large", "", "request_too_large", "m"},
		"too many":      {faultv1.Reason_REASON_OVERLOADED, 429, "rate_limit_error", "", "rate_limit_exceeded", "m"},
		"no worker":     {faultv1.Reason_REASON_NO_WORKER, 503, "overloaded_error", "", "no_worker", "m"},
		"deadline":      {faultv1.Reason_REASON_DEADLINE_EXCEEDED, 504, "timeout_error", "", "timeout", "m"},
		"worker failed": {faultv1.Reason_REASON_WORKER_FAILED, 502, "api_error", "", "upstream_failed", "m"},
		"internal": {
			faultv1.Reason_REASON_INTERNAL, 500, "api_error", "", "internal_error",
			"The server had an error while processing the request.",
		},
	} {
		f := NewFailure(fault.New(row.reason, "m"))
		require.Equal(t, row.status, f.Status, name)
		var got struct {
			Type  string
			Error struct {
				Type, Message, Code string
				Param               *string
			}
		}
		require.NoError(t, json.Unmarshal(f.AnthropicBody(), &got), name)
		require.Equal(t, "error", got.Type, name)
		require.Equal(t, row.kind, got.Error.Type, name)
		require.Equal(t, row.code, got.Error.Code, name)
		require.Equal(t, row.message, got.Error.Message, name)
		if row.param == "" {
			require.Nil(t, got.Error.Param, name)
		} else {
			require.Equal(t, row.param, *got.Error.Param, name)
		}
		require.Equal(t, "event: error\ndata: "+string(f.AnthropicBody())+"\n\n", string(f.AnthropicEvent()), name)
	}
}

func TestStatusOfType(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int{
		"overloaded_error": 503, "rate_limit_error": 429, "invalid_request_error": 400, "timeout_error": 504,
		"api_error": 500, "internal_error": 500, "": 500, "of another kind": 500,
	} {
		require.Equal(t, want, StatusOfType(kind), kind)
	}
}
