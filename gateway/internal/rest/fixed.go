package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// cors adds what browsers ask for and answers preflights. Credentials are not allowed: a key is sent by the page.
func (e *Edge) cors(w http.ResponseWriter, r *http.Request, rec *flight.Record) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || len(e.cfg.Origins) == 0 {
		return false
	}
	h := w.Header()
	switch {
	case slices.Contains(e.cfg.Origins, "*"):
		h.Set("Access-Control-Allow-Origin", "*")
	case slices.Contains(e.cfg.Origins, origin):
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
	default:
		return false
	}
	h.Set("Access-Control-Expose-Headers", "x-request-id, retry-after, x-kvmesh-worker, x-kvmesh-rank, x-kvmesh-policy, "+
		"x-kvmesh-certainty, x-kvmesh-predicted-hit-tokens, x-kvmesh-cached-tokens, x-kvmesh-queued-ms")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	allow := r.Header.Get("Access-Control-Request-Headers")
	if allow == "" {
		allow = "authorization, content-type"
	}
	h.Set("Access-Control-Allow-Headers", allow)
	h.Set("Access-Control-Max-Age", "600")
	rec.Operation, rec.Status = "preflight", http.StatusNoContent
	w.WriteHeader(http.StatusNoContent)
	return true
}

// fixed answers the paths that are no operations and need no key.
func (e *Edge) fixed(c *call, r *http.Request) (done bool) {
	var check func(context.Context) error
	switch r.URL.Path {
	case "/health", "/ping":
		check = e.deps.Healthy
	case "/ready":
		check = e.deps.Ready
	case "/openapi.json":
	default:
		return false
	}
	c.in.Record.Operation = flight.Probe
	allow := []string{http.MethodGet, http.MethodHead}
	if r.URL.Path == "/ping" {
		allow = append(allow, http.MethodPost) // as at vLLM, where SageMaker's probe may post
	}
	if !slices.Contains(allow, r.Method) {
		methods := strings.Join(allow, ", ")
		c.w.Header().Set("Allow", methods)
		c.fail(fault.New(faultv1.Reason_REASON_METHOD_NOT_ALLOWED, "This path takes %s.", methods))
		return true
	}
	if check == nil {
		document, err := e.deps.OpenAPI()
		if err != nil {
			c.fail(err)
			return true
		}
		_ = reply.OK(c, document)
		return true
	}
	if err := check(r.Context()); err != nil {
		c.fail(fault.Wrap(faultv1.Reason_REASON_UNAVAILABLE, err, "Not able to serve requests now."))
		return true
	}
	_ = reply.OK(c, []byte(`{"status":"ok"}`))
	return true
}
