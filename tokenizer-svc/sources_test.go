package tokenizersvc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
)

// TestModelsFromEverywhere loads the demo model from a folder, a cache folder, a cache root and a hub: equal hashes.
func TestModelsFromEverywhere(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	folder := filepath.Join(cache, "models--org--demo")
	snapshot := filepath.Join(folder, "snapshots", "abc123")
	require.NoError(t, os.MkdirAll(snapshot, 0o755))
	copyDemo(t, snapshot, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "refs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "refs", "main"), []byte("abc123"), 0o600))
	b := start(t, func(c *tokenizersvc.Config) {
		c.Models = append(c.Models,
			tokenizersvc.ModelConfig{Name: "cache folder", Path: folder},
			tokenizersvc.ModelConfig{Name: "org/demo", Path: cache, Revision: "main"},
			tokenizersvc.ModelConfig{Name: "hub", Hub: "org/demo"},
		)
		c.Hub.Address = demoHub(t)
		c.Hub.CacheDir = t.TempDir()
	})
	want := b.encode(t, chat).GetTokenIds()
	for _, name := range []string{"cache folder", "org/demo", "hub"} {
		resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{
			Model: name, Text: []byte(chat), WantTokenIds: true,
		})
		require.NoError(t, err, name)
		require.Equal(t, want, resp.GetTokenIds(), name)
		require.NotEqual(t, b.encode(t, chat).GetUnitHashes(), resp.GetUnitHashes(), "the model's name enters the hashes")
	}
}

// worker serves the demo model's tokenizer as a worker does; without other services it is one that was started so.
func worker(t *testing.T, demo *bench) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model   string `json:"model"`
			Prompt  string `json:"prompt"`
			Special bool   `json:"add_special_tokens"`
		}
		if r.URL.Path != "/tokenize" || json.NewDecoder(r.Body).Decode(&q) != nil {
			http.NotFound(w, r)
			return
		}
		resp, err := demo.client.Encode(r.Context(), &tokenizerv1.EncodeRequest{
			Model: "demo", Text: []byte(q.Prompt), AddSpecialTokens: q.Special, WantTokenIds: true,
		})
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"count": len(resp.GetTokenIds()), "tokens": resp.GetTokenIds()})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestModelOfAWorker: without files a model's ids come from its worker, hashed as any others. A worker that does not
// tokenise is refused with what to do, and asked again.
func TestModelOfAWorker(t *testing.T) {
	t.Parallel()
	demo := start(t, nil)
	silent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(silent.Close)
	b := start(t, func(c *tokenizersvc.Config) {
		c.Models = append(c.Models,
			tokenizersvc.ModelConfig{Name: "served", Worker: worker(t, demo)},
			tokenizersvc.ModelConfig{Name: "silent", Worker: silent.URL},
		)
	})
	for _, special := range []bool{false, true} {
		resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{
			Model: "served", Text: []byte(chat), AddSpecialTokens: special, WantTokenIds: true,
		})
		require.NoError(t, err)
		require.Equal(t, b.encode(t, chat).GetTokenIds(), resp.GetTokenIds())
		root := kvblock.Namespace{Model: "served"}.Root()
		require.Equal(t, kvblock.AppendUnits(nil, root, resp.GetTokenIds(), ""), resp.GetUnitHashes())
	}
	_, err := b.client.HashTokens(t.Context(), &tokenizerv1.HashTokensRequest{Model: "served", TokenIds: []uint32{1 << 31}})
	require.NoError(t, err, "the size of the vocabulary is the worker's to know")
	_, err = b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: "silent", Text: []byte("x")})
	require.Equal(t, faultv1.Reason_REASON_TOKENIZER_FAILED, fault.ReasonOf(err))
	models, err := b.client.ListModels(t.Context(), &tokenizerv1.ListModelsRequest{})
	require.NoError(t, err)
	engines := map[string]string{}
	for _, m := range models.GetModels() {
		engines[m.GetModel()] = m.GetEngine()
		if m.GetModel() == "silent" {
			require.Contains(t, m.GetDetail(), "give the model's folder")
		}
	}
	require.Equal(t, "worker", engines["served"])
}

