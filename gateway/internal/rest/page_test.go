package rest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

// apiPage is docs/api.md.
func apiPage(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "api.md"))
	require.NoError(t, err, "the test runs in the checkout")
	return string(raw)
}

// TestPageAndRoutesAgree: each route stands once in docs/api.md with its method, and the page has no other.
func TestPageAndRoutesAgree(t *testing.T) {
	t.Parallel()
	rows := regexp.MustCompile("(?m)^\\| `([A-Z]+) (/[^`]*)` \\|").FindAllStringSubmatch(apiPage(t), -1)
	e := &Edge{routes: routes()}
	names := strings.NewReplacer("{model}", "acme/tiny", "{response_id}", "r", "{request_id}", "q")
	url, unfixed := doors(t, &service{})["in process"], 0
	seen := map[*route]string{}
	for _, row := range rows {
		method, path := row[1], row[2]
		if found, _ := e.find(method, names.Replace(path)); found != nil {
			require.Empty(t, seen[found], "%s stands twice", path)
			seen[found] = path
			continue
		}
		unfixed++
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url+path, http.NoBody)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, "%s %s is in docs/api.md and not served", method, path)
		require.Contains(t, resp.Header.Get("Allow"), method)
	}
	require.Len(t, seen, len(e.routes), "docs/api.md lacks routes")
	require.Equal(t, 5, unfixed, "paths that are no operations")
}

// TestPageAndErrorsAgree: every reason's status, type and code stand in docs/api.md's table, and the page has no other.
func TestPageAndErrorsAgree(t *testing.T) {
	t.Parallel()
	page := apiPage(t)
	want := map[string]bool{}
	body := regexp.MustCompile(`"type":"([a-z_]+)","param":.*,"code":"([a-z_]+)"`)
	for number := range faultv1.Reason_name {
		reason := fault.Reason(number)
		f := openai.NewFailure(fault.New(reason, "x"))
		if f.Status == openai.StatusClientClosed {
			continue // nobody receives it
		}
		found := body.FindStringSubmatch(string(f.Body))
		require.NotNil(t, found, string(f.Body))
		want[fmt.Sprintf("| %d | `%s` | `%s` |", f.Status, found[1], found[2])] = true
	}
	got := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| [0-9]{3} \\| `[a-z_]+` \\| `[a-z_]+` \\|").FindAllString(page, -1) {
		got[row] = true
	}
	require.Equal(t, want, got)
}
