package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// TestRenderErrors: a client hears sentences, never the names that services use among themselves; what is not its fault
// is a 500 and in the log, unless it has gone.
func TestRenderErrors(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		err     error
		status  int
		message string
		logged  string
	}{
		{"plain", errors.New("odd role"), 400, "odd role", ""},
		{"the request's fault", fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "odd role"), 400, "odd role", ""},
		{
			"wrapped", fmt.Errorf("render: %w", fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "odd role")), 400,
			"odd role", "",
		},
		{"away", fault.New(faultv1.Reason_REASON_UNAVAILABLE, "no service"), 500, "Internal server error", "level=ERROR"},
		{"client gone", fault.New(faultv1.Reason_REASON_CANCELLED, "left"), 500, "Internal server error", "level=DEBUG"},
		{"client gone here", fmt.Errorf("render: %w", context.Canceled), 500, "Internal server error", "level=DEBUG"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
			h := &Handler{deps: Deps{Log: log}}
			e := h.asError(renderError(row.err))
			require.Equal(t, row.status, e.Status)
			require.Equal(t, row.message, e.Message)
			require.Contains(t, out.String(), row.logged)
			if row.logged == "" {
				require.Empty(t, out.String())
			}
			require.NotContains(t, e.Message, "INVALID_REQUEST")
		})
	}
}
