package api

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// renderError is what the client hears of a prompt that could not be rendered: the sentence alone where the request is at
// fault, as from vLLM. A renderer that is another process may also be away, which is the worker's own trouble.
func renderError(err error) error {
	f := new(fault.Error)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &f):
		return request.Bad("%s", err.Error())
	}
	switch fault.Code(f.Reason) {
	case codes.InvalidArgument, codes.NotFound, codes.Unimplemented, codes.FailedPrecondition, codes.OutOfRange:
		return request.Bad("%s", f.Message)
	}
	return err
}
