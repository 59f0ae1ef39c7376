package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/wire"
)

// TestHeaderTellsTheRoute: kvmesh's own lines follow the worker's; what has nothing to tell has no line.
func TestHeaderTellsTheRoute(t *testing.T) {
	t.Parallel()
	route := func() *schedulerv1.RouteResponse {
		return &schedulerv1.RouteResponse{
			Target: &schedulerv1.Target{WorkerId: "w", Rank: 3}, Policy: "cost",
			Certainty: schedulerv1.Certainty_CERTAINTY_DEGRADED, PredictedHitTokens: 48,
		}
	}
	always := []wire.Field{
		{Name: "x-own", Value: "1"},
		{Name: "X-Kvmesh-Worker", Value: "w"},
		{Name: "X-Kvmesh-Rank", Value: "3"},
		{Name: "X-Kvmesh-Policy", Value: "cost"},
		{Name: "X-Kvmesh-Certainty", Value: "degraded"},
		{Name: "X-Kvmesh-Predicted-Hit-Tokens", Value: "48"},
	}
	queued := wire.Field{Name: "X-Kvmesh-Queued-Ms", Value: "120"}
	cached := wire.Field{Name: CachedHeader, Value: "0"}
	known := openai.Usage{HasCached: true}
	for name, row := range map[string]struct {
		queued uint32
		answer Answer
		more   []wire.Field
	}{
		"nothing else":                     {},
		"held while all workers were full": {queued: 120, more: []wire.Field{queued}},
		"no cached tokens are told too": {
			answer: Answer{HasUsage: true, Usage: known, want: want{single: true}}, more: []wire.Field{cached},
		},
		"cached tokens of one of many sequences mean nothing": {answer: Answer{HasUsage: true, Usage: known}},
		"the worker says nothing of its cache":                {answer: Answer{HasUsage: true, want: want{single: true}}},
		"every 503 says when to try again": {
			answer: Answer{Status: 503}, more: []wire.Field{{Name: "Retry-After", Value: "1"}},
		},
		"both": {
			queued: 120, answer: Answer{HasUsage: true, Usage: known, want: want{single: true}},
			more: []wire.Field{queued, cached},
		},
	} {
		r := route()
		r.QueuedMs = row.queued
		a := &row.answer
		a.Lease, a.header = &Lease{Route: r}, []wire.Field{{Name: "x-own", Value: "1"}}
		require.Equal(t, append(always[:len(always):len(always)], row.more...), a.Header(), name)
		require.Equal(t, time.Duration(row.queued)*time.Millisecond, a.Counts().Held, name)
	}
	said := wire.Field{Name: "Retry-After", Value: "30"}
	a := &Answer{Status: 503, Lease: &Lease{Route: route()}, header: []wire.Field{said}}
	require.Equal(t, append([]wire.Field{said}, always[1:]...), a.Header(), "the worker's own word counts")
}

// TestLinesOfAConnectionStay: Connection names lines by their whole names.
func TestLinesOfAConnectionStay(t *testing.T) {
	t.Parallel()
	w := startWorker(t, "HTTP/1.1 200 OK\r\nConnection: X-Hop-Count, x-gone\r\nX-Hop: kept\r\nX-Hop-Count: 1\r\nX-Gone: 1\r\n"+
		"Count: kept\r\nContent-Length: 2\r\n\r\n{}")
	d := dispatcher(t, &scheduler{workers: []*worker{w}})
	a, err := d.Open(context.Background(), job(t, plainDoc))
	require.NoError(t, err)
	defer a.Close(d, nil)
	h := a.Header()
	require.Equal(t, []wire.Field{{Name: "X-Hop", Value: "kept"}, {Name: "Count", Value: "kept"}}, h[:2])
	require.Equal(t, "X-Kvmesh-Worker", h[2].Name)
}
