package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/kvmesh/kvmesh/gateway/internal/reply"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// Pump makes a REST edge out of a connection to a gateway in another process: every message it receives goes straight to
// the HTTP response.
type Pump struct {
	grpc.ClientConnInterface
}

// NewStream begins a call. The client's header lines travel as metadata.
func (p Pump) NewStream(ctx context.Context, d *grpc.StreamDesc, name string, opts ...grpc.CallOption) (
	grpc.ClientStream, error,
) {
	c := callOf(ctx)
	md := c.in.Metadata()
	s, err := p.ClientConnInterface.NewStream(metadata.NewOutgoingContext(ctx, md), d, name, opts...)
	if err != nil {
		return nil, err
	}
	return &pumped{ClientStream: s, call: c}, nil
}

type pumped struct {
	grpc.ClientStream
	call *call
}

// Header returns at once.
func (s *pumped) Header() (metadata.MD, error) { return nil, nil }

// RecvMsg passes everything on and returns io.EOF.
func (s *pumped) RecvMsg(any) error {
	for {
		b := &httpbody.HttpBody{}
		err := s.ClientStream.RecvMsg(b)
		if err == nil {
			err = s.pass(b)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			trailersOf(s.call, s.Trailer())
			return io.EOF
		default:
			s.call.fail(err)
			return io.EOF
		}
	}
}

// pass writes one message; the first one's header metadata is the head.
func (s *pumped) pass(b *httpbody.HttpBody) error {
	if !s.call.wrote {
		md, err := s.ClientStream.Header()
		if err != nil {
			return err
		}
		h := headOf(md)
		if err := s.call.Head(&h); err != nil {
			return err
		}
	}
	return s.call.Data(b.GetData())
}

// headOf reads a head from metadata.
func headOf(md metadata.MD) reply.Head {
	h := reply.Head{Status: http.StatusOK, Length: -1, ContentType: first(md, reply.TypeKey)}
	if n, err := strconv.Atoi(first(md, reply.StatusKey)); err == nil {
		h.Status = n
	}
	if n, err := strconv.ParseInt(first(md, reply.LengthKey), 10, 64); err == nil {
		h.Length = n
	}
	for k, values := range md {
		name, ok := strings.CutPrefix(k, reply.FieldPrefix)
		for _, v := range values {
			if ok {
				h.Header = append(h.Header, wire.Field{Name: name, Value: v})
			}
		}
	}
	if h.Length < 0 {
		h.Trailers = []string{cachedTrailer}
	}
	return h
}

// cachedTrailer is the one trailer that streams have.
const cachedTrailer = "X-Kvmesh-Cached-Tokens"

func trailersOf(c *call, md metadata.MD) {
	for k, values := range md {
		if name, ok := strings.CutPrefix(k, reply.FieldPrefix); ok && len(values) > 0 {
			c.Trailer(name, values[0])
		}
	}
}

func first(md metadata.MD, key string) string {
	if v := md[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}
