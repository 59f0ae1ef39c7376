package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// body is a request's body with what the decoder must know about it.
type body struct {
	io.ReadCloser
	length int64
	limit  int64
	kind   string // content type
	fault  error  // why it could not be read
}

// bodySilence is how long a client may send nothing while its body is awaited. A client that stops in the middle would
// otherwise hold its connection, and a stop of the gateway, for as long as it likes.
const bodySilence = 30 * time.Second

// patience reads a request's body with a deadline per read. After a read that went well the deadline is taken back, since
// the server goes on reading to notice that a client leaves; after one that did not it stays, so that the server does not
// wait for the rest either and closes the connection.
type patience struct {
	io.ReadCloser
	control interface{ SetReadDeadline(at time.Time) error }
	silence time.Duration
}

// newPatience reads the body of w's request; net/http's own writer is asked without its controller.
func newPatience(w http.ResponseWriter, body io.ReadCloser, silence time.Duration) patience {
	p := patience{ReadCloser: body, silence: silence}
	var ok bool
	if p.control, ok = w.(interface{ SetReadDeadline(at time.Time) error }); !ok {
		p.control = http.NewResponseController(w)
	}
	return p
}

// Read waits for at most the silence. Connections without deadlines (tests) wait as they do.
func (p patience) Read(buf []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(p.silence))
	n, err := p.ReadCloser.Read(buf)
	if err == nil || errors.Is(err, io.EOF) {
		_ = p.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// errNoBody is what the decoder tells grpc-gateway; the fault is in the body.
var errNoBody = errors.New("the body could not be read")

// read takes the whole body into one buffer.
func (b *body) read() ([]byte, error) {
	if b.length > b.limit {
		return nil, b.tooLarge()
	}
	if b.length >= 0 {
		buf := make([]byte, b.length)
		if _, err := io.ReadFull(b.ReadCloser, buf); err != nil {
			return nil, b.cut(err)
		}
		return buf, nil
	}
	buf, err := io.ReadAll(io.LimitReader(b.ReadCloser, b.limit+1))
	switch {
	case err != nil:
		return nil, b.cut(err)
	case int64(len(buf)) > b.limit:
		return nil, b.tooLarge()
	}
	return buf, nil
}

func (b *body) tooLarge() error {
	b.fault = fault.New(faultv1.Reason_REASON_TOO_LARGE, "The body is larger than the limit of %d bytes.", b.limit)
	return errNoBody
}

func (b *body) cut(err error) error {
	b.fault = fault.Wrap(faultv1.Reason_REASON_INVALID_REQUEST, err, "The body ended early.")
	return errNoBody
}

// marshaler keeps the client's bytes: decoding reads the body once and puts it into the request as it is; the service
// scans it. Nothing is ever marshalled, because answers are bytes already.
type marshaler struct{}

var _ runtime.Marshaler = marshaler{}

// ContentType is not used: heads carry their own.
func (marshaler) ContentType(any) string { return "application/json" }

// Marshal refuses.
func (marshaler) Marshal(v any) ([]byte, error) { return nil, fmt.Errorf("the edge marshals no %T", v) }

// Unmarshal refuses.
func (marshaler) Unmarshal([]byte, any) error { return errNoBody }

// NewEncoder refuses.
func (m marshaler) NewEncoder(io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error { _, err := m.Marshal(v); return err })
}

// NewDecoder reads the body that the guard wrapped.
func (marshaler) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		if !ok {
			return errNoBody
		}
		raw, err := b.read()
		if err != nil {
			return err
		}
		if len(raw) == 0 {
			b.fault = fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "The body is empty; it must be a JSON object.")
			return errNoBody
		}
		switch q := v.(type) {
		case *gatewayv1.ChatCompletionsRequest:
			q.RawJson = raw
		case *gatewayv1.CompletionsRequest:
			q.RawJson = raw
		case *gatewayv1.EmbeddingsRequest:
			q.RawJson = raw
		case *gatewayv1.JSONRequest:
			q.RawJson = raw
		case *gatewayv1.FormRequest:
			q.Form, q.ContentType = raw, b.kind
		default:
			return fmt.Errorf("no body is read into %T", v)
		}
		return nil
	})
}
