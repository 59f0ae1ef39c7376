package obs_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/obs"
)

// TestDashboard: the page and its files are served with their types, and nothing else of the binary's files is.
func TestDashboard(t *testing.T) {
	t.Parallel()
	a := startAdmin(t, obs.AdminConfig{Address: "tcp://127.0.0.1:0"}, func(context.Context) []lifecycle.NotReady {
		return nil
	})
	for _, row := range []struct {
		path, holds string
		code        int
	}{
		{"/", "<title>kvmesh</title>", http.StatusOK},
		{"/dashboard/page.js", `from "/dashboard/metrics.js"`, http.StatusOK},
		{"/dashboard/metrics.js", "export function parse", http.StatusOK},
		{"/dashboard/style.css", "color-scheme", http.StatusOK},
		{"/dashboard/", "", http.StatusNotFound},
		{"/dashboard", "", http.StatusNotFound},
		{"/dashboard/other.js", "", http.StatusNotFound},
		{"/dashboard/../admin.go", "", http.StatusNotFound},
		{"/dashboard/%2e%2e", "", http.StatusBadRequest},
		{"/index.html", "", http.StatusNotFound},
	} {
		t.Run(row.path, func(t *testing.T) {
			t.Parallel()
			code, body := get(t, a, row.path)
			require.Equal(t, row.code, code)
			require.Contains(t, body, row.holds)
		})
	}
}
