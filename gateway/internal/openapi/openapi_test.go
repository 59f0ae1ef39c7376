package openapi

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type document struct {
	OpenAPI string
	Info    struct{ Title, Version string }
	Paths   map[string]map[string]struct {
		OperationID string
		Parameters  []struct {
			Name, In string
			Schema   struct{ Type string }
		}
		RequestBody *struct{ Content map[string]json.RawMessage }
		Responses   map[string]struct {
			Content map[string]json.RawMessage
		}
	}
	Components struct{ Schemas map[string]json.RawMessage }
}

func made(t *testing.T) (document, string) {
	t.Helper()
	raw, err := Document("1.2.3")
	require.NoError(t, err)
	var d document
	require.NoError(t, json.Unmarshal(raw, &d))
	return d, string(raw)
}

func TestDocumentNamesItself(t *testing.T) {
	t.Parallel()
	d, _ := made(t)
	require.Equal(t, "3.1.0", d.OpenAPI)
	require.Equal(t, "kvmesh", d.Info.Title)
	require.Equal(t, "1.2.3", d.Info.Version)
}

// TestResponsesCanBeReadAsEvents: what the query of a read response may say, and what then comes.
func TestResponsesCanBeReadAsEvents(t *testing.T) {
	t.Parallel()
	d, _ := made(t)
	read := d.Paths["/v1/responses/{response_id}"]["get"]
	query := map[string]string{}
	for _, p := range read.Parameters {
		if p.In == "query" {
			query[p.Name] = p.Schema.Type
		}
	}
	require.Equal(t, map[string]string{"stream": "boolean", "starting_after": "integer"}, query)
	require.Contains(t, read.Responses["200"].Content, "text/event-stream")
}

// TestEveryErrorHasItsAPIsShape: also a refused method of Anthropic's paths.
func TestEveryErrorHasItsAPIsShape(t *testing.T) {
	t.Parallel()
	d, _ := made(t)
	for path, shape := range map[string]string{"/v1/messages": "MessagesErrorBody", "/v1/chat/completions": "ErrorBody"} {
		for status := range errorMeanings() {
			require.Contains(t, string(d.Paths[path]["post"].Responses[strconv.Itoa(status)].Content["application/json"]),
				`"#/components/schemas/`+shape+`"`, "%s %d", path, status)
		}
	}
}

// TestEveryReferenceIsThere: a shape that is named stands in the document, and none stands there unused.
func TestEveryReferenceIsThere(t *testing.T) {
	t.Parallel()
	d, raw := made(t)
	const mark = `"#/components/schemas/`
	used := map[string]bool{}
	for part := range strings.SplitSeq(raw, mark) {
		name, _, _ := strings.Cut(part, `"`)
		used[name] = true
	}
	for name := range d.Components.Schemas {
		if name != "Generation" { // the anchor of members that requests share
			require.True(t, used[name], "%s is used nowhere", name)
		}
	}
	for name := range used {
		if name != "{" && !strings.HasPrefix(name, "{") {
			require.Contains(t, d.Components.Schemas, name)
		}
	}
}

func TestEveryOperationIsWhole(t *testing.T) {
	t.Parallel()
	d, _ := made(t)
	seen := map[string]bool{}
	for path, methods := range d.Paths {
		for method, o := range methods {
			require.NotEmpty(t, o.OperationID, path)
			require.False(t, seen[o.OperationID], "%s %s", method, path)
			seen[o.OperationID] = true
			for status := range errorMeanings() {
				require.Contains(t, o.Responses[strconv.Itoa(status)].Content, "application/json")
			}
			require.Contains(t, o.Responses["200"].Content, "application/json", path)
		}
	}
}

// TestShapesOfTheSurface: what the generated document of the gRPC services cannot say.
func TestShapesOfTheSurface(t *testing.T) {
	t.Parallel()
	d, _ := made(t)
	for name, row := range map[string]struct{ path, media string }{
		"a chat streams":         {"/v1/chat/completions", "text/event-stream"},
		"a completion streams":   {"/v1/completions", "text/event-stream"},
		"a message streams":      {"/v1/messages", "text/event-stream"},
		"a response streams":     {"/v1/responses", "text/event-stream"},
		"a recording gives text": {"/v1/audio/transcriptions", "text/plain"},
	} {
		require.Contains(t, d.Paths[row.path]["post"].Responses["200"].Content, row.media, name)
	}
	require.NotContains(t, d.Paths["/v1/embeddings"]["post"].Responses["200"].Content, "text/event-stream")
	require.Contains(t, d.Paths["/v1/audio/translations"]["post"].RequestBody.Content, "multipart/form-data")
	refused := string(d.Paths["/v1/messages"]["post"].Responses["404"].Content["application/json"])
	require.Contains(t, refused, "MessagesErrorBody")
}
