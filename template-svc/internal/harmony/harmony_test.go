package harmony

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden is a request and the prompt that the published implementation and vLLM's code made of it
// (testdata/make_harmony.py).
type golden struct {
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Effort   string          `json:"effort"`
	Want     string          `json:"want"`
	Cuts     []uint32        `json:"cuts"`
	Error    string          `json:"error"`
}

func parse(t testing.TB, raw string) value.Value {
	t.Helper()
	if raw == "" {
		return value.None
	}
	v, err := jinja.FromJSON([]byte(raw))
	require.NoError(t, err)
	return v
}

func date() time.Time { return time.Date(2026, 3, 5, 23, 59, 0, 0, time.UTC) }

func render(t testing.TB, messages, tools, effort string) (Prompt, error) {
	t.Helper()
	return Render(Request{Messages: parse(t, messages), Tools: parse(t, tools), Effort: effort, Date: date()})
}

func TestOracle(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/harmony.json")
	require.NoError(t, err)
	var cases []golden
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.Greater(t, len(cases), 400)
	refused := 0
	for i, c := range cases {
		got, err := render(t, string(c.Messages), string(c.Tools), c.Effort)
		if c.Error != "" {
			refused++
			require.ErrorIs(t, err, ErrRequest, "case %d", i)
			continue
		}
		require.NoError(t, err, "case %d", i)
		require.Equal(t, c.Want, string(got.Text), "case %d", i)
		require.Equal(t, len(c.Cuts), len(got.Cuts), "case %d", i)
		for k := range c.Cuts {
			require.Equal(t, c.Cuts[k], got.Cuts[k], "case %d", i)
		}
	}
	t.Logf("%d prompts equal, %d refused by both", len(cases)-refused, refused)
}

func user(text string) string {
	raw, _ := json.Marshal(text)
	return `[{"role":"user","content":` + string(raw) + `}]`
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, messages, tools, effort string
		want                          error
	}{
		{"messages that are no list", `{}`, "", "", ErrRequest},
		{"a role that Harmony lacks", `[{"role":"critic","content":"x"}]`, "", "", ErrRequest},
		{"effort none", user("x"), "", "none", ErrRequest},
		{"an effort that Harmony lacks", user("x"), "", "minimal", ErrRequest},
		{"no tools in the list", user("x"), `[]`, "", ErrRequest},
		{"a tool without name", user("x"), `[{"function":{}}]`, "", ErrRequest},
		{"parameters that are no object", user("x"), `[{"function":{"name":"f","parameters":[]}}]`, "", ErrRequest},
		{"bare strings as parts", `[{"role":"user","content":["x"]}]`, "", "", ErrRequest},
		{"null text", `[{"role":"user","content":[{"type":"text","text":null}]}]`, "", "", ErrRequest},
		{"content that is a number", `[{"role":"user","content":5}]`, "", "", ErrRequest},
		{"null tool_calls", `[{"role":"assistant","content":"x","tool_calls":null}]`, "", "", ErrRequest},
		{"a call without id", `[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":""}}]}]`, "", "", ErrRequest},
		{
			"arguments as an object, whose text is gone",
			`[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":{}}}]}]`, "", "", ErrCannot,
		},
		{
			"a schema beyond the depth", user("x"),
			`[{"function":{"name":"f","parameters":{"type":"array","items":` + strings.Repeat(`{"type":"array","items":`, maxDepth) + `{}` +
				strings.Repeat(`}`, maxDepth+1) + `}}]`, "", ErrRequest,
		},
		{"more parts than cuts can say", user(strings.Repeat("<|end|>", maxCuts+1)), "", "", ErrCannot},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, row.messages, row.tools, row.effort)
			require.ErrorIs(t, err, row.want)
			require.NotContains(t, err.Error(), "critic", "no text of the request")
		})
	}
}

// TestCutsSplitEveryLookAlike: no piece holds a special token that the conversation wrote as text.
func TestCutsSplitEveryLookAlike(t *testing.T) {
	t.Parallel()
	clean, err := render(t, user("x"), "", "")
	require.NoError(t, err)
	got, err := render(t, user("a<|start|>b<|end|><|call|><|reserved_200018|>"), "", "")
	require.NoError(t, err)
	require.Len(t, got.Cuts, 4)
	found, start := 0, uint32(0)
	for _, cut := range append(got.Cuts, uint32(len(got.Text))) {
		found += len(names.FindAll(got.Text[start:cut], -1))
		start = cut
	}
	require.Equal(t, len(names.FindAll(clean.Text, -1)), found, "only the format's own tokens are found")
}

func TestNumbersAreRusts(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"0.00001": "0.00001", "1e-6": "1e-6", "1e16": "1e+16", "1e15": "1000000000000000.0", "-0.0": "-0.0", "100.0": "100.0",
		"-1.25e-9": "-1.25e-9", "18446744073709551615": "18446744073709551615", "18446744073709551616": "1.8446744073709552e+19",
		"12345678901234567890123": "1.2345678901234568e+22", "5": "5", "[1,{\"a\":null}]": `[1,{"a":null}]`,
		"\"\\u2028\\\\u2028\\u0001\"": "\"\u2028\\\\u2028\\u0001\"", "true": "true",
	} {
		require.Equal(t, want, jsonOf(parse(t, source)), source)
	}
}

// FuzzRender: no request ends the process, and cuts are ascending offsets into the text.
func FuzzRender(f *testing.F) {
	f.Add(user("hi"), `[{"function":{"name":"f","parameters":{"type":"object","properties":{"a":{"oneOf":[{}]}}}}}]`, "low")
	f.Add(`[{"role":"assistant","reasoning":"r","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}]`, "", "")
	f.Add(`[{"role":"user","content":[{"text":"<|end|>"},{"text":""}]}]`, `[{"function":{"name":"f","parameters":{"type":["x",1]}}}]`, "")
	f.Fuzz(func(t *testing.T, messages, tools, effort string) {
		m, err := jinja.FromJSON([]byte(messages))
		if err != nil {
			return
		}
		k, err := jinja.FromJSON([]byte(tools))
		if err != nil {
			k = value.None
		}
		p, err := Render(Request{Messages: m, Tools: k, Effort: effort, Date: date()})
		if err != nil {
			return
		}
		last := uint32(0)
		for _, cut := range p.Cuts {
			require.LessOrEqual(t, last, cut)
			require.LessOrEqual(t, int(cut), len(p.Text))
			last = cut
		}
	})
}
