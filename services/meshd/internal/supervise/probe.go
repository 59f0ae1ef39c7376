package supervise

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/obs"
)

// probeLimit bounds one look.
const probeLimit = time.Second

// probe asks an admin address for readiness, or whether a port accepts connections.
func probe(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if strings.Contains(address, "://") {
		return obs.CheckReady(ctx, address)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
