// Package rest is the REST edge: grpc-gateway's routes and typed decoding around it, OpenAI's manners in it. A request's
// call is in its context; the client stream that grpc-gateway reads drives the service, whose sends go straight to the
// http.ResponseWriter. Bytes are not touched on the way.
package rest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/inbound"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// call is one HTTP request on its way through grpc-gateway. It is a reply.Writer.
type call struct {
	w     http.ResponseWriter
	flush interface{ FlushError() error }
	conn  *gathered // nil where writes cannot be joined
	in    *inbound.Call
	wrote bool
	plain bool // the length is known: nothing to flush
	sse   bool
	body  *body
	later func() error // the relay, which runs when grpc-gateway's frames have returned
}

func (c *call) postpone(rest func() error) { c.later = rest }

var _ reply.Writer = (*call)(nil)

// errGone is a client that takes nothing any more.
var errGone = fault.New(faultv1.Reason_REASON_CANCELLED, "The client went away.")

// Head writes status and headers.
func (c *call) Head(h *reply.Head) error {
	if c.wrote {
		return errors.New("head was sent already")
	}
	c.wrote = true
	out := c.w.Header()
	for _, f := range h.Header {
		k := http.CanonicalHeaderKey(f.Name)
		out[k] = append(out[k], f.Value)
	}
	out["Content-Type"] = nil // net/http would guess one where the worker gave none
	if h.ContentType != "" {
		out["Content-Type"] = []string{h.ContentType}
	}
	if h.Length >= 0 {
		c.plain = true
		out["Content-Length"] = []string{strconv.FormatInt(h.Length, 10)}
	} else {
		c.sse = strings.HasPrefix(h.ContentType, "text/event-stream")
		if c.sse && out["Cache-Control"] == nil {
			out["Cache-Control"] = []string{"no-cache"}
		}
		if len(h.Trailers) > 0 {
			out["Trailer"] = h.Trailers
		}
	}
	c.in.Record.Status = h.Status
	c.w.WriteHeader(h.Status)
	return nil
}

// Data writes and, for streams, flushes.
func (c *call) Data(p []byte) error {
	if c.conn == nil || len(p) <= gatherAbove {
		return c.data(p)
	}
	c.conn.gather()
	err := c.data(p)
	if c.conn.release() != nil {
		return errGone
	}
	return err
}

func (c *call) data(p []byte) error {
	if len(p) > 0 {
		if _, err := c.w.Write(p); err != nil {
			return errGone
		}
	}
	if c.plain {
		return nil
	}
	if c.flush.FlushError() != nil {
		return errGone
	}
	return nil
}

// Trailer sets a trailer that the head announced.
func (c *call) Trailer(name, value string) { c.w.Header().Set(name, value) }

// fail answers with the fault: as a response while none has begun, as an event in a stream, and by cutting the
// connection in a plain answer, which must not look whole. A client that went away is answered in the same way: one that
// only closed its own direction still reads, and what net/http would send by itself is an empty 200.
func (c *call) fail(err error) {
	f := openai.NewFailure(err)
	rec := c.in.Record
	rec.Reason = reasonWord(f.Reason)
	if cause := errors.Unwrap(fault.From(err)); cause != nil {
		rec.Cause = cause
	}
	if f.Reason == faultv1.Reason_REASON_CANCELLED {
		rec.Status = openai.StatusClientClosed
	}
	switch {
	case !c.wrote:
		c.write(f)
	case c.sse:
		if c.in.Anthropic {
			_ = c.Data(f.AnthropicEvent())
			return
		}
		_ = c.Data(f.Event())
	default:
		panic(http.ErrAbortHandler)
	}
}

// write sends a failure as the whole response.
func (c *call) write(f openai.Failure) {
	c.wrote = true
	h := c.w.Header()
	if f.RetryAfterSeconds > 0 {
		h.Set("Retry-After", f.RetryAfter())
	}
	if f.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="kvmesh"`)
	}
	body := f.Body
	if c.in.Anthropic {
		body = f.AnthropicBody()
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.in.Record.Status = f.Status
	c.w.WriteHeader(f.Status)
	_, _ = c.w.Write(body)
}

// reasonWord is a reason as logs and metrics spell it.
func reasonWord(r fault.Reason) string {
	return strings.ToLower(strings.TrimPrefix(r.String(), "REASON_"))
}
