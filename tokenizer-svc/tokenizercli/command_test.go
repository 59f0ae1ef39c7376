package tokenizercli_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
	"github.com/kvmesh/kvmesh/tokenizer-svc/tokenizercli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run parses args as kong does in kvmesh, runs the command, and returns its output.
func run(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	var command tokenizercli.Command
	parser, err := kong.New(&command)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	var out bytes.Buffer
	err = command.Run(t.Context(), tokenizercli.IO{In: strings.NewReader(in), Out: &out})
	return out.String(), err
}

func ids(t *testing.T, line string) []uint32 {
	t.Helper()
	var answer struct {
		IDs   []uint32                  `json:"ids"`
		Error *struct{ Message string } `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(line), &answer))
	require.Nil(t, answer.Error)
	require.NotNil(t, answer.IDs)
	return answer.IDs
}

func TestOneText(t *testing.T) {
	t.Parallel()
	demo := fixture.Demo(t)
	bert := fixture.Directory(t, "wordpiece")
	rows := []struct {
		name, in string
		args     []string
		want     string
	}{
		{"argument", "", []string{"-m", demo, "<|im_start|>user"}, "{\"ids\":[7990,2964]}\n"},
		{"several arguments", "", []string{"-m", demo, "<|im_end|>", "<|im_end|>"}, "{\"ids\":[7991,220,7991]}\n"},
		{"standard input", "<|im_end|>", []string{"-m", demo}, "{\"ids\":[7991]}\n"},
		{"nothing", "", []string{"-m", demo}, "{\"ids\":[]}\n"},
		{"name", "<|im_end|>", []string{"-m", "demo", "--dir", "demo=" + demo}, "{\"ids\":[7991]}\n"},
		{"reference engine", "<|im_end|>", []string{"-m", demo, "--engine", "reference"}, "{\"ids\":[7991]}\n"},
		{"without special tokens", "[SEP]", []string{"-m", bert}, "{\"ids\":[2]}\n"},
		{"with special tokens", "[SEP]", []string{"-m", bert, "--add-special-tokens"}, "{\"ids\":[1,2,2]}\n"},
		{"pieces", "<|im_end|>\n", []string{"-m", demo, "--pieces"}, "0\t7991\t\"<|im_end|>\"\n1\t198\t\"\\n\"\n"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, row.in, row.args...)
			require.NoError(t, err)
			require.Equal(t, row.want, out)
		})
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	demo := fixture.Demo(t)
	question := func(fields map[string]any) string {
		data, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(data)
	}
	rows := []struct {
		name, line string
		want       []uint32
		fails      string
	}{
		{"text", question(map[string]any{"model": demo, "text": "<|im_end|>"}), []uint32{7991}, ""},
		{"name", question(map[string]any{"model": "demo", "text": "<|im_end|>"}), []uint32{7991}, ""},
		{"default model", question(map[string]any{"text": ""}), []uint32{}, ""},
		{"special tokens", question(map[string]any{"model": "wp", "text": "[SEP]", "add_special_tokens": true}), []uint32{1, 2, 2}, ""},
		{"NUL", `{"text":"\u0000"}`, []uint32{188}, ""},
		{"long run", question(map[string]any{"text": strings.Repeat(" ", 257<<10)}), nil, "a run of 263168 bytes of one kind"},
		{"long text", question(map[string]any{"text": strings.Repeat("a b ", 3<<20)}), nil, "more than the limit of"},
		{"no JSON", `{"text":`, nil, "not a JSON object"},
		{"no text", `{"model":"demo"}`, nil, "model and text are needed"},
		{"another type", `{"text":5}`, nil, "not a JSON object"},
		{"unknown model", `{"model":"nope","text":"x"}`, nil, `"nope" is neither a folder nor a configured name`},
		{"refused model", question(map[string]any{"model": t.TempDir(), "text": "x"}), nil, "no tokenizer.json"},
	}
	var in strings.Builder
	for _, row := range rows {
		in.WriteString(row.line + "\n\n")
	}
	out, err := run(t, strings.TrimSpace(in.String()), "--batch", "-m", demo, "--dir", "demo="+demo, "--dir",
		"wp="+fixture.Directory(t, "wordpiece"))
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, len(rows))
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if row.fails == "" {
				require.Equal(t, row.want, ids(t, lines[i]))
				return
			}
			require.Contains(t, lines[i], `{"error":{"message":`)
			var answer struct{ Error struct{ Message string } }
			require.NoError(t, json.Unmarshal([]byte(lines[i]), &answer))
			require.Contains(t, answer.Error.Message, row.fails)
		})
	}
}

// TestBatchAnswersEachLine talks to the command as a program does: it writes a line and waits for the answer.
func TestBatchAnswersEachLine(t *testing.T) {
	t.Parallel()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	command := tokenizercli.Command{
		Batch: true, Model: fixture.Demo(t), Engine: "auto", MaxTextBytes: 100, MaxReferenceTextBytes: 100, MaxRunBytes: 100,
	}
	done := make(chan error, 1)
	go func() { done <- command.Run(t.Context(), tokenizercli.IO{In: inRead, Out: outWrite}) }()
	answers := json.NewDecoder(outRead)
	for range 3 {
		_, err := inWrite.Write([]byte("{\"text\":\"<|im_end|>\"}\n"))
		require.NoError(t, err)
		var answer struct{ IDs []uint32 }
		require.NoError(t, answers.Decode(&answer))
		require.Equal(t, []uint32{7991}, answer.IDs)
	}
	require.NoError(t, inWrite.Close())
	require.NoError(t, <-done)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tekken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(tekken, "tekken.json"), nil, 0o600))
	rows := []struct {
		name, says string
		args       []string
	}{
		{"no model", "give --model", []string{"x"}},
		{"unknown model", "neither a folder", []string{"-m", "nope", "x"}},
		{"long text", "has 4 bytes, more than the limit of 3", []string{"-m", fixture.Demo(t), "--max-text-bytes", "3", "abcd"}},
		{"refused format", "tekken", []string{"-m", tekken, "x"}},
		{"a file", "not a directory", []string{"-m", filepath.Join(tekken, "tekken.json"), "x"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, "", row.args...)
			require.ErrorContains(t, err, row.says)
		})
	}
}

func TestLinesAreBounded(t *testing.T) {
	t.Parallel()
	endless := io.MultiReader(strings.NewReader(`{"text":"`), io.LimitReader(letters{}, 70<<20))
	command := tokenizercli.Command{Batch: true, Model: fixture.Demo(t)}
	err := command.Run(t.Context(), tokenizercli.IO{In: endless, Out: io.Discard})
	require.ErrorContains(t, err, "more than 67108864 bytes")
	command = tokenizercli.Command{Model: fixture.Demo(t)}
	err = command.Run(t.Context(), tokenizercli.IO{In: io.LimitReader(letters{}, 70<<20), Out: io.Discard})
	require.ErrorContains(t, err, "more than 67108864 bytes")
}

// letters is an endless text.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}
