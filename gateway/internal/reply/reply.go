// Package reply is how an operation answers: one head, then data in pieces. The REST edge's in-process stream takes it
// as it is; real gRPC streams carry the head in header metadata.
package reply

import (
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// Metadata keys that carry a head over gRPC.
const (
	// StatusKey is the HTTP status.
	StatusKey = "x-http-status"
	// LengthKey is the body's length, absent for streams.
	LengthKey = "x-http-length"
	// TypeKey is the content type, also of replies without data.
	TypeKey = "x-http-type"
	// FieldPrefix precedes the name of every other header.
	FieldPrefix = "x-http-header-"
)

// Head is everything before the data. It must not change after it was given to a Writer.
type Head struct {
	// Status is the HTTP status.
	Status int
	// ContentType is the data's type.
	ContentType string
	// Length is the data's length in bytes, -1 for a stream.
	Length int64
	// Header is all other header lines.
	Header []wire.Field
	// Trailers names the trailers that may follow a stream.
	Trailers []string
}

// Writer takes one reply. Data sends p on at once when the head has no length; p may be reused afterwards.
type Writer interface {
	Head(h *Head) error
	Data(p []byte) error
	Trailer(name, value string)
}

// Over is a writer that sends over gRPC.
func Over(s grpc.ServerStreamingServer[httpbody.HttpBody]) Writer { return &streamWriter{stream: s} }

// streamWriter sends over gRPC.
type streamWriter struct {
	stream grpc.ServerStreamingServer[httpbody.HttpBody]
	kind   string
	sent   bool
}

// Head puts the head into the header metadata; it leaves with the first message.
func (w *streamWriter) Head(h *Head) error {
	w.kind = h.ContentType
	md := metadata.MD{
		StatusKey: {strconv.Itoa(h.Status)},
		TypeKey:   {h.ContentType},
	}
	if h.Length >= 0 {
		md[LengthKey] = []string{strconv.FormatInt(h.Length, 10)}
	}
	for _, f := range h.Header {
		if printable(f.Value) {
			md.Append(FieldPrefix+f.Name, f.Value)
		}
	}
	if err := w.stream.SetHeader(md); err != nil {
		return err
	}
	if h.Length == 0 {
		return w.Data(nil)
	}
	return nil
}

// printable tells whether gRPC may carry the value.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// Data copies: an in-process transport hands messages on by reference.
func (w *streamWriter) Data(p []byte) error {
	w.sent = true
	return w.stream.Send(&httpbody.HttpBody{ContentType: w.kind, Data: slices.Clone(p)})
}

func (w *streamWriter) Trailer(name, value string) {
	w.stream.SetTrailer(metadata.Pairs(FieldPrefix+name, value))
}

// JSON answers with one JSON document.
func JSON(w Writer, status int, body []byte, header ...wire.Field) error {
	h := &Head{Status: status, ContentType: "application/json", Length: int64(len(body)), Header: header}
	if err := w.Head(h); err != nil {
		return err
	}
	return w.Data(body)
}

// OK is JSON with status 200.
func OK(w Writer, body []byte, header ...wire.Field) error {
	return JSON(w, http.StatusOK, body, header...)
}
