package embed_test

import (
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

func TestNoPortByDefault(t *testing.T) {
	t.Parallel()
	srv, err := embed.Start(t.Context(), embed.Config{}, kittest.Logger(t))
	require.NoError(t, err)
	require.Empty(t, srv.URL())
	nc, err := nats.Connect("", nats.InProcessServer(srv.InProcess()))
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	nc.Close()
	srv.Close()
}

func TestTwoServersAndTakenPort(t *testing.T) {
	t.Parallel()
	first := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	second := kittest.NATSWith(t, embed.Config{Listen: "127.0.0.1:0"})
	require.NotEqual(t, first.URL(), second.URL())
	address := strings.TrimPrefix(first.URL(), "nats://")
	_, err := embed.Start(t.Context(), embed.Config{Listen: address}, kittest.Logger(t))
	require.ErrorContains(t, err, address)
	require.ErrorContains(t, err, "in use")
}

func TestFolders(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	srv, err := embed.Start(t.Context(), embed.Config{}, kittest.Logger(t))
	require.NoError(t, err)
	entries, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Len(t, entries, 1)
	srv.Close()
	entries, err = os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, entries, "a temporary folder is removed")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]embed.Config{
		"listen": {Listen: "nowhere"}, "max_memory": {MaxMemory: -1}, "max_store": {MaxStore: -1},
	} {
		_, err := embed.Start(t.Context(), cfg, kittest.Logger(t))
		require.ErrorContains(t, err, want)
	}
}
