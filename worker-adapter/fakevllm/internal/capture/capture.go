// Package capture reads what a real vLLM server said, for tests that hold the simulated one against it.
package capture

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// corpusEnv names the folder of the captures; the default is beside the repository.
const corpusEnv = "KVMESH_CORPUS"

// Dir is the folder vllm-capture. Without it the test fails and says what to set.
func Dir(t testing.TB) string {
	t.Helper()
	root := os.Getenv(corpusEnv)
	if root == "" {
		at, err := os.Getwd()
		require.NoError(t, err)
		for at != filepath.Dir(at) {
			if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
				break
			}
			at = filepath.Dir(at)
		}
		root = filepath.Join(at, "..", "shared", "corpus")
	}
	dir := filepath.Join(root, "vllm-capture")
	_, err := os.Stat(dir)
	require.NoErrorf(t, err, "captures of a real vLLM are missing: set %s to the corpus folder", corpusEnv)
	return dir
}

// Exchange is one HTTP request and its answer. Status 0 means that the client gave up.
type Exchange struct {
	Method, Path string
	Headers      [][2]string
	Body         string
	Status       int
	AnswerHeader [][2]string
	Answer       string
	Events       []string // server-sent events, if it was a stream
	Cut          bool     // the capture holds only a part of the body
}

// Line is one entry of a capture file; only the fields of its Kind are set.
type Line struct {
	Kind    string
	Name    string // of a case, or of a step in a scenario
	Seq     uint64
	Topic   string
	Port    int
	Payload string // hex
	Decoded json.RawMessage
	HTTP    *Exchange
}

type rawLine struct {
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	Step       string          `json:"step"`
	Seq        uint64          `json:"seq"`
	Topic      string          `json:"topic"`
	Port       int             `json:"port"`
	PayloadHex string          `json:"payload_hex"`
	Decoded    json.RawMessage `json:"decoded"`
	Request    *struct {
		Method, Path string
		Headers      [][2]string
		Body         string
		BodyCut      bool `json:"body_cut"`
	} `json:"request"`
	Response *struct {
		Status  int
		Headers [][2]string
		Body    string
		BodyCut bool                 `json:"body_cut"`
		Chunks  [][2]json.RawMessage `json:"chunks"`
	} `json:"response"`
}

// Read returns the lines of a file in the folder.
func Read(t testing.TB, name string) []Line {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(Dir(t), name))
	require.NoError(t, err)
	var out []Line
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 8<<20)
	for sc.Scan() {
		var r rawLine
		require.NoError(t, json.Unmarshal(sc.Bytes(), &r))
		out = append(out, r.line(t))
	}
	require.NoError(t, sc.Err())
	return out
}

// Files lists the captures whose names match.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(Dir(t), pattern))
	require.NoError(t, err)
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return names
}

// line brings the file's shape into the one that tests use.
func (r *rawLine) line(t testing.TB) Line {
	t.Helper()
	l := Line{
		Kind: r.Kind, Name: r.Name + r.Step, Seq: r.Seq, Topic: r.Topic, Port: r.Port, Payload: r.PayloadHex,
		Decoded: r.Decoded,
	}
	if r.Request == nil {
		return l
	}
	if l.Kind == "" {
		l.Kind = "http"
	}
	l.HTTP = &Exchange{
		Method: r.Request.Method, Path: r.Request.Path, Headers: r.Request.Headers, Body: r.Request.Body,
		Cut: r.Request.BodyCut || strings.HasSuffix(r.Request.Body, "…"),
	}
	if r.Response == nil {
		return l
	}
	l.HTTP.Status, l.HTTP.Answer, l.HTTP.AnswerHeader = r.Response.Status, r.Response.Body, r.Response.Headers
	l.HTTP.Cut = l.HTTP.Cut || r.Response.BodyCut
	for _, c := range r.Response.Chunks {
		var text string
		require.NoError(t, json.Unmarshal(c[1], &text))
		l.HTTP.Events = append(l.HTTP.Events, text)
	}
	return l
}
