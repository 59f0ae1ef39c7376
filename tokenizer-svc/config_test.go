package tokenizersvc_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
)

func defaults() tokenizersvc.Config {
	var c tokenizersvc.Config
	c.SetDefaults()
	return c
}

func TestDefaultsAreValid(t *testing.T) {
	t.Parallel()
	c := defaults()
	require.NoError(t, c.Validate())
	require.Equal(t, "auto", c.Engine)
	require.Positive(t, c.AuditEvery)
	require.Positive(t, c.SegmentCacheBytes)
	again := c
	again.SetDefaults()
	require.Equal(t, c, again)
}

func TestDefaultsKeepWhatIsSet(t *testing.T) {
	t.Parallel()
	c := tokenizersvc.Config{Engine: "reference", Parallel: 7, ReloadInterval: time.Hour}
	c.SetDefaults()
	require.Equal(t, "reference", c.Engine)
	require.Equal(t, 7, c.Parallel)
	require.Equal(t, time.Hour, c.ReloadInterval)
}

func TestValidateNamesEveryFault(t *testing.T) {
	t.Parallel()
	c := tokenizersvc.Config{
		Engine: "best", FastThreads: 1, AuditEvery: -2, MaxRunBytes: 5,
		Hub: tokenizersvc.HubConfig{Address: "ftp://hub"},
		Models: []tokenizersvc.ModelConfig{
			{Path: "x"}, {Name: "a"}, {Name: "a", Path: "x", Hub: "y"}, {Name: "w", Worker: "host:8000", Transformers: 3}, {Name: "v", Worker: "http://h", Hub: "y"},
		},
	}
	err := c.Validate()
	for _, path := range []string{
		"engine", "fast_threads", "parallel", "audit_every", "max_text_bytes", "max_reference_text_bytes", "max_run_bytes",
		"hub.address", "hub.cache_dir", "models[0].name", "models[1]", "models[2].name", "models[2]",
		"models[3].worker", "models[3].transformers", "models[4]",
	} {
		require.ErrorContains(t, err, path)
	}
	_, err = tokenizersvc.New(t.Context(), c, tokenizersvc.Deps{Log: kittest.Logger(t), Registerer: prometheus.NewRegistry()})
	require.ErrorContains(t, err, "tokenizer configuration")
}

func TestMetricsAreRegisteredOnce(t *testing.T) {
	t.Parallel()
	registerer := prometheus.NewRegistry()
	deps := tokenizersvc.Deps{Log: kittest.Logger(t), Registerer: registerer}
	_, err := tokenizersvc.New(t.Context(), defaults(), deps)
	require.NoError(t, err)
	_, err = tokenizersvc.New(t.Context(), defaults(), deps)
	require.ErrorContains(t, err, "register tokenizer metrics")
	_, err = tokenizersvc.New(t.Context(), defaults(), tokenizersvc.Deps{
		Log: kittest.Logger(t), Registerer: prometheus.WrapRegistererWith(prometheus.Labels{"copy": "2"}, prometheus.NewRegistry()),
	})
	require.NoError(t, err, "two copies fit in one process")
}
