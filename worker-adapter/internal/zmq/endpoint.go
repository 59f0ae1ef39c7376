package zmq

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// dialTimeout bounds one attempt to connect.
	dialTimeout = 3 * time.Second
	// keepAlive finds peers that vanished without closing, within about a minute.
	keepAlive = 15 * time.Second
)

// split takes an endpoint apart: network for package net, and address.
func split(endpoint string) (network, address string, err error) {
	scheme, rest, ok := strings.Cut(endpoint, "://")
	switch {
	case ok && scheme == "tcp" && rest != "":
		if _, _, err := net.SplitHostPort(rest); err != nil {
			return "", "", fmt.Errorf("endpoint %q: %w", endpoint, err)
		}
		return "tcp", rest, nil
	case ok && scheme == "ipc" && rest != "":
		return "unix", rest, nil
	}
	return "", "", fmt.Errorf("endpoint %q: want tcp://host:port or ipc:///path", endpoint)
}

// Check says whether an endpoint can be used.
func Check(endpoint string) error {
	_, _, err := split(endpoint)
	return err
}

// ForRank is the endpoint of a data-parallel rank: vLLM adds the rank to the port and uses it for nothing but tcp.
func ForRank(endpoint string, rank int) (string, error) {
	network, address, err := split(endpoint)
	if err != nil || rank == 0 {
		return endpoint, err
	}
	if network != "tcp" {
		return "", fmt.Errorf("endpoint %q: only tcp has a port per rank", endpoint)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("endpoint %q: %w", endpoint, err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", fmt.Errorf("endpoint %q: port: %w", endpoint, err)
	}
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(n+rank)), nil
}

// Reach turns the endpoint that a worker was given into one that can be connected to from here: a wildcard host becomes
// the worker's own host.
func Reach(endpoint, host string) string {
	network, address, err := split(endpoint)
	if err != nil || network != "tcp" {
		return endpoint
	}
	h, port, err := net.SplitHostPort(address)
	if err != nil || h != "*" && h != "" && h != "::" && h != "0.0.0.0" {
		return endpoint
	}
	return "tcp://" + net.JoinHostPort(host, port)
}

// Binds says whether vLLM's publisher binds this endpoint. It does for a wildcard or an IPv6 colon pair in the text and
// for ipc; with anything else, 0.0.0.0 included, it connects, and a subscriber that connects too never hears it.
func Binds(endpoint string) bool {
	return strings.Contains(endpoint, "*") || strings.Contains(endpoint, "::") ||
		strings.HasPrefix(endpoint, "ipc://") || strings.HasPrefix(endpoint, "inproc://")
}

// dial connects and performs the handshake.
func dial(ctx context.Context, endpoint, socketType string) (*conn, error) {
	network, address, err := split(endpoint)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	nc, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	c, err := open(nc, socketType)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("connect to %s: %w", endpoint, err)
	}
	return c, nil
}
