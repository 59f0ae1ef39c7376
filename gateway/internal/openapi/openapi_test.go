package openapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDocumentIsTheGeneratedOne: the embedded copy is refreshed with the generated code.
func TestDocumentIsTheGeneratedOne(t *testing.T) {
	t.Parallel()
	generated, err := os.ReadFile(filepath.Join("..", "..", "..", "proto", "gen", "openapi", "kvmesh.swagger.json"))
	require.NoError(t, err)
	require.JSONEq(t, string(generated), string(Document()), "copy proto/gen/openapi/kvmesh.swagger.json here after make generate")
}

// TestEveryPathHasAnAnswer: the document names each operation once, with its tag.
func TestEveryPathHasAnAnswer(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string                     `json:"operationId"`
			Responses   map[string]json.RawMessage `json:"responses"`
		} `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(Document(), &doc))
	require.Contains(t, doc.Paths, "/v1/chat/completions")
	seen := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			require.False(t, seen[op.OperationID], "%s %s", method, path)
			seen[op.OperationID] = true
			require.Contains(t, op.Responses, "200")
		}
	}
}
