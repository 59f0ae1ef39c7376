package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a telemetry with a clock that stands still and a log that can be read.
func bench(level slog.Level) (*Telemetry, *bytes.Buffer, *prometheus.Registry) {
	var out bytes.Buffer
	reg := prometheus.NewRegistry()
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level}))
	return New(log, reg, func() time.Time { return time.Unix(100, 0) }), &out, reg
}

func record(status int) *Record {
	return &Record{ID: "id-1", Operation: "chat_completions", Start: time.Unix(98, 0), Status: status, Model: "m", Stream: true, BytesIn: 12}
}

func TestOneLinePerRequest(t *testing.T) {
	t.Parallel()
	tel, out, _ := bench(slog.LevelInfo)
	r := record(200)
	r.Tenant = "team-a"
	r.Add(Counts{
		Worker: "w1", Rank: 2, Policy: "cost", Certainty: "fallback", CertaintyReason: "media", Attempts: 2, PromptTokens: 9, PredictedTokens: 4,
		CachedTokens: 3, OutputTokens: 7, TTFT: 5 * time.Millisecond, Queued: 8 * time.Millisecond, Held: 9 * time.Millisecond,
	})
	tel.Begin()
	tel.Done(r)
	require.Equal(t, 1, bytes.Count(out.Bytes(), []byte("\n")))
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	for k, want := range map[string]any{
		"request_id": "id-1", "operation": "chat_completions", "status": 200.0, "model": "m", "worker": "w1", "rank": 2.0, "attempts": 2.0,
		"duration_ms": 2000.0, "ttft_ms": 5.0, "cached_tokens": 3.0, "predicted_hit_tokens": 4.0, "tenant": "team-a", "level": "INFO",
		"certainty": "fallback", "certainty_reason": "media",
		"queued_ms": 8.0, "scheduler_queued_ms": 9.0,
	} {
		require.Equal(t, want, line[k], k)
	}
}

func TestServerFaultsAreWarnings(t *testing.T) {
	t.Parallel()
	tel, out, _ := bench(slog.LevelWarn)
	tel.Done(record(404))
	require.Zero(t, out.Len())
	r := record(502)
	r.Reason, r.Cause = "worker_failed", errors.New("connection reset")
	tel.Done(r)
	require.Contains(t, out.String(), `"fault":"worker_failed"`)
	require.Contains(t, out.String(), `"cause":"connection reset"`)
}

func TestPromptsAreSummed(t *testing.T) {
	t.Parallel()
	r := record(200)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			r.Add(Counts{Worker: "w", Attempts: 1, PromptTokens: 2, OutputTokens: 1, TTFT: time.Duration(i), Prepare: time.Duration(i), Queued: time.Duration(i), Held: time.Duration(2 * i)})
		})
	}
	wg.Wait()
	require.Equal(t, 50, r.Prompts)
	require.EqualValues(t, 100, r.PromptTokens)
	require.EqualValues(t, 49, r.TTFT)
	require.EqualValues(t, 49, r.Queued)
	require.EqualValues(t, 98, r.Held)
}

// series counts the time series of a registry.
func series(t *testing.T, reg *prometheus.Registry) int {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	n := 0
	for _, f := range families {
		n += len(f.GetMetric())
	}
	return n
}

// TestClientsCannotMakeSeries: model names, tenants, ids and workers are no labels.
func TestClientsCannotMakeSeries(t *testing.T) {
	t.Parallel()
	tel, _, reg := bench(slog.LevelError)
	one := func(s string) {
		r := record(404)
		r.ID, r.Model, r.Tenant = s, s, s
		r.Add(Counts{Worker: s, Policy: s, PromptTokens: 1})
		tel.Begin()
		tel.Done(r)
		tel.Routed("exact", "")
		tel.Attempted("ok")
		tel.Skipped("slow")
	}
	one("first")
	before := series(t, reg)
	for i := range 1000 {
		one(time.Duration(i).String())
	}
	require.Equal(t, before, series(t, reg))
}

func TestGauges(t *testing.T) {
	t.Parallel()
	tel, _, reg := bench(slog.LevelError)
	tel.Begin()
	tel.Queued(2)
	tel.Queued(-1)
	tel.FleetAge(1500 * time.Millisecond)
	families, err := reg.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if g := f.GetMetric()[0].GetGauge(); g != nil {
			values[f.GetName()] = g.GetValue()
		}
	}
	require.Equal(t, map[string]float64{
		"kvmesh_gateway_inflight_requests": 1, "kvmesh_gateway_queued_requests": 1, "kvmesh_gateway_fleet_view_age_seconds": 1.5,
	}, values)
}

func TestContext(t *testing.T) {
	t.Parallel()
	require.Nil(t, From(context.Background()))
	r := record(200)
	require.Same(t, r, From(With(context.Background(), r)))
}
