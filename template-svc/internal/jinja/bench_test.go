package jinja

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
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

// arm is one way to the same text.
type arm struct {
	name   string
	render func() error
}

// batch is how often an arm runs in a round: long enough for the clock, short enough to share the machine's moods.
const batch = 100

// used is what the process has taken so far: processor time, the collector's included, allocations and their bytes.
type used struct {
	cpuNS           int64
	mallocs, memory uint64
}

func usedNow(b *testing.B) used {
	b.Helper()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return used{u.Utime.Nano() + u.Stime.Nano(), m.Mallocs, m.TotalAlloc}
}

// interleave runs the arms in turn, b.N rounds of a batch each and at least twenty, and reports each arm's least
// processor time per render, and its allocations.
func interleave(b *testing.B, arms []arm) {
	b.Helper()
	least := make([]int64, len(arms))
	total := make([]used, len(arms))
	rounds := max(b.N, 20)
	for round := range rounds + 1 { // the first one warms
		for i, a := range arms {
			before := usedNow(b)
			for range batch {
				if err := a.render(); err != nil {
					b.Fatal(err)
				}
			}
			after := usedNow(b)
			if took := after.cpuNS - before.cpuNS; round == 1 || round > 1 && took < least[i] {
				least[i] = took
			}
			if round > 0 {
				total[i].mallocs += after.mallocs - before.mallocs
				total[i].memory += after.memory - before.memory
			}
		}
	}
	renders := float64(rounds * batch)
	for i, a := range arms {
		b.ReportMetric(float64(least[i])/batch/1e3, a.name+"-cpu-µs")
		b.ReportMetric(float64(total[i].mallocs)/renders, a.name+"-allocs")
		b.ReportMetric(float64(total[i].memory)/renders, a.name+"-B")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRender renders a compiled template, the conversion of its variables from JSON included, against two naive
// ways in the same rounds: conversion through encoding/json's maps, and compiling the template for each render.
func BenchmarkRender(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			source, data := benchInput(b, c)
			tmpl, err := Compile(source, Limits{})
			require.NoError(b, err)
			var buf []byte
			var vars []Var
			render := func(t *Template, vars []Var) (err error) {
				buf, err = t.Render(context.Background(), buf[:0], Env{Vars: vars, Now: pinnedNow})
				return err
			}
			interleave(b, []arm{
				{"kvmesh", func() error {
					if vars, err = convert(data, vars[:0]); err != nil {
						return err
					}
					return render(tmpl, vars)
				}},
				{"maps", func() error {
					vars, err := convertMaps(data)
					if err != nil {
						return err
					}
					return render(tmpl, vars)
				}},
				{"compile", func() error {
					vars, err := convert(data, nil)
					if err != nil {
						return err
					}
					fresh, err := Compile(source, Limits{})
					if err != nil {
						return err
					}
					return render(fresh, vars)
				}},
			})
		})
	}
}
