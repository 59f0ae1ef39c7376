package probe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/probe"
)

func TestOfTemplate(t *testing.T) {
	t.Parallel()
	const source = "{# note #}<|im_start|>{% for m in messages %}{{ '<|user|>\\n' + m.content + \"<|end|>\" }}\n{% endfor %}{{ x }}</s>"
	texts := probe.OfTemplate(source)
	require.Len(t, texts, 3)
	require.Equal(t, "<|im_start|><|user|>\n<|end|>\n</s>", string(texts[1]), "marks in order, escapes read")
	require.Contains(t, string(texts[0]), "<|im_start|><|user|>\n<|end|>")
	require.Greater(t, len(texts[0]), len(texts[1]), "something stands where the template prints")
	require.NotContains(t, string(texts[0]), "note")
	require.Equal(t, source, string(texts[2]))
	require.Equal(t, texts, probe.OfTemplate(source))
	require.Nil(t, probe.OfTemplate(""))
}

func TestOfOddTemplates(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"plain", "{{", "{% 'open %}", "{{ '\\' }}x", strings.Repeat("{{ 'a' }}", 100_000)} {
		texts := probe.OfTemplate(source)
		require.Len(t, texts, 3)
		require.LessOrEqual(t, len(texts[2]), 64<<10)
	}
}
