package rpc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	_ "google.golang.org/grpc/health" // registers the client side of health checking, which the service config asks for
	"google.golang.org/grpc/keepalive"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Conn is a connection that generated clients take.
type Conn interface {
	grpc.ClientConnInterface
	// Close ends the connection. Calls that run over a wire are cancelled, calls in memory finish.
	Close() error
}

// ClientConfig is what a caller may set about a connection. The zero value is usable.
type ClientConfig struct {
	// Timeout is the deadline of unary calls that have none; 0 leaves them without. Streams get none.
	Timeout time.Duration `yaml:"timeout" doc:"deadline of unary calls that the caller gave none"`
	// WaitForReady makes calls wait for a server that is away instead of failing with UNAVAILABLE.
	WaitForReady bool `yaml:"wait_for_ready" doc:"wait for a server that is away instead of failing at once"`
	// TLS is used for tcp:// if it is enabled.
	TLS ClientTLS `yaml:"tls" doc:"TLS towards tcp:// servers"`
	// MaxRecv bounds one received message; 0 means 64 MiB.
	MaxRecv conf.Bytes `yaml:"max_recv" doc:"largest message that is received"`
	// Metadata are keys of the caller's outgoing metadata that travel, beside the request id and the trace.
	Metadata []string `yaml:"-"`
}

// SetDefaults fills what is zero.
func (c *ClientConfig) SetDefaults() {
	if c.MaxRecv == 0 {
		c.MaxRecv = DefaultMaxRecv
	}
}

// Validate reports everything that is wrong.
func (c *ClientConfig) Validate() error {
	var f conf.Faults
	f.Require(c.Timeout >= 0, "timeout", "must not be negative")
	f.Require(c.MaxRecv >= 0, "max_recv", "must not be negative")
	f.Under("tls", c.TLS.Validate())
	return f.Err()
}

// ClientDeps is what a connection needs from its process.
type ClientDeps struct {
	// Network finds mem:// names; it may be nil for other schemes.
	Network *Network
	// Log gets connection trouble; nil for none.
	Log *slog.Logger
}

// keepalive: a peer that vanished without closing (a pulled cable, a frozen VM) is noticed within 40 s.
const (
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// reconnect: a service that restarts is away for less than a second, and its callers must not wait longer than that
// for what is back. gRPC's own first pause is a second, its longest two minutes.
const (
	reconnectFirst = 50 * time.Millisecond
	reconnectLast  = 250 * time.Millisecond
	// connectLimit bounds one attempt: a machine that is gone answers nothing.
	connectLimit = 5 * time.Second
)

// reconnecting are the pauses between attempts to connect, with gRPC's own growth and jitter.
func reconnecting() grpc.ConnectParams {
	pauses := backoff.DefaultConfig
	pauses.BaseDelay, pauses.MaxDelay = reconnectFirst, reconnectLast
	return grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: connectLimit}
}

// serviceConfig balances over all addresses of a name and leaves out those whose health says no. gRPC's own retries are
// off: whether a call may go to another worker is the gateway's decision.
const serviceConfig = `{"loadBalancingConfig":[{"round_robin":{}}],"healthCheckConfig":{"serviceName":""}}`

// Dial makes a connection to an address. It does not wait for the server. Errors of calls are *fault.Error.
func Dial(target string, cfg ClientConfig, deps ClientDeps) (Conn, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	a, err := ParseAddress(target)
	if err != nil {
		return nil, err
	}
	prep := newPreparer(cfg)
	if a.Scheme == SchemeMem {
		if deps.Network == nil {
			return nil, fmt.Errorf("dial %s: mem:// works only inside one process; use tcp:// or unix://", target)
		}
		return &memConn{slot: deps.Network.slot(a.Rest), prep: prep, wait: cfg.WaitForReady}, nil
	}
	creds, err := cfg.TLS.credentials(a.Scheme)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	conn, err := grpc.NewClient(grpcTarget(a),
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithDisableServiceConfig(),
		grpc.WithDisableRetry(),
		grpc.WithConnectParams(reconnecting()),
		grpc.WithUnaryInterceptor(prep.unary),
		grpc.WithStreamInterceptor(prep.stream),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveTime, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithDefaultCallOptions(
			grpc.WaitForReady(cfg.WaitForReady),
			grpc.ForceCodecV2(newCodec()),
			grpc.MaxCallRecvMsgSize(int(cfg.MaxRecv)),
			grpc.MaxCallSendMsgSize(int(cfg.MaxRecv)),
		),
	)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target, err)
	}
	return conn, nil
}

// grpcTarget is the address in gRPC's own notation; names with several addresses are balanced over.
func grpcTarget(a Address) string {
	if a.Scheme == SchemeUnix {
		return "unix:" + a.Rest
	}
	return "dns:///" + a.Rest
}

// faultStream turns a stream's errors into faults.
type faultStream struct{ grpc.ClientStream }

func (s faultStream) RecvMsg(m any) error { return streamFault(s.ClientStream.RecvMsg(m)) }

func (s faultStream) SendMsg(m any) error { return streamFault(s.ClientStream.SendMsg(m)) }

// streamFault leaves io.EOF alone: it is the ordinary end.
func streamFault(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fault.From(err)
}
