package chat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// corpusDir is the folder with the request oracle; a missing one is a failure that names the variable.
func corpusDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KVMESH_CORPUS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpus")
	}
	if _, err := os.Stat(filepath.Join(dir, "request-oracle", "index.json")); err != nil {
		t.Fatalf("KVMESH_CORPUS must name the corpus folder (now %q): %v", dir, err)
	}
	return dir
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	// Bare NaN and Infinity stand in the kwargs of some cells, which are not compared; inside texts the quote before
	// the colon is escaped.
	raw = regexp.MustCompile(`([^\\]": )(?:NaN|-?Infinity)`).ReplaceAll(raw, []byte("${1}null"))
	require.NoError(t, json.Unmarshal(raw, into), path)
}

// oracleServer is the server settings of a request.
type oracleServer struct {
	Trust         *bool           `json:"trust_request_chat_template"`
	DefaultKwargs json.RawMessage `json:"default_chat_template_kwargs"`
	ExcludeTools  *bool           `json:"exclude_tools_when_tool_choice_none"`
	Format        *string         `json:"chat_template_content_format"`
}

type oracleRequest struct {
	ID     string       `json:"id"`
	Body   string       `json:"body"`
	Server oracleServer `json:"server"`
}

type oracleCell struct {
	Format string          `json:"format"`
	Prompt *string         `json:"prompt"`
	Error  json.RawMessage `json:"error"`
}

// requestOf reads the members of a body as the gateway's scan does; ok is false where the body is no JSON object.
func requestOf(body string) (*Request, bool) {
	var top map[string]json.RawMessage
	body = strings.TrimPrefix(body, "\ufeff") // Python's json accepts a byte order mark in bytes
	v, err := jinja.FromJSON([]byte(body))
	if err != nil || v.Kind() != value.KindDict {
		return nil, false
	}
	if json.Unmarshal([]byte(body), &top) != nil {
		top = map[string]json.RawMessage{} // NaN and the like: only ordered parsing reads them
		for _, e := range v.AsDict().Entries() {
			top[e.Key.AsStr()] = nil
		}
		top = splitMembers(body, top)
	}
	req := &Request{
		MessagesJSON: top["messages"], ToolsJSON: top["tools"], ToolChoiceJSON: top["tool_choice"],
		ChatTemplateKwargsJSON: top["chat_template_kwargs"], DocumentsJSON: top["documents"],
	}
	req.AddGenerationPrompt = laxBool(top["add_generation_prompt"])
	req.ContinueFinalMessage = laxBool(top["continue_final_message"])
	req.ChatTemplate = laxString(top["chat_template"])
	req.ReasoningEffort = laxString(top["reasoning_effort"])
	return req, true
}

// splitMembers cuts the one odd body of the oracle by hand.
func splitMembers(body string, top map[string]json.RawMessage) map[string]json.RawMessage {
	for name := range top {
		at := indexAfter(body, `"`+name+`":`)
		if at < 0 {
			continue
		}
		end := matchEnd(body, at)
		top[name] = json.RawMessage(body[at:end])
	}
	return top
}

func indexAfter(s, sub string) int {
	at := strings.Index(s, sub)
	if at < 0 {
		return -1
	}
	return at + len(sub)
}

