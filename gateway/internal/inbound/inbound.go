// Package inbound is a request as it came in, whichever door it took: the REST edge puts it into the context, gRPC
// callers' metadata is read into the same form.
package inbound

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// Call is one request's frame. It is written by the door that made it and read by the service.
type Call struct {
	// Record is the request's log line in the making.
	Record *flight.Record
	// Header is the client's header lines, names in any case.
	Header http.Header
	// Caller is who sends it; nil when nobody has checked yet.
	Caller *admit.Caller
	// PathModel is the model named by an old style path, empty for none.
	PathModel string
	// Query is the client's query as it stands in its address, empty for none.
	Query string
	// Writer is the edge's own, when the edge is in this process; nil for gRPC callers.
	Writer reply.Writer
	// Context is the request's own: it outlives the frames of the edge. Set together with Later.
	Context context.Context
	// Later takes the rest of the call, to be run when the edge's own frames have returned; nil where there is no edge.
	Later func(rest func() error)
	// Anthropic tells that errors must also fit Anthropic's object.
	Anthropic bool
}

type key struct{}

// With puts a call into a context.
func With(ctx context.Context, c *Call) context.Context { return context.WithValue(ctx, key{}, c) }

// From is the context's call, nil without one.
func From(ctx context.Context) *Call {
	c, _ := ctx.Value(key{}).(*Call)
	return c
}

// FieldPrefix precedes the names of a REST client's header lines in the metadata of a real gRPC call.
const FieldPrefix = "x-fwd-"

// PathModelKey carries PathModel over real gRPC, QueryKey Query.
const (
	PathModelKey = "x-path-model"
	QueryKey     = "x-path-query"
)

// maxIDBytes bounds a client's request id.
const maxIDBytes = 128

// PlainID tells whether a client's id may be used in headers, logs and receipts.
func PlainID(id string) bool {
	if id == "" || len(id) > maxIDBytes {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.', c == ':':
		default:
			return false
		}
	}
	return true
}

// Metadata is the call for a gateway behind a real gRPC connection. Connection-bound lines and values that gRPC cannot
// carry stay behind.
func (c *Call) Metadata() metadata.MD {
	md := metadata.MD{}
	connection := c.Header["Connection"]
	for k, values := range c.Header {
		if k == "Connection" || listed(connection, k) || !keyName(k) {
			continue
		}
		for _, v := range values {
			if printable(v) {
				md.Append(FieldPrefix+k, v)
			}
		}
	}
	md[FieldPrefix+"x-request-id"] = []string{c.Record.ID}
	if c.PathModel != "" && printable(c.PathModel) {
		md[PathModelKey] = []string{c.PathModel}
	}
	if q := c.PlainQuery(); q != "" {
		md[QueryKey] = []string{q}
	}
	return md
}

// keyName tells whether gRPC may carry a header line of this name.
func keyName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// printable tells whether gRPC may carry a value.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

func allPrintable(values []string) bool {
	for _, v := range values {
		if !printable(v) {
			return false
		}
	}
	return true
}

// PlainQuery is Query where it can stand in a request line as it is, else empty.
func (c *Call) PlainQuery() string {
	if !printable(c.Query) || strings.ContainsAny(c.Query, " #") {
		return ""
	}
	return c.Query
}

// FromMetadata reads a gRPC caller's metadata: lines that a REST edge forwards come with FieldPrefix; of a direct
// caller's keys the authorization, the trace context and everything that begins with "x-" count. Values of names that end
// with "-bin" may be any bytes: what could end a header line and begin others stays behind.
func FromMetadata(ctx context.Context) *Call {
	md, _ := metadata.FromIncomingContext(ctx)
	c := &Call{Header: http.Header{}}
	for name, values := range md {
		switch {
		case strings.HasSuffix(name, "-bin") && !allPrintable(values):
		case name == PathModelKey:
			c.PathModel = values[0]
		case name == QueryKey:
			c.Query = values[0]
		case strings.HasPrefix(name, FieldPrefix):
			c.Header[http.CanonicalHeaderKey(name[len(FieldPrefix):])] = values
		case name == "authorization", name == "traceparent", name == "tracestate", strings.HasPrefix(name, "x-"):
			k := http.CanonicalHeaderKey(name)
			if _, ok := c.Header[k]; !ok {
				c.Header[k] = values
			}
		}
	}
	return c
}

// Get is the first value of a header line; name is in canonical form.
func (c *Call) Get(name string) string {
	if v := c.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// TimeoutHeader carries the client's own limit.
const TimeoutHeader = "X-Request-Timeout"

// Timeout is the client's limit: seconds ("30", "1.5") or a duration with a unit ("500ms"); 0 when it gave none. Fault:
// INVALID_REQUEST.
func (c *Call) Timeout() (time.Duration, error) {
	text := c.Get(TimeoutHeader)
	if text == "" {
		return 0, nil
	}
	if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 1e6 {
		return max(1, time.Duration(s*float64(time.Second))), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return d, nil
	}
	return 0, fault.New(faultv1.Reason_REASON_INVALID_REQUEST,
		"The header 'x-request-timeout' must be seconds or a duration such as 500ms.").WithParam("x-request-timeout")
}
