package rest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway/internal/openapi"
)

// TestDocumentAndRoutesAgree: each route of the protos stands in the OpenAPI document with its method, and the document
// names no path that nobody answers.
func TestDocumentAndRoutesAgree(t *testing.T) {
	t.Parallel()
	raw, err := openapi.Document("x")
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(raw, &doc))
	e := &Edge{routes: routes()}
	fixed := map[string]bool{"/health": true, "/ping": true, "/ready": true, "/openapi.json": true}
	documented := 0
	for path, methods := range doc.Paths {
		if fixed[path] {
			continue
		}
		concrete := strings.NewReplacer("{model}", "acme/tiny", "{response_id}", "r", "{request_id}", "q").Replace(path)
		for method := range methods {
			documented++
			found, _ := e.find(strings.ToUpper(method), concrete)
			require.NotNil(t, found, "%s %s is documented and not routed", method, path)
			require.Equal(t, found.form, strings.Contains(string(methods[method]), "multipart/form-data"), path)
			require.Equal(t, found.method == http.MethodGet, method == "get")
		}
	}
	require.Equal(t, len(e.routes), documented, "every route is documented once")
}
