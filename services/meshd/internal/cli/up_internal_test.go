package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
)

func TestBrowsable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, address, want string }{
		{"loopback", "http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"every IPv4 address", "http://0.0.0.0:8080", "http://127.0.0.1:8080"},
		{"every address", "http://[::]:8080", "http://127.0.0.1:8080"},
		{"an admin address", "tcp://127.0.0.1:8082", "http://127.0.0.1:8082"},
		{"an admin address everywhere", "tcp://[::]:8082", "http://127.0.0.1:8082"},
		{"IPv6 loopback", "tcp://[::1]:8082", "http://[::1]:8082"},
		{"another machine's name", "http://mesh.example:80", "http://mesh.example:80"},
		{"a socket", "unix:///run/kvmesh.sock", "unix:///run/kvmesh.sock"},
		{"nothing", "", ""},
		{"no address", "http://%zz", "http://%zz"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, browsable(row.address))
		})
	}
}

func TestWaitsFor(t *testing.T) {
	t.Parallel()
	part := func(name, why string) lifecycle.NotReady { return lifecycle.NotReady{Name: name, Why: why} }
	for _, row := range []struct {
		name  string
		parts []lifecycle.NotReady
		want  string
	}{
		{"none", nil, "waiting for the last part"},
		{"one", []lifecycle.NotReady{part("gateway", "no worker")}, "waiting for gateway: no worker"},
		{
			"several",
			[]lifecycle.NotReady{part("tokenizer", "no files"), part("scheduler", "not yet"), part("gateway", "not yet")},
			"waiting for tokenizer: no files; 2 more follow",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, waitsFor(row.parts))
		})
	}
}
