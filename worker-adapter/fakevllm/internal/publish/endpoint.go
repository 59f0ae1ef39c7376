package publish

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Binds tells whether vLLM's publisher would bind the endpoint. It binds only what contains "*" or "::" or begins with
// "ipc://" or "inproc://", and connects everything else: tcp://0.0.0.0:5557 and tcp://127.0.0.1:5557 therefore publish
// to nobody. The replay socket always binds.
func Binds(endpoint string) bool {
	return strings.Contains(endpoint, "*") || strings.Contains(endpoint, "::") ||
		strings.HasPrefix(endpoint, "ipc://") || strings.HasPrefix(endpoint, "inproc://")
}

// ForRank moves a TCP port by the data-parallel rank; port 0 stays 0. Other transports serve rank 0 only.
func ForRank(endpoint string, rank int) (string, error) {
	if endpoint == "" || rank == 0 {
		return endpoint, nil
	}
	head, port, err := splitPort(endpoint)
	if err != nil {
		return "", fmt.Errorf("endpoint %q of rank %d: must contain 'inproc' or 'tcp'", endpoint, rank)
	}
	if port != 0 {
		port += rank
	}
	return head + ":" + strconv.Itoa(port), nil
}

// CheckEndpoint says what is wrong with an endpoint, nil if nothing.
func CheckEndpoint(endpoint string) error {
	_, _, err := dialAddr(endpoint)
	return err
}

// splitPort takes a TCP endpoint apart; "*" as port is 0.
func splitPort(endpoint string) (head string, port int, err error) {
	i := strings.LastIndexByte(endpoint, ':')
	if !strings.HasPrefix(endpoint, "tcp://") || i < len("tcp://") {
		return "", 0, fmt.Errorf("endpoint %q: want tcp://host:port", endpoint)
	}
	text := endpoint[i+1:]
	if text == "*" {
		text = "0"
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("endpoint %q: port %q is no number from 0 to 65535", endpoint, text)
	}
	return endpoint[:i], port, nil
}

// dialAddr turns an endpoint into Go's network and address; "*" is every IPv4 interface.
func dialAddr(endpoint string) (network, addr string, err error) {
	if path, ok := strings.CutPrefix(endpoint, "ipc://"); ok && path != "" {
		return "unix", path, nil
	}
	head, port, err := splitPort(endpoint)
	if err != nil {
		return "", "", err
	}
	host := strings.TrimPrefix(head, "tcp://")
	if host == "*" {
		host = "0.0.0.0"
	}
	host = strings.Trim(host, "[]")
	return "tcp", net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// bindAt narrows every IPv4 interface to one.
func bindAt(addr, host string) string {
	if port, ok := strings.CutPrefix(addr, "0.0.0.0:"); ok && host != "" {
		return net.JoinHostPort(host, port)
	}
	return addr
}

// resolve writes the port that was really bound into the endpoint, whose host stays as configured.
func resolve(endpoint string, l net.Listener) string {
	tcp, ok := l.Addr().(*net.TCPAddr)
	head, _, err := splitPort(endpoint)
	if !ok || err != nil {
		return endpoint
	}
	return head + ":" + strconv.Itoa(tcp.Port)
}