// demoHub serves the demo model as a hub does and returns the address.
func demoHub(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/models/org/demo/revision/main" {
			fmt.Fprint(w, `{"sha":"c0ffee","siblings":[{"rfilename":"tokenizer.json"},{"rfilename":"config.json"}]}`)
			return
		}
		data, err := os.ReadFile(filepath.Join(fixture.Demo(t), filepath.Base(r.URL.Path)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		sum := sha256.Sum256(data)
		w.Header().Set("Etag", `"`+hex.EncodeToString(sum[:])+`"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestOverTCP sends a long prompt through a real socket: same ids as in memory.
func TestOverTCP(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	server := kittest.Serve(t, rpc.ServerConfig{Address: "tcp://127.0.0.1:0"}, rpc.ServerDeps{}, b.service.Register)
	client := tokenizerv1.NewTokenizerServiceClient(kittest.Dial(t, server.Addr(), nil))
	text := strings.Repeat(chat, 50)
	resp, err := client.Encode(t.Context(), &tokenizerv1.EncodeRequest{
		Model: "demo", Text: []byte(text), WantTokenIds: true,
	})
	require.NoError(t, err)
	require.Equal(t, b.encode(t, text).GetTokenIds(), resp.GetTokenIds())
}

// lockedBuffer is a log's output.
type lockedBuffer struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// TestNothingTellsThePrompt looks for a prompt's words in log, metrics and errors of all methods.
func TestNothingTellsThePrompt(t *testing.T) {
	t.Parallel()
	const secret = "Rumpelstiltskin"
	log, registry := &lockedBuffer{}, prometheus.NewRegistry()
	cfg := defaults()
	cfg.Models = []tokenizersvc.ModelConfig{{Name: "demo", Path: fixture.Demo(t)}}
	cfg.AuditEvery, cfg.MaxRunBytes = 1, 1024
	s, err := tokenizersvc.New(t.Context(), cfg, tokenizersvc.Deps{
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Registerer: registry,
	})
	require.NoError(t, err)
	ctx, cancel := newContext(t)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	kittest.Eventually(t, func() error { return s.Ready(ctx) })
	_, err = s.Encode(ctx, &tokenizerv1.EncodeRequest{
		Model: "demo", Text: []byte(secret + chat), Salting: &tokenizerv1.Salting{CacheSalt: secret},
	})
	require.NoError(t, err)
	var said strings.Builder
	for _, text := range []string{strings.Repeat(secret, 1000), secret + strings.Repeat(" ", 5000)} {
		_, err = s.Encode(ctx, &tokenizerv1.EncodeRequest{Model: "demo", Text: []byte(text)})
		require.Error(t, err)
		said.WriteString(err.Error())
	}
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		said.WriteString(family.String())
	}
	cancel()
	require.NoError(t, kittest.Recv(t, done))
	said.WriteString(log.String())
	require.Contains(t, said.String(), "tokenizer loaded")
	require.NotContains(t, said.String(), secret)
}

// TestStopWhileModelsLoad ends a service whose models have not loaded yet.
func TestStopWhileModelsLoad(t *testing.T) {
	t.Parallel()
	cfg := defaults()
	cfg.Models = []tokenizersvc.ModelConfig{{Name: "demo", Path: fixture.Demo(t)}}
	s, err := tokenizersvc.New(t.Context(), cfg, tokenizersvc.Deps{
		Log: kittest.Logger(t), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	require.ErrorContains(t, s.Ready(t.Context()), "loading: demo")
	ctx, cancel := newContext(t)
	cancel()
	require.NoError(t, s.Run(ctx))
	_, err = s.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: "demo", Text: []byte("x")})
	require.ErrorContains(t, err, "loading")
}
