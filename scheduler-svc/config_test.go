package schedulersvc_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
)

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	var c schedulersvc.Config
	c.SetDefaults()
	require.NoError(t, c.Validate())
	again := c
	again.SetDefaults()
	require.Equal(t, c, again)
}

func TestValidateReportsEveryFaultWithItsPath(t *testing.T) {
	t.Parallel()
	var c schedulersvc.Config
	c.SetDefaults()
	c.Policy = "best"
	c.PolicyOptions = map[string]float64{"cost_room_s": -1}
	c.Index.MaxUnits = -1
	c.Queue.MaxWaiting = -1
	c.Feed.RetryMax = time.Millisecond
	c.Peers.Full = time.Minute
	c.Worker.BreakerOpenMin = -time.Second
	err := c.Validate()
	require.Error(t, err)
	for _, path := range []string{
		"policy", "index.max_units", "queue.max_waiting", "feed.retry_max", "peers.expiry", "worker.breaker_open_min",
		"policy_options",
	} {
		require.ErrorContains(t, err, path)
	}
	require.ErrorContains(t, err, "want one of")
	require.Len(t, strings.Split(strings.TrimSpace(err.Error()), "\n"), 7)
}

// TestBinaryIsPureGoWithoutAServer: the service links neither cgo nor nats-server, which only meshd and tests do.
func TestBinaryIsPureGoWithoutAServer(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{len .CgoFiles}}", "./cmd/scheduler-svc")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	for line := range strings.Lines(string(out)) {
		name, cgo, _ := strings.Cut(strings.TrimSpace(line), " ")
		require.False(t, strings.HasPrefix(name, "github.com/nats-io/nats-server"), name)
		require.Equal(t, "0", cgo, name)
	}
}
