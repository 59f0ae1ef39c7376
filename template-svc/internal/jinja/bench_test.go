package jinja

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// benchCase is one template with one conversation.
type benchCase struct {
	name, file, scenario string
}

var benchCases = []benchCase{
	{"qwen3_tools", "llama.cpp/Qwen-Qwen3-0.6B.jinja", "tools_auto"},
	{"qwen3_tool_result", "llama.cpp/Qwen-Qwen3-0.6B.jinja", "tool_call_result"},
	{"llama31_multi_turn", "llama.cpp/meta-llama-Llama-3.1-8B-Instruct.jinja", "multi_turn"},
	{"gptoss_tools", "llama.cpp/openai-gpt-oss-120b.jinja", "tools_auto"},
	{"gptoss_tool_result", "llama.cpp/openai-gpt-oss-120b.jinja", "tool_call_result"},
}

func benchInput(b *testing.B, c benchCase) (source string, data []byte) {
	b.Helper()
	dir := corpusDir(b)
	text, err := os.ReadFile(filepath.Join(dir, "templates", filepath.FromSlash(c.file)))
	require.NoError(b, err)
	var file struct {
		Scenarios map[string]struct{ Context json.RawMessage }
	}
	readJSON(b, &file, dir, "oracle", "scenarios.json")
	return string(text), file.Scenarios[c.scenario].Context
}

// convert makes variables of JSON as a service does for each request.
func convert(data []byte, vars []Var) ([]Var, error) {
	v, err := value.FromJSON(data)
	if err != nil {
		return nil, err
	}
	for _, e := range v.AsDict().Entries() {
		vars = append(vars, Var{Name: e.Key.AsStr(), Value: e.Val})
	}
	return vars, nil
}

// convertMaps is the naive way: encoding/json, then maps with sorted keys.
func convertMaps(data []byte) ([]Var, error) {
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	var vars []Var
	for _, k := range sortedKeys(m) {
		vars = append(vars, Var{Name: k, Value: fromAny(m[k])})
	}
	return vars, nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func fromAny(x any) value.Value {
	switch x := x.(type) {
	case string:
		return value.Str(x)
	case bool:
		return value.Bool(x)
	case float64:
		return value.Float(x)
	case []any:
		var cells []value.Value
		for _, e := range x {
			cells = append(cells, fromAny(e))
		}
		return value.List(cells)
	case map[string]any:
		d := value.NewDict(0)
		for _, k := range sortedKeys(x) {
			d.SetStr(k, fromAny(x[k]))
		}
		return value.OfDict(d)
	}
	return value.None
}

// cpuPerOp reports the processor time of the whole process per round, the
// collector's included: on a busy machine wall time says little. Call it before
// the loop and its result after.
func cpuPerOp(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkRender renders a compiled template, the conversion of its input
// from JSON included; BenchmarkRenderMaps converts through maps, and
// BenchmarkRenderCompile compiles each time. Run with -count to interleave.
func BenchmarkRender(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			source, data := benchInput(b, c)
			tmpl, err := Compile(source, Limits{})
			require.NoError(b, err)
			var buf []byte
			var vars []Var
			b.ReportAllocs()
			report := cpuPerOp(b)
			defer report()
			for b.Loop() {
				if vars, err = convert(data, vars[:0]); err != nil {
					b.Fatal(err)
				}
				if buf, err = tmpl.Render(context.Background(), buf[:0], Env{Vars: vars, Now: pinnedNow}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRenderMaps is the arm with naive conversion.
func BenchmarkRenderMaps(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			source, data := benchInput(b, c)
			tmpl, err := Compile(source, Limits{})
			require.NoError(b, err)
			b.ReportAllocs()
			report := cpuPerOp(b)
			defer report()
			for b.Loop() {
				vars, err := convertMaps(data)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tmpl.Render(context.Background(), nil, Env{Vars: vars, Now: pinnedNow}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRenderCompile is the arm without a compiled template.
func BenchmarkRenderCompile(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			source, data := benchInput(b, c)
			b.ReportAllocs()
			report := cpuPerOp(b)
			defer report()
			for b.Loop() {
				vars, err := convert(data, nil)
				if err != nil {
					b.Fatal(err)
				}
				tmpl, err := Compile(source, Limits{})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tmpl.Render(context.Background(), nil, Env{Vars: vars, Now: pinnedNow}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
