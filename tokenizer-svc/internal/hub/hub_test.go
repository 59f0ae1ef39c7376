package hub_test

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hub"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/source"
)

const (
	commit = "0123456789abcdef0123456789abcdef01234567"
	token  = "secret-token"
)

// stand is a hub with one model, large files on a storage server of its own.
type stand struct {
	hub, storage *httptest.Server

	mu       sync.Mutex
	small    map[string]string
	large    map[string]string
	private  bool
	breakAt  int
	corrupt  bool
	noRanges bool
	requests []string
	leaked   bool
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{
		small: map[string]string{"tokenizer_config.json": `{"a":1}`, "config.json": `{}`, "README.md": "not wanted"},
		large: map[string]string{"tokenizer.json": strings.Repeat("0123456789", 5000)},
	}
	s.hub = httptest.NewServer(http.HandlerFunc(s.serveHub))
	s.storage = httptest.NewServer(http.HandlerFunc(s.serveStorage))
	t.Cleanup(s.hub.Close)
	t.Cleanup(s.storage.Close)
	return s
}

func (s *stand) serveHub(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+r.Header.Get("Range"))
	if s.private && r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.URL.Path == "/api/models/org/model/revision/main" {
		type sibling struct {
			Name string `json:"rfilename"`
		}
		var siblings []sibling
		for name := range s.small {
			siblings = append(siblings, sibling{name})
		}
		for name := range s.large {
			siblings = append(siblings, sibling{name})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"sha": commit, "siblings": siblings})
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/org/model/resolve/"+commit+"/")
	if !ok {
		http.NotFound(w, r)
		return
	}
	if content, ok := s.large[name]; ok {
		sum := sha256.Sum256([]byte(content))
		w.Header().Set("X-Linked-Etag", `"`+hex.EncodeToString(sum[:])+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
		http.Redirect(w, r, s.storage.URL+"/"+name, http.StatusFound)
		return
	}
	content := s.small[name]
	sum := sha1.Sum([]byte(fmt.Sprintf("blob %d\x00%s", len(content), content)))
	w.Header().Set("Etag", `W/"`+hex.EncodeToString(sum[:])+`"`)
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

// serveStorage gives large files. breakAt ends the connection after that many bytes, once.
func (s *stand) serveStorage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, "STORAGE "+r.URL.Path+" "+r.Header.Get("Range"))
	s.leaked = s.leaked || r.Header.Get("Authorization") != ""
	content := s.large[strings.TrimPrefix(r.URL.Path, "/")]
	if s.corrupt {
		content = strings.ToUpper(strings.ReplaceAll(content, "0", "x"))
		s.corrupt = false
	}
	if s.noRanges {
		r.Header.Del("Range")
	}
	if s.breakAt > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write([]byte(content[:s.breakAt]))
		s.breakAt = 0
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

func (s *stand) seen(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if strings.Contains(r, part) {
			return true
		}
	}
	return false
}

func (s *stand) client(t *testing.T, cache, token string) *hub.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return hub.New(hub.Config{
		Address: s.hub.URL + "/", Token: token, CacheDir: cache,
		Files: []string{"tokenizer.json", "tokenizer_config.json", "config.json", "tiktoken.model"},
	}, transport)
}

// requireFiles checks a fetched directory and that the cache folder is one that source understands.
func requireFiles(t *testing.T, s *stand, cache, dir string) {
	t.Helper()
	for name, content := range map[string]string{
		"tokenizer.json": s.large["tokenizer.json"], "tokenizer_config.json": s.small["tokenizer_config.json"], "config.json": "{}",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, content, string(got), name)
	}
	require.NoFileExists(t, filepath.Join(dir, "README.md"))
	found, err := source.Directory(cache, "org/model", "")
	require.NoError(t, err)
	require.Equal(t, dir, found)
	left, err := filepath.Glob(filepath.Join(cache, "*", "blobs", "*.incomplete"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFetch(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name    string
		prepare func(s *stand)
		token   string
		seen    string
	}{
		{name: "public model", seen: "STORAGE /tokenizer.json"},
		{name: "with a token", prepare: func(s *stand) { s.private = true }, token: token},
		{name: "connection breaks", prepare: func(s *stand) { s.breakAt = 12345 }, seen: "bytes="},
		{name: "storage without ranges", prepare: func(s *stand) { s.breakAt, s.noRanges = 12345, true }, seen: "bytes="},
		{name: "wrong bytes once", prepare: func(s *stand) { s.corrupt = true }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s, cache := newStand(t), t.TempDir()
			if row.prepare != nil {
				row.prepare(s)
			}
			dir, err := s.client(t, cache, row.token).Fetch(t.Context(), "org/model", "")
			require.NoError(t, err)
			requireFiles(t, s, cache, dir)
			require.True(t, s.seen(row.seen), "requests: %v", s.requests)
			require.False(t, s.leaked, "the token went to the storage server")
		})
	}
}

