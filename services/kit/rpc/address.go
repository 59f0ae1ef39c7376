package rpc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Schemes of addresses.
const (
	SchemeMem  = "mem"
	SchemeUnix = "unix"
	SchemeTCP  = "tcp"
)

// Address is where a server listens and a client dials: "mem://scheduler", "unix:///run/kvmesh/s.sock",
// "tcp://127.0.0.1:8081". Port 0 takes a free port.
type Address struct {
	// Scheme is one of the Scheme constants.
	Scheme string
	// Rest is the name, the path or host:port.
	Rest string
}

// String is the address as it is written in configurations.
func (a Address) String() string { return a.Scheme + "://" + a.Rest }

// ParseAddress reads an address and says what is wrong with it.
func ParseAddress(s string) (Address, error) {
	scheme, rest, ok := strings.Cut(s, "://")
	a := Address{Scheme: scheme, Rest: rest}
	switch {
	case !ok:
		return a, fmt.Errorf("address %q has no scheme; write mem://name, unix:///path or tcp://host:port", s)
	case rest == "":
		return a, fmt.Errorf("address %q has nothing after its scheme", s)
	case scheme == SchemeMem || scheme == SchemeUnix:
		return a, nil
	case scheme != SchemeTCP:
		return a, fmt.Errorf("address %q has the unknown scheme %q; use mem, unix or tcp", s, scheme)
	}
	if _, _, err := net.SplitHostPort(rest); err != nil {
		return a, fmt.Errorf("address %q: %w", s, err)
	}
	return a, nil
}

// Listen opens a tcp:// or unix:// address, for gRPC, REST and admin servers alike. An address that is in use is an
// UNAVAILABLE fault that names it. A socket file that nobody listens on any more is replaced.
func Listen(address string) (net.Listener, error) {
	a, err := ParseAddress(address)
	if err != nil {
		return nil, err
	}
	if a.Scheme == SchemeMem {
		return nil, fmt.Errorf("address %q is in memory; only gRPC can be served there", address)
	}
	if a.Scheme == SchemeUnix {
		removeDeadSocket(a.Rest)
	}
	lis, err := net.Listen(a.Scheme, a.Rest)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err,
			"the address %s is taken by another process; stop that process or configure another address", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return lis, nil
}

// removeDeadSocket deletes path if it is a socket that refuses connections, as a killed process leaves it.
func removeDeadSocket(path string) {
	info, err := os.Stat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	c, err := net.DialTimeout(SchemeUnix, path, time.Second)
	if err == nil {
		_ = c.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // a failure shows itself in the Listen that follows
	}
}

// boundAddress is what clients dial to reach lis.
func boundAddress(lis net.Listener) string {
	return lis.Addr().Network() + "://" + lis.Addr().String()
}
