package conf_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// odd are texts that YAML would read as something else when they are not quoted, and texts that need escapes.
func odd() []string {
	return []string{
		"", "no", "true", "null", "~", "1e5", "0x10", "1_000", "12:30", "2026-11-30", "- a", "a: b", "#x", "{", "[", "'", "\"",
		" lead", "trail ", "a\nb", "tab\t", "é", "日本", "*a", "&a", "!x", "%", "@", "`", "org/model.1", "=", ".", "..", "<<",
	}
}

func randomText(rnd *rand.Rand) string { return odd()[rnd.IntN(len(odd()))] }

func randomEdge(rnd *rand.Rand) edge {
	e := edge{
		Address: randomText(rnd), Verbose: rnd.IntN(2) == 0,
		Limits: limits{
			conf.Bytes(rnd.Int64N(1 << 40)), time.Duration(rnd.Int64N(1 << 50)), 1 + rnd.IntN(1000),
		},
		ByName: map[string]backend{}, Alias: map[string]string{},
	}
	for i := range rnd.IntN(4) {
		e.Alias[randomText(rnd)+strconv.Itoa(i)] = randomText(rnd)
		b := backend{URL: "http://" + strconv.Itoa(i), Models: []string{randomText(rnd)}, Weight: rnd.Float64() * 100}
		e.Backends = append(e.Backends, b)
		e.ByName["k"+strconv.Itoa(i)] = b
	}
	if rnd.IntN(2) == 0 {
		e.TLS = &limits{Body: conf.Bytes(rnd.IntN(5000)), Queue: 1}
	}
	if e.Address == "" {
		e.Address = "x" // empty means the default
	}
	return e
}

// TestDumpLoadsAgain: whatever the values, a dump is a file that gives the same configuration. Dollar signs are the one
// exception that a dump does not make: they would be variables.
func TestDumpLoadsAgain(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(21, 22))
	for range 300 {
		want := randomEdge(rnd)
		raw, err := conf.Dump(conf.Section{Key: "edge", Into: &want})
		require.NoError(t, err)
		var got edge
		require.NoError(t, conf.LoadSections(conf.Source{Path: write(t, string(raw))}, conf.Section{Key: "edge", Into: &got}),
			"%s", raw)
		require.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(edge{}), cmpopts.EquateEmpty()), "%s", raw)
	}
}

// TestEveryLayerSaysTheSame: one value given in the file, by environment and by --set gives the same configuration, and
// text stays text whatever it looks like.
func TestEveryLayerSaysTheSame(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(23, 24))
	for range 200 {
		e := randomEdge(rnd)
		values := map[string]string{
			"address": e.Address, "verbose": fmt.Sprint(e.Verbose), "limits.body": e.Limits.Body.String(),
			"limits.timeout": e.Limits.Timeout.String(), "limits.queue": strconv.Itoa(e.Limits.Queue),
		}
		var byEnv, bySet edge
		var env, sets []string
		for path, v := range values {
			env = append(env, conf.EnvName(path)+"="+v)
			sets = append(sets, path+"="+v)
		}
		require.NoError(t, conf.Load(conf.Source{Environ: env}, &byEnv))
		require.NoError(t, conf.Load(conf.Source{Sets: sets}, &bySet))
		want := edge{Address: e.Address, Verbose: e.Verbose, Limits: e.Limits}
		require.Empty(t, cmp.Diff(want, byEnv, cmp.AllowUnexported(edge{})))
		require.Empty(t, cmp.Diff(want, bySet, cmp.AllowUnexported(edge{})))
	}
}

// TestNearestNames: a key with one mistake is recognised, whatever the mistake.
func TestNearestNames(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(25, 26))
	for range 200 {
		key := []string{"address", "backends", "by_name", "verbose", "limits"}[rnd.IntN(5)]
		at := rnd.IntN(len(key))
		wrong := []string{
			key[:at] + key[at+1:],             // a letter left out
			key[:at] + "q" + key[at:],         // one too many
			key[:at] + "q" + key[at+1:],       // another one
			key + "s",                         // plural
			strings.ReplaceAll(key, "s", "z"), // spelling
		}[rnd.IntN(5)]
		if wrong == key {
			continue
		}
		err := conf.Load(conf.Source{Sets: []string{wrong + "=1"}}, new(edge))
		require.ErrorContains(t, err, fmt.Sprintf("did you mean %q?", key), wrong)
	}
}

func TestSetsReachIntoMappings(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, set string
		want      edge
	}{
		{"text value", "alias.a=1", edge{Alias: map[string]string{"a": "1"}}},
		{"whole mapping", "alias={a: b, c: d}", edge{Alias: map[string]string{"a": "b", "c": "d"}}},
		{"list", "keys=[x, y]", edge{Keys: []string{"x", "y"}}},
		{"list of structs", "backends=[{url: u, weight: 2}]", edge{Backends: []backend{{URL: "u", Weight: 2}}}},
		{"struct in mapping", "by_name.one={url: u}", edge{ByName: map[string]backend{"one": {URL: "u"}}}},
		{"key in a struct in a mapping", "by_name.one.weight=3", edge{ByName: map[string]backend{"one": {Weight: 3}}}},
		{"name with dots", "alias.gpt-4.1=m", edge{Alias: map[string]string{"gpt-4.1": "m"}}},
		{"null resets", "alias=null", edge{}},
		{"a value with equals signs", "address=a=b=c", edge{Address: "a=b=c"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var got edge
			require.NoError(t, conf.Load(conf.Source{Path: write(t, "alias: {z: z}"), Sets: []string{row.set}}, &got))
			row.want.SetDefaults()
			if row.want.Alias == nil && row.name != "null resets" {
				row.want.Alias = map[string]string{"z": "z"}
			} else if len(row.want.Alias) == 1 {
				row.want.Alias["z"] = "z"
			}
			require.Empty(t, cmp.Diff(row.want, got, cmp.AllowUnexported(edge{})))
		})
	}
}
