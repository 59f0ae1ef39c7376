package obs

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// maxReadinessBytes bounds the answer that CheckReady reads.
const maxReadinessBytes = 64 << 10

// CheckReady asks the admin server at address for its readiness: nil, or an error that lists what is not ready or says
// that nobody answers. It is what health subcommands run.
func CheckReady(ctx context.Context, address string) error {
	a, err := rpc.ParseAddress(address)
	if err != nil {
		return err
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, a.Scheme, reachable(a))
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin/readyz", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return fmt.Errorf("nobody answers at %s: %w", address, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var body Readiness
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReadinessBytes)).Decode(&body); err != nil {
		return fmt.Errorf("%s answers, but not as an admin server does: %w", address, err)
	}
	if body.Ready {
		return nil
	}
	var why []string
	for _, n := range body.NotReady {
		why = append(why, n.Name+": "+n.Why)
	}
	return fmt.Errorf("not ready: %s", strings.Join(why, "; "))
}

// reachable replaces "all interfaces", which is no place to dial, by this machine.
func reachable(a rpc.Address) string {
	host, port, err := net.SplitHostPort(a.Rest)
	if a.Scheme != rpc.SchemeTCP || err != nil {
		return a.Rest
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return a.Rest
}
