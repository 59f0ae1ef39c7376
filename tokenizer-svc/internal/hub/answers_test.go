package hub_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hub"
)

const infoPath = "/api/models/org/model/revision/main"

// answering is a hub whose every answer is one function's.
func answering(t *testing.T, answer http.HandlerFunc) *hub.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return hub.New(hub.Config{
		Address: server.URL, CacheDir: t.TempDir(), Files: []string{"tokenizer.json"},
	}, transport)
}

// withInfo answers the question about the model and leaves files to file.
func withInfo(file http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == infoPath {
			fmt.Fprintf(w, `{"sha":%q,"siblings":[{"rfilename":"tokenizer.json"}]}`, commit)
			return
		}
		file(w, r)
	}
}

// headers answers a file's HEAD with these headers and its GET with a body.
func headers(set map[string]string, body string) http.HandlerFunc {
	return withInfo(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range set {
			w.Header().Set(name, value)
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, body)
		}
	})
}

func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		answer http.HandlerFunc
		says   string
	}{
		{"server error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "status 502"},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "read the hub's answer"},
		{"no commit", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, "no commit"},
		{"path as a commit", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"sha":"../../x"}`) }, "no commit"},
		{"endless JSON", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"sha":"`+strings.Repeat("a", 17<<20)+`"}`)
		}, "read the hub's answer"},
		{"no etag", headers(map[string]string{"X-Linked-Size": "3"}, "abc"), "no usable etag"},
		{"path as an etag", headers(map[string]string{"Etag": `"../../x"`, "X-Linked-Size": "3"}, "abc"), "no usable etag"},
		{"no size", headers(map[string]string{"Etag": `"x"`, "X-Linked-Size": "many"}, "abc"), "no size"},
		{"absurd size", headers(map[string]string{"Etag": `"x"`, "X-Linked-Size": "9000000000"}, "abc"), "more than"},
		{"shorter than announced", headers(map[string]string{"Etag": `"x"`, "X-Linked-Size": "9"}, "abc"), "unexpected EOF"},
		{"file denied", withInfo(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }), "token"},
		{"file gone", withInfo(http.NotFound), "not on the hub"},
		{"redirects without end", withInfo(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}), "redirects too often"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := answering(t, row.answer).Fetch(t.Context(), "org/model", "")
			require.ErrorContains(t, err, row.says)
		})
	}
}

// TestTagThatIsNoHash is trusted for the size alone: mirrors name content as they like.
func TestTagThatIsNoHash(t *testing.T) {
	t.Parallel()
	dir, err := answering(t, headers(map[string]string{"Etag": `"v1"`, "X-Linked-Size": "3"}, "abc")).
		Fetch(t.Context(), "org/model", "")
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	require.NoError(t, err)
	require.Equal(t, "abc", string(data))
}

// TestRenamedModel is answered with a redirect within the hub, whose target names the content.
func TestRenamedModel(t *testing.T) {
	t.Parallel()
	dir, err := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == infoPath {
			http.Redirect(w, r, strings.Replace(r.URL.Path, "/org/model/", "/new/name/", 1), http.StatusTemporaryRedirect)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/api/models/new/name/") {
			fmt.Fprint(w, `{"sha":"abc","siblings":[{"rfilename":"tokenizer.json"}]}`)
			return
		}
		if strings.HasPrefix(r.URL.Path, "/org/model/") {
			http.Redirect(w, r, strings.Replace(r.URL.Path, "/org/model/", "/new/name/", 1), http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Etag", `"v2"`)
		w.Header().Set("X-Linked-Size", "3")
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "new")
		}
	}).Fetch(t.Context(), "org/model", "")
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	require.NoError(t, err)
	require.Equal(t, "new", string(data))
}
