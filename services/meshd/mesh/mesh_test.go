package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// demo is the configuration of `make up`, on ports of its own.
func demo(t *testing.T) Config {
	t.Helper()
	cfg, err := Load(conf.Source{
		Path:    filepath.Join(root(t), "deploy", "config", "demo.yaml"),
		Environ: []string{"MODEL_PATH=" + filepath.Join(root(t), "deploy", "demo-model")},
		Sets: []string{
			"gateway.address=127.0.0.1:0", "gateway.server.address=mem://gateway", "mesh.admin.address=tcp://127.0.0.1:0",
		},
	})
	require.NoError(t, err)
	return cfg
}

func start(t *testing.T, cfg Config) *Mesh {
	t.Helper()
	m, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, m.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, m.Stop(ctx))
	})
	return m
}

func TestDemoAnswers(t *testing.T) {
	m := start(t, demo(t))
	body, _ := json.Marshal(map[string]any{
		"model": "kvmesh/demo", "max_tokens": 8,
		"messages": []map[string]string{{"role": "user", "content": "Hello"}},
	})
	resp, err := http.Post(m.URL(t.Context())+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	t.Logf("%d %v %s", resp.StatusCode, resp.Header, text)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
