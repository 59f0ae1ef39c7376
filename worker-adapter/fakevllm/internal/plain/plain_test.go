package plain_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/plain"
)

func TestTokenizer(t *testing.T) {
	t.Parallel()
	var tok plain.Tokenizer
	for _, row := range []struct {
		name, text string
		tokens     int
	}{
		{"bytes", "abc", 3},
		{"characters", "é", 2},
		{"markers", "<|im_start|>a<|im_end|>", 3},
		{"thought", "<think></think>", 2},
		{"call", "<tool_call>x</tool_call>", 3},
		{"no marker", "<|im_star", 9},
		{"empty", "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ids, err := tok.Encode(t.Context(), []byte(row.text), true)
			require.NoError(t, err)
			require.Len(t, ids, row.tokens)
			text, err := tok.Decode(ids)
			require.NoError(t, err)
			require.Equal(t, row.text, text)
			for _, id := range ids {
				require.Less(t, id, plain.VocabSize)
			}
		})
	}
	text, err := tok.Decode([]uint32{0xc3, 500000})
	require.NoError(t, err)
	require.Equal(t, "\uFFFD", text)
}

func TestRenderer(t *testing.T) {
	t.Parallel()
	const open = "<|im_start|>assistant\n"
	for _, row := range []struct{ name, body, want string }{
		{"one turn", `{"messages":[{"role":"user","content":"hi"}]}`, "<|im_start|>user\nhi<|im_end|>\n" + open},
		{"developer is system", `{"messages":[{"role":"developer","content":"b"}]}`, "<|im_start|>system\nb<|im_end|>\n" + open},
		{
			"parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},"b"]}]}`,
			"<|im_start|>user\na\nb<|im_end|>\n" + open,
		},
		{
			"no generation prompt", `{"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false}`,
			"<|im_start|>user\na<|im_end|>\n",
		},
		{"continued", `{"messages":[{"role":"assistant","content":"a"}],"continue_final_message":true}`, open + "a"},
		{"without a thought", `{"messages":[],"tools":null,"x":0}`, ""},
		{
			"thinking off", `{"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"enable_thinking":false}}`,
			"<|im_start|>user\na<|im_end|>\n" + open + "<think>\n\n</think>\n\n",
		},
		{
			"no effort", `{"messages":[{"role":"user","content":"a"}],"reasoning_effort":"none"}`,
			"<|im_start|>user\na<|im_end|>\n" + open + "<think>\n\n</think>\n\n",
		},
		{
			"tools", `{"messages":[{"role":"user","content":"a"}],"tools":[{"function":{"name":"f"}}]}`,
			"<|im_start|>system\nTools:\n{\"name\":\"f\"}<|im_end|>\n<|im_start|>user\na<|im_end|>\n" + open,
		},
		{
			"calls", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`,
			open + "\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call><|im_end|>\n" + open,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := plain.Renderer{}.Render(t.Context(), []byte(row.body))
			if row.want == "" {
				require.ErrorContains(t, err, "empty conversation")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, string(got))
		})
	}
	_, err := plain.Renderer{}.Render(t.Context(), []byte("{"))
	require.Error(t, err)
}

func TestLaterTurnsBeginWithEarlierOnes(t *testing.T) {
	t.Parallel()
	render := func(body string) string {
		text, err := plain.Renderer{}.Render(t.Context(), []byte(body))
		require.NoError(t, err)
		return string(text)
	}
	one := render(`{"messages":[{"role":"user","content":"q"}]}`)
	two := render(`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}]}`)
	require.True(t, strings.HasPrefix(two, one))
}
