package obs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace/noop"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/lifecycle"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

func TestLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := obs.NewLogger(obs.LogConfig{Level: "warn", Format: "json"}, &out, "gateway")
	log.Info("quiet")
	log.Warn("loud", "n", 1)
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	require.Equal(t, "gateway", line["service"])
	require.Equal(t, "loud", line["msg"])

	out.Reset()
	grpc := obs.GRPCLogger(obs.NewLogger(obs.LogConfig{Level: "info"}, &out, "x"))
	grpc.Infof("%d", 1)
	grpc.Warning("a client left")
	require.Empty(t, out.String())
	grpc.Errorln("broken")
	require.Contains(t, out.String(), "msg=broken")
	require.Contains(t, out.String(), "level=WARN")
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, (&obs.LogConfig{Level: "loud", Format: "text"}).Validate(), "level: ")
	require.ErrorContains(t, (&obs.LogConfig{Level: "info", Format: "xml"}).Validate(), "format: ")
	require.ErrorContains(t, (&obs.TraceConfig{Ratio: 2}).Validate(), "ratio: ")
	require.ErrorContains(t, (&obs.AdminConfig{Address: "mem://x"}).Validate(), "address: ")
	require.ErrorContains(t, (&obs.AdminConfig{Address: "x"}).Validate(), "address: ")
	for _, c := range []interface {
		SetDefaults()
		Validate() error
	}{new(obs.LogConfig), new(obs.TraceConfig), new(obs.AdminConfig)} {
		c.SetDefaults()
		require.NoError(t, c.Validate())
	}
}

func TestNoTracerWithoutEndpoint(t *testing.T) {
	t.Parallel()
	p, stop, err := obs.NewTracer(t.Context(), obs.TraceConfig{}, "x")
	require.NoError(t, err)
	require.IsType(t, noop.TracerProvider{}, p)
	require.NoError(t, stop(t.Context()))
	p, stop, err = obs.NewTracer(t.Context(), obs.TraceConfig{Endpoint: "127.0.0.1:1", Insecure: true, Ratio: 1}, "x")
	require.NoError(t, err)
	_, span := p.Tracer("t").Start(t.Context(), "s")
	require.True(t, span.SpanContext().IsValid())
	require.NoError(t, stop(t.Context())) // the span has not ended, so there is nothing to send to nobody
}

// TestServicesShareARegistry: two services of one process register the same rpc metrics under their own labels.
func TestServicesShareARegistry(t *testing.T) {
	t.Parallel()
	reg := obs.NewRegistry()
	for _, service := range []string{"a", "b", "a"} {
		_, err := rpc.NewServer(rpc.ServerConfig{Address: "mem://" + service}, rpc.ServerDeps{
			Log: kittest.Logger(t), Network: rpc.NewNetwork(), Registerer: obs.ForService(reg, service),
		})
		require.NoError(t, err)
	}
	_, err := reg.Gather()
	require.NoError(t, err)
}

func startAdmin(t *testing.T, cfg obs.AdminConfig, notReady func(context.Context) []lifecycle.NotReady) *obs.Admin {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "kvmesh_test_gauge"}))
	a, err := obs.NewAdmin(cfg, obs.AdminDeps{
		Log: kittest.Logger(t), Gatherer: reg, NotReady: notReady,
		Handlers: map[string]http.Handler{"GET /kvmesh/v1/x": http.NotFoundHandler()},
	})
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, a.Stop(context.Background())) })
	return a
}

func get(t *testing.T, a *obs.Admin, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + strings.TrimPrefix(a.Addr(), "tcp://") + path)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	var ready atomic.Bool
	a := startAdmin(t, obs.AdminConfig{Address: "tcp://127.0.0.1:0"}, func(context.Context) []lifecycle.NotReady {
		if ready.Load() {
			return nil
		}
		return []lifecycle.NotReady{{Name: "tokenizer", Why: "loading m"}}
	})
	code, body := get(t, a, "/healthz")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "ok\n", body)
	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.JSONEq(t, `{"ready":false,"not_ready":[{"name":"tokenizer","why":"loading m"}]}`, body)
	require.EqualError(t, obs.CheckReady(t.Context(), a.Addr()), "not ready: tokenizer: loading m")
	ready.Store(true)
	code, body = get(t, a, "/readyz")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"ready":true,"not_ready":[]}`, body)
	require.NoError(t, obs.CheckReady(t.Context(), a.Addr()))
	_, body = get(t, a, "/metrics")
	require.Contains(t, body, "kvmesh_test_gauge 0")
	code, body = get(t, a, "/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "goroutine profile")
	code, _ = get(t, a, "/kvmesh/v1/x")
	require.Equal(t, http.StatusNotFound, code)
}

func TestAdminOnUnixSocketAndTakenAddress(t *testing.T) {
	t.Parallel()
	ready := func(context.Context) []lifecycle.NotReady { return nil }
	a := startAdmin(t, obs.AdminConfig{Address: "unix://" + filepath.Join(t.TempDir(), "s")}, ready)
	require.NoError(t, obs.CheckReady(t.Context(), a.Addr()))
	second, err := obs.NewAdmin(obs.AdminConfig{Address: a.Addr()},
		obs.AdminDeps{Log: kittest.Logger(t), Gatherer: prometheus.NewRegistry(), NotReady: ready})
	require.NoError(t, err)
	err = second.Start(t.Context())
	require.Equal(t, faultv1.Reason_REASON_UNAVAILABLE, fault.ReasonOf(err))
	require.ErrorContains(t, err, a.Addr())
	require.NoError(t, second.Stop(t.Context()))
}

func TestProfilesStayOnThisMachine(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, peer string
		remote     bool
		want       int
	}{
		{"this machine", "127.0.0.1:1", false, http.StatusOK},
		{"this machine by IPv6", "[::1]:1", false, http.StatusOK},
		{"unix socket", "@", false, http.StatusOK},
		{"another machine", "10.0.0.1:1", false, http.StatusForbidden},
		{"another machine, allowed", "10.0.0.1:1", true, http.StatusOK},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			a, err := obs.NewAdmin(obs.AdminConfig{RemoteProfiles: row.remote},
				obs.AdminDeps{Log: kittest.Logger(t), Gatherer: prometheus.NewRegistry()})
			require.NoError(t, err)
			req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/cmdline", http.NoBody)
			req.RemoteAddr = row.peer
			w := httptest.NewRecorder()
			obs.HandlerOf(a).ServeHTTP(w, req)
			require.Equal(t, row.want, w.Code)
		})
	}
}

func TestCheckReadyExplains(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, obs.CheckReady(t.Context(), "unix:///does/not/exist"), "nobody answers at unix:///does/not/exist")
	require.Error(t, obs.CheckReady(t.Context(), "x"))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hi")) }))
	defer other.Close()
	require.ErrorContains(t, obs.CheckReady(t.Context(), "tcp://"+strings.TrimPrefix(other.URL, "http://")), "not as an admin server")
}

func TestAdminStress(t *testing.T) {
	t.Parallel()
	kittest.StressStartStop(t, func() kittest.StartStopper {
		a, err := obs.NewAdmin(obs.AdminConfig{Address: "tcp://127.0.0.1:0"},
			obs.AdminDeps{Log: kittest.Logger(t), Gatherer: prometheus.NewRegistry()})
		require.NoError(t, err)
		return a
	})
}
