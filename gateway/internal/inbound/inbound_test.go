package inbound

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/metadata"

	"github.com/kvmesh/kvmesh/gateway/internal/flight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func call(h http.Header) *Call { return &Call{Record: &flight.Record{ID: "id-1"}, Header: h} }

// lines reads encoded header lines.
func lines(t *testing.T, b []byte) http.Header {
	t.Helper()
	out := http.Header{}
	for l := range strings.SplitSeq(strings.TrimSuffix(string(b), "\r\n"), "\r\n") {
		name, value, ok := strings.Cut(l, ": ")
		require.True(t, ok, l)
		out.Add(name, value)
	}
	return out
}

func TestOutgoing(t *testing.T) {
	t.Parallel()
	in := http.Header{
		"Connection": {"keep-alive, X-Hop", "x-other"}, "X-Hop": {"1"}, "X-Other": {"1"}, "Keep-Alive": {"1"}, "Te": {"trailers"}, "Upgrade": {"h2c"},
		"Transfer-Encoding": {"chunked"}, "Proxy-Authorization": {"p"}, "Authorization": {"Bearer client"}, "Cookie": {"c"}, "X-Api-Key": {"k"},
		"Content-Length": {"5"}, "Content-Type": {"text/x"}, "Host": {"h"}, "Accept-Encoding": {"gzip"}, "Expect": {"100-continue"},
		"X-Request-Id": {"other"}, "X-Kvmesh-Worker": {"forged"}, "X-Data-Parallel-Rank": {"3"}, "X-Request-Timeout": {"3"}, "Origin": {"o"},
		"X-Tenant": {"blue", "green"}, "Traceparent": {"00-x"}, "X-Vllm-Priority": {"4"}, "User-Agent": {"u"}, "X-Session-Id": {"s"},
	}
	rows := []struct {
		name   string
		policy Policy
		auth   []string
	}{
		{"nothing", Policy{}, nil},
		{"passed", Policy{PassAuthorization: true}, []string{"Bearer client"}},
		{"replaced", Policy{WorkerKey: "worker", PassAuthorization: true}, []string{"Bearer worker"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := lines(t, row.policy.Outgoing(call(in), "application/json"))
			want := http.Header{
				"Content-Type": {"application/json"}, "X-Request-Id": {"id-1"}, "X-Tenant": {"blue", "green"}, "Traceparent": {"00-x"},
				"X-Vllm-Priority": {"4"}, "User-Agent": {"u"}, "X-Session-Id": {"s"},
			}
			if row.auth != nil {
				want["Authorization"] = row.auth
			}
			require.Equal(t, want, got)
		})
	}
	require.NotContains(t, string(Policy{}.Outgoing(call(http.Header{}), "")), "Content-Type")
}

func TestReturns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Server", "date", "Connection", "Keep-Alive", "Transfer-Encoding", "content-length", "X-Kvmesh-Worker", "Access-Control-Allow-Origin", "x-request-id"} {
		require.False(t, Returns(name), name)
	}
	for _, name := range []string{"Retry-After", "x-engine-note", "Content-Encoding", "Set-Cookie", "endpoint-load-metrics"} {
		require.True(t, Returns(name), name)
	}
}

// TestMetadataRoundTrip: what a REST edge sends over gRPC is what its own process would have seen.
func TestMetadataRoundTrip(t *testing.T) {
	t.Parallel()
	c := call(http.Header{
		"Authorization": {"Bearer k"}, "X-Tenant": {"a", "b"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-Odd": {"schüssel"}, "Accept": {"*/*"},
		"X!Odd": {"gRPC carries no such name"},
	})
	c.PathModel, c.Query = "m", "stream=true&x=%20"
	md := c.Metadata()
	for k, vs := range md {
		require.Equal(t, strings.ToLower(k), k)
		for _, v := range vs {
			require.True(t, printable(v))
		}
	}
	back := FromMetadata(metadata.NewIncomingContext(context.Background(), md))
	require.Equal(t, "m", back.PathModel)
	require.Equal(t, "stream=true&x=%20", back.PlainQuery())
	require.Equal(t, http.Header{
		"Authorization": {"Bearer k"}, "X-Tenant": {"a", "b"}, "Accept": {"*/*"}, "X-Request-Id": {"id-1"},
	}, back.Header)
}

func TestDirectCallersMetadata(t *testing.T) {
	t.Parallel()
	md := metadata.Pairs("authorization", "Bearer k", "x-request-id", "r", "user-agent", "grpc-go", "traceparent", "t", "content-type", "application/grpc")
	c := FromMetadata(metadata.NewIncomingContext(context.Background(), md))
	require.Equal(t, http.Header{"Authorization": {"Bearer k"}, "X-Request-Id": {"r"}, "Traceparent": {"t"}}, c.Header)
	require.Empty(t, FromMetadata(context.Background()).Header)
}

// TestBinaryMetadataStaysBehind: gRPC decodes the values of names that end with -bin to any bytes, which could end a header
// line, and with it the head of the worker's request.
func TestBinaryMetadataStaysBehind(t *testing.T) {
	t.Parallel()
	evil := "a\r\nAuthorization: Bearer forged\r\n\r\nPOST /sleep HTTP/1.1"
	md := metadata.Pairs("x-note-bin", evil, "x-fwd-x-other-bin", evil, "x-note", "kept", "x-fwd-x-text-bin", "kept")
	c := FromMetadata(metadata.NewIncomingContext(context.Background(), md))
	require.Equal(t, http.Header{"X-Note": {"kept"}, "X-Text-Bin": {"kept"}}, c.Header)
}

func TestPlainQuery(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"":                       "",
		"stream=true&include[]=": "stream=true&include[]=",
		"a=%20%0A":               "a=%20%0A",
		"a b":                    "",
		"a HTTP/1.1\r\nX: y":     "",
		"a#b":                    "",
		"a=ü":                    "",
	} {
		require.Equal(t, want, (&Call{Query: query}).PlainQuery(), query)
	}
}

func TestPlainID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "A-1_.:", strings.Repeat("x", 128)} {
		require.True(t, PlainID(id), id)
	}
	for _, id := range []string{"", "a b", "a\n", "ü", `"`, strings.Repeat("x", 129)} {
		require.False(t, PlainID(id), id)
	}
}

func TestListed(t *testing.T) {
	t.Parallel()
	require.True(t, Listed("close, X-Hop ,x-other", "x-hop"))
	require.True(t, Listed("x-hop", "X-Hop"))
	require.False(t, Listed("X-Hop-Count", "X-Hop"), "a part of a name is another name")
	require.False(t, Listed("keep-alive", "Alive"))
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	rows := []struct {
		text string
		want time.Duration
		bad  bool
	}{
		{"", 0, false},
		{"30", 30 * time.Second, false},
		{"1.5", 1500 * time.Millisecond, false},
		{"500ms", 500 * time.Millisecond, false},
		{"1e-12", 1, false},
		{"2m", 2 * time.Minute, false},
		{"0", 0, true},
		{"-1", 0, true},
		{"soon", 0, true},
		{"1e9", 0, true},
		{"NaN", 0, true},
		{"-5s", 0, true},
	}
	for _, row := range rows {
		d, err := call(http.Header{TimeoutHeader: {row.text}}).Timeout()
		require.Equal(t, row.bad, err != nil, row.text)
		require.Equal(t, row.want, d, row.text)
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	require.Nil(t, From(context.Background()))
	c := call(nil)
	require.Same(t, c, From(With(context.Background(), c)))
}
