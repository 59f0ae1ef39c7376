package rest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/admit"
	"github.com/kvmesh/kvmesh/gateway/internal/flight"
	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
)

// Config is the edge's part of the gateway's configuration.
type Config struct {
	// MaxBodyBytes bounds a request body.
	MaxBodyBytes int64
	// Origins is what browsers may call from; "*" is everywhere, empty nowhere.
	Origins []string
}

// Deps is what the edge stands on.
type Deps struct {
	// Conn leads to the services: a Conn in this process, or a Pump.
	Conn grpc.ClientConnInterface
	// Keys checks callers; nil leaves that to the service behind the connection.
	Keys *admit.Keys
	// Telemetry takes finished records.
	Telemetry *flight.Telemetry
	// Clock is the time of day.
	Clock func() time.Time
	// Healthy tells whether a request could be served now; the error says why not.
	Healthy func(ctx context.Context) error
	// Ready tells whether new work is wanted here.
	Ready func(ctx context.Context) error
	// OpenAPI makes the document of the REST operations.
	OpenAPI func() ([]byte, error)
}

// Edge is the HTTP handler.
type Edge struct {
	cfg    Config
	deps   Deps
	mux    *runtime.ServeMux
	routes []route
	server []string
}

// New builds the handler.
func New(ctx context.Context, cfg Config, deps Deps) (*Edge, error) {
	e := &Edge{cfg: cfg, deps: deps, routes: routes(), server: []string{"kvmesh"}}
	none := func(string) (string, bool) { return "", false }
	e.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithIncomingHeaderMatcher(none),
		runtime.WithOutgoingHeaderMatcher(none),
		runtime.WithOutgoingTrailerMatcher(none),
		runtime.WithErrorHandler(e.failed),
		runtime.WithRoutingErrorHandler(e.unrouted),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisableChunkedEncoding(),
	)
	if err := gatewayv1.RegisterMeshServiceHandlerClient(ctx, e.mux, gatewayv1.NewMeshServiceClient(deps.Conn)); err != nil {
		return nil, err
	}
	// Last, because the mux tries the latest route first.
	if err := gatewayv1.RegisterOpenAIServiceHandlerClient(ctx, e.mux, gatewayv1.NewOpenAIServiceClient(deps.Conn)); err != nil {
		return nil, err
	}
	return e, nil
}

// ServeHTTP is one request's life at the edge.
func (e *Edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &flight.Record{ID: requestID(r.Header), Operation: "none", Start: e.deps.Clock()}
	in := &inbound.Call{Record: rec, Header: r.Header}
	c := &call{w: w, in: in, conn: connOf(r.Context())}
	in.Context, in.Writer, in.Later = r.Context(), c, c.postpone
	c.flush, _ = w.(interface{ FlushError() error })
	h := w.Header()
	h["Server"] = e.server
	h["X-Request-Id"] = []string{rec.ID}
	// As at vLLM, whose framework redirects such an address to the one without.
	if p := r.URL.Path; len(p) > 1 && p[len(p)-1] == '/' {
		r.URL.Path, r.URL.RawPath = p[:len(p)-1], strings.TrimSuffix(r.URL.RawPath, "/")
	}
	e.deps.Telemetry.Begin()
	defer e.deps.Telemetry.Done(rec)
	if e.cors(w, r, rec) || e.fixed(c, r) {
		return
	}
	if err := e.guard(c, r); err != nil {
		c.fail(err)
		return
	}
	r = r.WithContext(inbound.With(r.Context(), in))
	// Of these grpc-gateway would make metadata that nobody reads.
	r.Host, r.RemoteAddr = "", ""
	if c.body != nil {
		r.Body = c.body
	}
	e.mux.ServeHTTP(w, r)
	if c.later != nil {
		c.body = nil
		if err := c.later(); err != nil {
			c.fail(err)
		}
	}
}

// guard refuses what must not reach grpc-gateway, in the order of what costs least.
func (e *Edge) guard(c *call, r *http.Request) error {
	r.Header.Del("Grpc-Timeout")
	r.URL.Path, c.in.PathModel = oldPath(r.URL)
	c.in.Query = r.URL.RawQuery
	c.in.Anthropic = strings.HasPrefix(r.URL.Path, "/v1/messages")
	if e.deps.Keys != nil {
		caller, err := e.deps.Keys.Check(r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"))
		if err != nil {
			return err
		}
		if err := caller.Allow(e.deps.Clock()); err != nil {
			return err
		}
		c.in.Caller, c.in.Record.Tenant = caller, caller.Name
	}
	found, allowed := e.find(r.Method, r.URL.Path)
	switch {
	case found == nil && len(allowed) > 0:
		c.w.Header().Set("Allow", strings.Join(allowed, ", "))
		return fault.New(faultv1.Reason_REASON_METHOD_NOT_ALLOWED, "This path takes %s.", strings.Join(allowed, ", "))
	case found == nil:
		return fault.New(faultv1.Reason_REASON_NOT_FOUND, "There is no such path.")
	case !found.body:
		return nil
	}
	return e.guardBody(c, r, found)
}

// guardBody checks the content type and wraps the body.
func (e *Edge) guardBody(c *call, r *http.Request, found *route) error {
	kind := r.Header.Get("Content-Type")
	want := "application/json"
	if found.form {
		want = "multipart/form-data"
	}
	if kind != want {
		base, _, err := mime.ParseMediaType(kind)
		if err != nil || base != want {
			return fault.New(faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE, "The content type must be %s.", want)
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fault.New(faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE, "The body must not have a content encoding.").
			WithParam("content-encoding")
	}
	patient := newPatience(c.w, r.Body, bodySilence)
	c.body = &body{ReadCloser: patient, length: r.ContentLength, limit: e.cfg.MaxBodyBytes, kind: kind}
	if c.body.length > c.body.limit {
		_ = c.body.tooLarge()
		c.w.Header().Set("Connection", "close")
		return c.body.fault
	}
	c.in.Record.BytesIn = int(max(0, r.ContentLength))
	return nil
}

// failed is grpc-gateway's error handler: decode errors and refusals before the service ran.
func (e *Edge) failed(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, err error,
) {
	c := callOf(r.Context())
	if c == nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	if c.body != nil && c.body.fault != nil {
		err = c.body.fault
		if fault.ReasonOf(err) == faultv1.Reason_REASON_TOO_LARGE {
			w.Header().Set("Connection", "close")
		}
	}
	c.fail(err)
}

// unrouted is grpc-gateway's handler for paths that the guard let through and it does not know.
func (e *Edge) unrouted(ctx context.Context, m *runtime.ServeMux, mr runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, _ int,
) {
	e.failed(ctx, m, mr, w, r, fault.New(faultv1.Reason_REASON_NOT_FOUND, "There is no such path."))
}

// requestID takes the client's id when it is plain, else makes one.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-ID"); inbound.PlainID(id) {
		return id
	}
	return NewID()
}

// NewID is a fresh request id: 128 random bits in hexadecimal.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
