package tokenizersvc_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
)

// load reads a file as a binary does: strictly, then defaults and validation.
func load(t *testing.T, text string, environ, sets []string) (tokenizersvc.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvmesh.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	var cfg tokenizersvc.Config
	err := conf.LoadSections(conf.Source{Path: path, Environ: environ, Sets: sets}, conf.Section{Key: "tokenizer", Into: &cfg})
	return cfg, err
}

func TestConfigurationFile(t *testing.T) {
	t.Parallel()
	got, err := load(t, `
tokenizer:
  engine: reference
  parallel: 3
  audit_every: -1
  segment_cache_bytes: 128MiB
  no_segment_cache: true
  max_text_bytes: 4MiB
  max_run_bytes: 64KiB
  reload_interval: 30s
  hub:
    address: https://mirror.example
    token: ${HUB_TOKEN}
    cache_dir: /var/cache/models
    timeout: 1m
  models:
    - {name: demo, path: deploy/demo-model}
    - {name: org/model, hub: org/model, revision: v1}
`, []string{"HUB_TOKEN=t0p", "KVMESH_TOKENIZER_FAST_THREADS=9"}, []string{"tokenizer.parallel=5"})
	require.NoError(t, err)
	want := defaults()
	want.Engine, want.Parallel, want.FastThreads, want.AuditEvery = "reference", 5, 9, -1
	want.SegmentCacheBytes, want.NoSegmentCache = 128*conf.MiB, true
	want.MaxTextBytes, want.MaxRunBytes, want.ReloadInterval = 4*conf.MiB, 64*conf.KiB, 30*time.Second
	want.Hub = tokenizersvc.HubConfig{
		Address: "https://mirror.example", Token: "t0p", CacheDir: "/var/cache/models", Timeout: time.Minute,
	}
	want.Models = []tokenizersvc.ModelConfig{
		{Name: "demo", Path: "deploy/demo-model"}, {Name: "org/model", Hub: "org/model", Revision: "v1"},
	}
	require.Empty(t, cmp.Diff(want, got))
}

func TestConfigurationFaults(t *testing.T) {
	t.Parallel()
	rows := []struct{ name, text, says string }{
		{"unknown key", "tokenizer: {modells: []}", "models"},
		{"unknown key of a model", "tokenizer: {models: [{name: a, pfad: x}]}", "pfad"},
		{"no model source", "tokenizer: {models: [{name: a}]}", "tokenizer.models[0]"},
		{"two model sources", "tokenizer: {models: [{name: a, path: x, hub: y}]}", "set one of path, hub and worker"},
		{"engine", "tokenizer: {engine: quick}", "tokenizer.engine"},
		{"size", "tokenizer: {max_text_bytes: lots}", "max_text_bytes"},
		{"address", "tokenizer: {hub: {address: nowhere}}", "tokenizer.hub.address"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, row.text, nil, nil)
			require.ErrorContains(t, err, row.says)
		})
	}
}

func TestTheTokenIsNotDumped(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.Hub.Token = "t0p-secret"
	text, err := conf.Dump(conf.Section{Key: "tokenizer", Into: &cfg})
	require.NoError(t, err)
	require.Contains(t, string(text), "cache_dir")
	require.NotContains(t, string(text), "t0p-secret")
}