// matchEnd finds the end of the JSON value at i; strings of the odd body hold no brackets.
func matchEnd(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

func laxBool(raw json.RawMessage) *bool {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil || v == nil {
		return nil
	}
	out := false
	switch x := v.(type) {
	case bool:
		out = x
	case string:
		switch strings.ToLower(x) {
		case "1", "on", "t", "true", "y", "yes":
			out = true
		case "0", "off", "f", "false", "n", "no":
		default:
			return nil
		}
	case float64:
		if x != 0 && x != 1 {
			return nil
		}
		out = x != 0
	default:
		return nil
	}
	return &out
}

func laxString(raw json.RawMessage) *string {
	var s *string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return s
}

func modelFor(t *testing.T, source string, index oracleIndex, server oracleServer) *Model {
	t.Helper()
	var special []jinja.Var
	for _, name := range []string{"bos_token", "eos_token", "unk_token", "pad_token"} {
		special = append(special, jinja.Var{Name: name, Value: value.Str(index.Special[name])})
	}
	now, err := time.Parse("2006-01-02T15:04:05", index.Now)
	require.NoError(t, err)
	opts := Options{Now: func() time.Time { return now }}
	if server.Trust != nil {
		opts.TrustRequestTemplate = *server.Trust
	}
	if server.ExcludeTools != nil {
		opts.ExcludeToolsWhenNone = *server.ExcludeTools
	}
	if server.Format != nil {
		opts.Format = *server.Format
	}
	if len(server.DefaultKwargs) > 0 {
		opts.DefaultKwargs, err = jinja.FromJSON(server.DefaultKwargs)
		require.NoError(t, err)
	}
	m, err := New(nil, source, special, opts)
	require.NoError(t, err)
	return m
}

type oracleIndex struct {
	Now       string            `json:"now"`
	Special   map[string]string `json:"special_tokens"`
	Templates []struct {
		Template string `json:"template"`
		File     string `json:"file"`
	} `json:"templates"`
}

// TestRequestOracle renders every request of the oracle with every template and compares with what vLLM rendered.
func TestRequestOracle(t *testing.T) {
	t.Parallel()
	dir := corpusDir(t)
	var index oracleIndex
	var requests []oracleRequest
	readJSON(t, filepath.Join(dir, "request-oracle", "index.json"), &index)
	readJSON(t, filepath.Join(dir, "request-oracle", "requests.json"), &requests)
	counts := oracleCounts{rendered: map[string]bool{}}
	for _, entry := range index.Templates {
		source, err := os.ReadFile(filepath.Join(dir, "templates", entry.File))
		require.NoError(t, err)
		var cells struct {
			Cells map[string]oracleCell `json:"cells"`
		}
		readJSON(t, filepath.Join(dir, "request-oracle", "cells", entry.Template+".json"), &cells)
		models := map[string]*Model{} // by server settings: few requests have their own
		for _, r := range requests {
			key, err := json.Marshal(r.Server)
			require.NoError(t, err)
			m, ok := models[string(key)]
			if !ok {
				m = modelFor(t, string(source), index, r.Server)
				models[string(key)] = m
			}
			counts.check(t, entry.Template+"/"+r.ID, m, r.Body, cells.Cells[r.ID])
		}
	}
	t.Logf("%d/%d prompts equal, %d/%d refusals refused, %d rendered where the worker refuses",
		counts.equal, counts.prompts, counts.refused, counts.errors, counts.errors-counts.refused)
	require.Zero(t, counts.prompts-counts.equal)
	// docs/templates.md says why.
	require.Equal(t, map[string]bool{
		"parts-image": true, "part-image-no-type": true, "parts-video": true, "parts-audio": true,
		"text-surrogate": true, "args-surrogate": true, "args-object": true,
	}, counts.rendered, "requests that are rendered for some template although the worker refuses them")
}

// oracleCounts sums up a run.
type oracleCounts struct {
	prompts, equal, errors, refused, shown int
	// rendered are the requests that the worker refuses and this package renders.
	rendered map[string]bool
}

func (c *oracleCounts) check(t *testing.T, name string, m *Model, body string, cell oracleCell) {
	t.Helper()
	req, isObject := requestOf(body)
	var got Result
	err := error(&Refusal{Message: "no object"})
	if isObject {
		got, err = m.Render(t.Context(), req)
	}
	if len(cell.Error) > 0 {
		c.errors++
		if err != nil {
			c.refused++
		} else {
			c.rendered[name[strings.LastIndexByte(name, '/')+1:]] = true
		}
		return
	}
	c.prompts++
	switch {
	case err == nil && string(got.Text) == *cell.Prompt && got.Format == cell.Format:
		c.equal++
	case c.shown < 40:
		c.shown++
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		at := firstDifference(string(got.Text), *cell.Prompt)
		t.Errorf("%s: format %s, want %s; differs at byte %d:\n got …%q\nwant …%q", name, got.Format, cell.Format, at,
			window(string(got.Text), at), window(*cell.Prompt, at))
	}
}

func firstDifference(a, b string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

func window(s string, at int) string {
	return s[max(0, at-40):min(len(s), at+60)]
}
