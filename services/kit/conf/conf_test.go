package conf_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type limits struct {
	Body    conf.Bytes    `yaml:"body" doc:"largest request body"`
	Timeout time.Duration `yaml:"timeout" doc:"time for one request"`
	Queue   int           `yaml:"queue"`
}

type backend struct {
	URL    string   `yaml:"url" redact:"url"`
	Token  string   `yaml:"token" redact:"true"`
	Models []string `yaml:"models"`
	Weight float64  `yaml:"weight"`
}

type edge struct {
	Address  string             `yaml:"address" doc:"where it listens"`
	Keys     []string           `yaml:"keys" redact:"true"`
	Limits   limits             `yaml:"limits"`
	Backends []backend          `yaml:"backends"`
	ByName   map[string]backend `yaml:"by_name"`
	Alias    map[string]string  `yaml:"alias"`
	TLS      *limits            `yaml:"tls"`
	Verbose  bool               `yaml:"verbose"`
	hidden   int
	Skipped  string `yaml:"-"`
}

func (e *edge) SetDefaults() {
	if e.Address == "" {
		e.Address = "tcp://127.0.0.1:8080"
	}
	if e.Limits.Queue == 0 {
		e.Limits.Queue = 7 + e.hidden
	}
}

func (e *edge) Validate() error {
	var f conf.Faults
	f.Require(e.Limits.Queue > 0, "limits.queue", "must be positive")
	f.Require(e.Limits.Timeout >= 0, "limits.timeout", "must not be negative")
	return f.Err()
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kvmesh.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const full = `
address: tcp://:1
keys: [a, b]
limits: &l {body: 8MiB, timeout: 1m30s, queue: 3}
backends:
- {url: "http://u:p@h", token: "${TOKEN}", models: [x], weight: 0.5}
- {url: http://h2}
by_name:
  one: {url: http://h3}
alias: {gpt-4: "org/model.1", no: "1e5"}
tls: *l
verbose: true
`

func TestLoadEverything(t *testing.T) {
	t.Parallel()
	var got edge
	require.NoError(t, conf.Load(conf.Source{Path: write(t, full), Environ: []string{"TOKEN=secret"}}, &got))
	want := edge{
		Address: "tcp://:1", Keys: []string{"a", "b"}, Limits: limits{8 * conf.MiB, 90 * time.Second, 3},
		Backends: []backend{{"http://u:p@h", "secret", []string{"x"}, 0.5}, {URL: "http://h2"}},
		ByName:   map[string]backend{"one": {URL: "http://h3"}}, Alias: map[string]string{"gpt-4": "org/model.1", "no": "1e5"},
		TLS: &limits{8 * conf.MiB, 90 * time.Second, 3}, Verbose: true,
	}
	require.Empty(t, cmp.Diff(want, got, cmp.AllowUnexported(edge{})))
}

// TestLayers: file under environment under --set; defaults fill what nobody set.
func TestLayers(t *testing.T) {
	t.Parallel()
	var got edge
	require.NoError(t, conf.Load(conf.Source{
		Path: write(t, "limits: {queue: 1, timeout: 1s}\nalias: {a: b}"),
		Environ: []string{
			"KVMESH_LIMITS_QUEUE=2", "KVMESH_LIMITS_TIMEOUT=2s", "KVMESH_CORPUS=/unrelated", "KVMESH_KEYS=[k1, k2]", "broken",
		},
		Sets: []string{"limits.timeout=3s", "verbose=true", "alias.c=d=e", "alias.yes=no"},
	}, &got))
	require.Equal(t, limits{Queue: 2, Timeout: 3 * time.Second}, got.Limits)
	require.Equal(t, "tcp://127.0.0.1:8080", got.Address)
	require.Equal(t, []string{"k1", "k2"}, got.Keys)
	require.True(t, got.Verbose)
	require.Equal(t, map[string]string{"a": "b", "c": "d=e", "yes": "no"}, got.Alias)
}

func TestNothingGivesDefaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# only a comment\n", "{}", "null", "limits:\n"} {
		var got edge
		require.NoError(t, conf.Load(conf.Source{Path: write(t, text)}, &got))
		require.Equal(t, 7, got.Limits.Queue)
	}
	var got edge
	require.NoError(t, conf.Load(conf.Source{}, &got))
	require.Equal(t, 7, got.Limits.Queue)
}

func TestFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, text string
		src        conf.Source
		want       []string
	}{
		{"unknown key", "limits: {boddy: 1}", conf.Source{}, []string{`limits.boddy: unknown key (line 1); did you mean "body"?`}},
		{"unknown top key without a near one", "zzzzzzzzzzzz: 1", conf.Source{}, []string{`zzzzzzzzzzzz: unknown key (line 1)`}},
		{
			"unknown in list", "backends: [{url: a}, {uri: b}]",
			conf.Source{},
			[]string{`backends[1].uri: unknown key (line 1); did you mean "url"?`},
		},
		{
			"unknown in mapping", "by_name: {x: {tokn: a}}",
			conf.Source{},
			[]string{`by_name.x.tokn: unknown key (line 1); did you mean "token"?`},
		},
		{"all at once", "limits:\n  queue: many\n  timeout: soon\n  body: huge\nverbose: maybe\nbad: 1", conf.Source{}, []string{
			"limits.queue: is not a whole number (line 2)", "limits.timeout: is not a duration (300ms, 5s, 2h) (line 3)",
			`limits.body: "huge" is not a size`, "verbose: is not a true or false (line 5)", "bad: unknown key (line 6)",
		}},
		{"unknown key and wrong value", "bad: 1\nlimits: {queue: -1, timeout: -1s}", conf.Source{}, []string{
			"bad: unknown key (line 1)", "limits.queue: must be positive", "limits.timeout: must not be negative",
		}},
		{"unreadable value and wrong value", "limits: {queue: many, timeout: -1s}", conf.Source{}, []string{
			"limits.queue: is not a whole number (line 1)", "limits.timeout: must not be negative",
		}},
		{"misspelled section", "limit: {queue: -1}", conf.Source{Sets: []string{"limits.timeout=-1s"}}, []string{
			`limit: unknown key (line 1); did you mean "limits"?`,
		}},
		{"twice", "verbose: true\nverbose: false", conf.Source{}, []string{"verbose: is written twice (line 2)"}},
		{"no mapping", "limits: 3", conf.Source{}, []string{"limits: must be a mapping of keys (line 1)"}},
		{"top is a list", "[1]", conf.Source{}, []string{"must be a mapping of keys (line 1)"}},
		{"variable", "address: ${NOWHERE}", conf.Source{}, []string{"address: the environment variable NOWHERE is not set"}},
		{
			"set unknown", "",
			conf.Source{Sets: []string{"limits.quue=1"}},
			[]string{`limits.quue: unknown key; did you mean "queue"? (from --set)`},
		},
		{"set without value", "", conf.Source{Sets: []string{"limits"}}, []string{"limits: write --set section.key=value (from --set)"}},
		{"set into a value", "", conf.Source{Sets: []string{"verbose.x=1"}}, []string{"verbose.x: verbose has no keys of its own (from --set)"}},
		{"set wrong type", "", conf.Source{Sets: []string{"limits.queue=x"}}, []string{"limits.queue: is not a whole number (from --set)"}},
		{
			"environment wrong type", "",
			conf.Source{Environ: []string{"KVMESH_VERBOSE=x"}},
			[]string{"verbose: is not a true or false (from KVMESH_VERBOSE)"},
		},
		{
			"each from where it was set last", "limits: {queue: -1, timeout: -1s}",
			conf.Source{Sets: []string{"limits.queue=-3"}, Environ: []string{"KVMESH_LIMITS_QUEUE=-2", "KVMESH_LIMITS_TIMEOUT=-2s"}},
			[]string{
				"limits.queue: must be positive (from --set)", "limits.timeout: must not be negative (from KVMESH_LIMITS_TIMEOUT)",
			},
		},
		{
			"set inside a list", "backends: [{weight: x}]",
			conf.Source{Sets: []string{"backends=[{weight: y}, {uri: z}]"}},
			[]string{
				"backends[0].weight: is not a number (from --set)", `backends[1].uri: unknown key; did you mean "url"? (from --set)`,
			},
		},
		{
			"set beside a fault of the file", "limits: {queue: x}",
			conf.Source{Sets: []string{"limits.timeout=1s", "limits.queueing=1"}},
			[]string{`limits.queueing: unknown key; did you mean "queue"? (from --set)` + "\nlimits.queue: is not a whole number (line 1)", ""},
		},
		{
			"set over a wrong value of the file", "limits: {queue: x, body: y}",
			conf.Source{Sets: []string{"limits.queue=3"}},
			[]string{`limits.body: "y" is not a size`},
		},
		{
			"validation", "limits: {queue: -1, timeout: -1s}",
			conf.Source{},
			[]string{"limits.queue: must be positive", "limits.timeout: must not be negative"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.src.Path = write(t, row.text)
			err := conf.Load(row.src, new(edge))
			require.Error(t, err)
			require.Len(t, conf.List(err), len(row.want), err)
			for _, want := range row.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

// TestBlame: checks that run later tell who is to blame too; a key beside the one that was set is not.
func TestBlame(t *testing.T) {
	t.Parallel()
	src := conf.Source{
		Sets:    []string{"edge.keys=[a]", "edge.limits.queue=1", "broken"},
		Environ: []string{"KVMESH_EDGE_ADDRESS=x", "KVMESH_EDGE_LIMITS=y", "KVMESH_EDGE_KEYS=[b]", "KVMESH_EMPTY="},
	}
	for path, want := range map[string]string{
		"edge.keys": "--set", "edge.keys[0]": "--set", "edge.keysy": "", "edge.limits.queue": "--set", "edge.limits.body": "KVMESH_EDGE_LIMITS",
		"edge.address": "KVMESH_EDGE_ADDRESS", "edge": "", "": "", "empty": "", "other.limits.queue": "",
	} {
		var f conf.Faults
		f.Add(path, "is wrong")
		list := conf.List(conf.Blame(src, f.Err()))
		require.Len(t, list, 1)
		require.Equal(t, conf.Fault{Path: path, Message: "is wrong", Origin: want}, list[0])
	}
	require.NoError(t, conf.Blame(src, nil))
	other := errors.New("other")
	require.Equal(t, other, conf.Blame(src, other))
}

func TestSecretsAreNotInFaults(t *testing.T) {
	t.Parallel()
	err := conf.Load(conf.Source{Path: write(t, "backends: [{token: [hunter2]}]\nkeys: {hunter2: 1}\nlimits: {queue: hunter2}")}, new(edge))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestVariables(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, in, want string }{
		{"set", "${A}", "1"},
		{"inside", "x${A}y${A}", "x1y1"},
		{"default", "${B:-two}", "two"},
		{"default not used", "${A:-two}", "1"},
		{"empty default", "a${B:-}", "a"},
		{"escaped", "$${A}", "${A}"},
		{"lone", "a$b$", "a$b$"},
		{"not closed", "${A", "${A"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var got edge
			require.NoError(t, conf.Load(conf.Source{Path: write(t, "address: "+row.in), Environ: []string{"A=1"}}, &got))
			require.Equal(t, row.want, got.Address)
		})
	}
	var got edge
	require.NoError(t, conf.Load(conf.Source{Path: write(t, "limits:\n  queue: ${Q}"), Environ: []string{"Q=12"}}, &got))
	require.Equal(t, 12, got.Limits.Queue, "a variable may be a number")
}

func TestSections(t *testing.T) {
	t.Parallel()
	path := write(t, "edge: {verbose: true}\nlimits: {queue: 4}\nother: {x: \"${UNSET}\"}")
	var e edge
	var l limits
	sections := []conf.Section{{Key: "edge", Into: &e}, {Key: "limits", Into: &l}}
	err := conf.LoadSections(conf.Source{Path: path, Ignore: []string{"other"}, Environ: []string{"KVMESH_EDGE_LIMITS_QUEUE=5"}}, sections...)
	require.NoError(t, err)
	require.True(t, e.Verbose)
	require.Equal(t, 5, e.Limits.Queue)
	require.Equal(t, 4, l.Queue)
	err = conf.LoadSections(conf.Source{Path: path, Environ: []string{"UNSET=1"}}, sections...)
	require.ErrorContains(t, err, "other: unknown key")
	err = conf.LoadSections(conf.Source{Sets: []string{"edge.limits.queue=-1"}}, sections...)
	require.ErrorContains(t, err, "edge.limits.queue: must be positive")
}

func TestDumpHidesSecretsAndLoadsAgain(t *testing.T) {
	t.Parallel()
	var e, back edge
	require.NoError(t, conf.Load(conf.Source{Path: write(t, full), Environ: []string{"TOKEN=hunter2"}}, &e))
	raw, err := conf.Dump(conf.Section{Key: "edge", Into: &e})
	require.NoError(t, err)
	require.NotContains(t, string(raw), "hunter2")
	require.NotContains(t, string(raw), "u:p@")
	require.Contains(t, string(raw), "timeout: 1m30s")
	require.Contains(t, string(raw), "body: 8MiB")

	e.Keys, e.Backends = nil, nil
	raw, err = conf.Dump(conf.Section{Key: "edge", Into: &e})
	require.NoError(t, err)
	require.NoError(t, conf.LoadSections(conf.Source{Path: write(t, string(raw))}, conf.Section{Key: "edge", Into: &back}))
	require.Empty(t, cmp.Diff(e, back, cmp.AllowUnexported(edge{}), cmpopts.EquateEmpty()))
}

func TestReference(t *testing.T) {
	t.Parallel()
	page, err := conf.Reference(conf.Section{Key: "edge", Into: new(edge)})
	require.NoError(t, err)
	require.Contains(t, page, "| `edge.limits.body` | size (64MiB) |  | `KVMESH_EDGE_LIMITS_BODY` | largest request body |")
	require.Contains(t, page, "| `edge.limits.queue` | whole number | `7` |")
	require.NotContains(t, page, "Skipped")
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]conf.Bytes{
		"0": 0, "7": 7, "7B": 7, "2KiB": 2048, "2 KB": 2000, "64MiB": 64 << 20, "1GiB": 1 << 30, "1TB": 1e12, " 3MB ": 3e6,
	} {
		var b conf.Bytes
		require.NoError(t, b.UnmarshalText([]byte(in)), in)
		require.Equal(t, want, b, in)
		var again conf.Bytes
		require.NoError(t, again.UnmarshalText([]byte(b.String())))
		require.Equal(t, want, again)
	}
	for _, in := range []string{"", "x", "-1", "1.5MiB", "9999999999GiB", "MiB", "1MiBB"} {
		require.Error(t, new(conf.Bytes).UnmarshalText([]byte(in)), in)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	var inner, outer conf.Faults
	require.NoError(t, inner.Err())
	inner.Add("a", "is %d", 1)
	inner.Add("", "is all wrong")
	outer.Under("s", inner.Err())
	outer.Under("t", nil)
	outer.Under("u", errors.New("plain"))
	require.EqualError(t, outer.Err(), "s.a: is 1\ns: is all wrong\nu: plain")
	require.Nil(t, conf.List(errors.New("x")))
}

func TestLoadRefusesOtherTargets(t *testing.T) {
	t.Parallel()
	require.Error(t, conf.Load(conf.Source{}, edge{}))
	require.Error(t, conf.Load(conf.Source{}, new(int)))
	require.ErrorContains(t, conf.Load(conf.Source{Path: "/does/not/exist"}, new(edge)), "/does/not/exist")
	require.Error(t, conf.Load(conf.Source{Path: write(t, "a: [")}, new(edge)))
}

// FuzzLoad: no file makes the loader panic, and what loads can be dumped.
func FuzzLoad(f *testing.F) {
	f.Add(full, "limits.queue=3")
	f.Add("a: &a [*a]", "x")
	f.Add("? [x]\n: y", "backends=[{url: a}]")
	f.Add("<<: {verbose: true}", "alias.a.b=c")
	f.Add("limits: !!binary aGk=", "=")
	f.Fuzz(func(t *testing.T, text, set string) {
		if strings.Count(text, "*") > 8 {
			return // aliases of aliases grow without bound in any reader
		}
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		var e edge
		if conf.Load(conf.Source{Path: path, Sets: []string{set}}, &e) == nil {
			_, err := conf.Dump(conf.Section{Key: "e", Into: &e})
			require.NoError(t, err)
		}
	})
}

func TestDefault(t *testing.T) {
	t.Parallel()
	type key struct {
		n int
		d time.Duration
		s string
		b conf.Bytes
	}
	want := key{n: 7, d: time.Second, s: "x", b: conf.MiB}
	for _, row := range []struct {
		name     string
		is, then key
	}{
		{name: "zero takes the default", then: want},
		{name: "what is set stays", is: key{n: -1, d: 1, s: " ", b: 1}, then: key{n: -1, d: 1, s: " ", b: 1}},
		{name: "each field by itself", is: key{n: 3, s: "y"}, then: key{n: 3, d: time.Second, s: "y", b: conf.MiB}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := row.is
			conf.Default(&got.n, want.n)
			conf.Default(&got.d, want.d)
			conf.Default(&got.s, want.s)
			conf.Default(&got.b, want.b)
			require.Equal(t, row.then, got)
		})
	}
}
