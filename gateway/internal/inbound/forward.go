package inbound

import (
	"net/http"
	"slices"
	"strings"
)

// Policy says what of a client's header lines reaches a worker.
type Policy struct {
	// WorkerKey is sent as the worker's own key, empty for none.
	WorkerKey string
	// PassAuthorization sends the client's Authorization on where no WorkerKey is set.
	PassAuthorization bool
}

// Outgoing encodes the header lines for a worker. Hop-by-hop lines, credentials and lines that kvmesh owns stay behind;
// all others go on as they are.
func (p Policy) Outgoing(c *Call, contentType string) []byte {
	b := make([]byte, 0, 512)
	connection := c.Header["Connection"]
	for name, values := range c.Header {
		name = canonical(name)
		if stays(name) || len(connection) > 0 && listed(connection, name) {
			continue
		}
		for _, v := range values {
			b = appendField(b, name, v)
		}
	}
	if contentType != "" {
		b = appendField(b, "Content-Type", contentType)
	}
	switch {
	case p.WorkerKey != "":
		b = append(b, "Authorization: Bearer "...)
		b = append(b, p.WorkerKey...)
		b = append(b, '\r', '\n')
	case p.PassAuthorization && c.Get("Authorization") != "":
		b = appendField(b, "Authorization", c.Get("Authorization"))
	}
	return appendField(b, "X-Request-Id", c.Record.ID)
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ':', ' ')
	b = append(b, value...)
	return append(b, '\r', '\n')
}

// canonical leaves names in Go's form alone.
func canonical(name string) string {
	if name != "" && name[0] >= 'A' && name[0] <= 'Z' {
		return name
	}
	return http.CanonicalHeaderKey(name)
}

// stays tells whether a line never goes to a worker.
func stays(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", // hop by hop
		"Proxy-Authorization", "Proxy-Authenticate", "Authorization", "X-Api-Key", "Cookie", // credentials
		"Host", "Content-Length", "Content-Type", "Accept-Encoding", "Expect", "Origin", // made anew, or ours
		"X-Request-Id", "X-Request-Timeout", "X-Data-Parallel-Rank", "Grpc-Timeout":
		return true
	}
	return strings.HasPrefix(name, "X-Kvmesh-") || strings.HasPrefix(name, "Access-Control-")
}

// listed tells whether Connection lines name the line as one of their own.
func listed(connection []string, name string) bool {
	return slices.ContainsFunc(connection, func(line string) bool { return Listed(line, name) })
}

// Listed tells whether one Connection line names another line.
func Listed(connection, name string) bool {
	for v := range strings.SplitSeq(connection, ",") {
		if strings.EqualFold(strings.TrimSpace(v), name) {
			return true
		}
	}
	return false
}

// Returns tells whether a worker's header line may reach the client.
func Returns(name string) bool {
	lower := strings.ToLower(name)
	switch lower {
	case "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
		"proxy-authenticate", "server", "date", "content-length", "content-type", "x-request-id", "alt-svc":
		return false
	}
	return !strings.HasPrefix(lower, "x-kvmesh-") && !strings.HasPrefix(lower, "access-control-")
}