func TestSecondFetchDownloadsNothing(t *testing.T) {
	t.Parallel()
	s, cache := newStand(t), t.TempDir()
	_, err := s.client(t, cache, "").Fetch(t.Context(), "org/model", "main")
	require.NoError(t, err)
	s.requests = nil
	dir, err := s.client(t, cache, "").Fetch(t.Context(), "org/model", "main")
	require.NoError(t, err)
	requireFiles(t, s, cache, dir)
	require.Len(t, s.requests, 1, "only the model's revision is asked for: %v", s.requests)
}

func TestInterruptedDownloadGoesOnLater(t *testing.T) {
	t.Parallel()
	s, cache := newStand(t), t.TempDir()
	content := s.large["tokenizer.json"]
	sum := sha256.Sum256([]byte(content))
	blobs := filepath.Join(cache, source.CacheFolder("org/model"), "blobs")
	require.NoError(t, os.MkdirAll(blobs, 0o755))
	partial := filepath.Join(blobs, hex.EncodeToString(sum[:])+".incomplete")
	require.NoError(t, os.WriteFile(partial, []byte(content[:40_000]), 0o600))
	dir, err := s.client(t, cache, "").Fetch(t.Context(), "org/model", "")
	require.NoError(t, err)
	requireFiles(t, s, cache, dir)
	require.True(t, s.seen("bytes=40000-"))
}

func TestCacheServesWhenTheHubIsAway(t *testing.T) {
	t.Parallel()
	s, cache := newStand(t), t.TempDir()
	client := s.client(t, cache, "")
	want, err := client.Fetch(t.Context(), "org/model", "")
	require.NoError(t, err)
	s.hub.Close()
	got, err := client.Fetch(t.Context(), "org/model", "")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = s.client(t, t.TempDir(), "").Fetch(t.Context(), "org/model", "")
	require.Error(t, err)
}

func TestFetchFails(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, model, revision, token string
		prepare                      func(s *stand)
		is                           error
		says                         string
	}{
		{name: "unknown model", model: "org/other", is: hub.ErrNotFound},
		{name: "unknown revision", model: "org/model", revision: "v2", is: hub.ErrNotFound},
		{name: "private without a token", model: "org/model", prepare: func(s *stand) { s.private = true }, is: hub.ErrDenied},
		{name: "wrong token", model: "org/model", token: "other", prepare: func(s *stand) { s.private = true }, is: hub.ErrDenied},
		{name: "none of the files", model: "org/model", prepare: func(s *stand) { s.small, s.large = nil, nil }, is: hub.ErrNotFound},
		{name: "path as a model", model: "../../etc", says: "no model name"},
		{name: "path as a revision", model: "org/model", revision: "../x", says: "no model name"},
		{name: "never the announced bytes", model: "org/model", says: "checksum", prepare: func(s *stand) {
			s.storage.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(strings.Repeat("x", 50_000)))
			})
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t)
			if row.prepare != nil {
				row.prepare(s)
			}
			_, err := s.client(t, t.TempDir(), row.token).Fetch(t.Context(), row.model, row.revision)
			require.ErrorContains(t, err, row.says)
			require.NotContains(t, err.Error(), token)
			if row.is != nil {
				require.ErrorIs(t, err, row.is)
			}
		})
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.client(t, t.TempDir(), "").Fetch(ctx, "org/model", "")
	require.ErrorIs(t, err, context.Canceled)
}
