package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
	"github.com/kvmesh/kvmesh/template-svc/internal/media"
)

// mediaCase is a conversation and what vLLM's own functions made of it (testdata/make_media.py).
type mediaCase struct {
	Arch       string          `json:"arch"`
	Format     string          `json:"format"`
	Interleave bool            `json:"interleave"`
	Messages   json.RawMessage `json:"messages"`
	Want       json.RawMessage `json:"want"`
	Error      bool            `json:"error"`
}

// TestMediaOracle compares conversations with media, parts and odd members with vLLM's.
func TestMediaOracle(t *testing.T) {
	t.Parallel()
	var cases []mediaCase
	readJSON(t, "testdata/media.json", &cases)
	require.Greater(t, len(cases), 500)
	refused := 0
	for i, c := range cases {
		list, err := jinja.FromJSON(c.Messages)
		require.NoError(t, err)
		n := normaliser{openai: c.Format == jinja.FormatOpenAI, interleave: c.Interleave, places: media.Of(c.Arch)}
		got, err := conversationFor(&n, list)
		if c.Error {
			refused++
			require.Error(t, err, "case %d: %s", i, c.Messages)
			continue
		}
		require.NoError(t, err, "case %d: %s", i, c.Messages)
		want, err := jinja.FromJSON(c.Want)
		require.NoError(t, err)
		require.Equal(t, dumpOf(t, want), dumpOf(t, value.List(got)), "case %d, %s %v: %s", i, c.Arch, c.Interleave, c.Messages)
	}
	require.Positive(t, refused)
	t.Logf("%d conversations equal, %d of them refused by both", len(cases), refused)
}

// conversationFor normalises past the request model, which the oracle leaves out.
func conversationFor(n *normaliser, list value.Value) ([]value.Value, error) {
	out := make([]value.Value, 0, len(list.Cells()))
	for _, m := range list.Cells() {
		d := m.AsDict().Clone()
		d.SetStr("task", value.None)
		made, err := n.message(value.NewDict(3), value.OfDict(d), true)
		if err != nil {
			return nil, err
		}
		out = append(out, made)
	}
	return out, nil
}

func dumpOf(t *testing.T, v value.Value) string {
	t.Helper()
	tmpl, err := jinja.Compile("{{ v|tojson }}", jinja.Limits{})
	require.NoError(t, err)
	text, err := tmpl.Render(t.Context(), nil, jinja.Env{Vars: []jinja.Var{{Name: "v", Value: v}}})
	require.NoError(t, err)
	return string(text)
}

const (
	image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	other = `{"type":"image_url","image_url":{"url":"data:image/png;base64,BBBB"}}`
	audio = `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`
)

func user(parts ...string) string {
	return `{"role":"user","content":[` + strings.Join(parts, ",") + `]}`
}

func words(s string) string { return `{"type":"text","text":"` + s + `"}` }

// partsTemplate is of the openai format and writes placeholders itself.
const partsTemplate = `{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{% if p.type == 'image' %}[IMG]` +
	`{% elif p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}</s>{% endfor %}`

// plainTemplate is of the string format.
const plainTemplate = `{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</s>{% endfor %}`

func TestExactPrefixOfMedia(t *testing.T) {
	t.Parallel()
	qwen, phi := media.Of("Qwen2VLForConditionalGeneration"), media.Of("Phi4MMForCausalLM")
	pixtral := media.Of("PixtralForConditionalGeneration")
	const pad = "<|vision_start|><|image_pad|><|vision_end|>"
	rows := []struct {
		name, source, messages string
		opts                   Options
		text, prefix           string
		keys                   int
	}{
		{
			"openai: after the text before it", partsTemplate, user(words("a"), image, words("b")),
			Options{Media: qwen},
			"<user>a[IMG]b</s>", "<user>a", 1,
		},
		{
			"openai: the second turn's text is not exact", partsTemplate,
			`{"role":"system","content":"S"},` + user(image) + `,` + user(words("x")),
			Options{Media: qwen},
			"<system>S</s><user>[IMG]</s><user>x</s>", "<system>S</s><user>", 1,
		},
		{
			"openai: an architecture that is not in the table", partsTemplate, user(words("a"), image),
			Options{},
			"<user>a[IMG]</s>", "<user>a", 1,
		},
		{
			"openai: the template writes nothing", `{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}`,
			user(words("a"), image),
			Options{Media: qwen},
			"a", "", 1,
		},
		{
			"string: in front", plainTemplate, `{"role":"system","content":"S"},` + user(words("a"), image),
			Options{Media: qwen},
			"<system>S</s><user>" + pad + "\na</s>", "<system>S</s><user>", 1,
		},
		{
			"string: interleaved", plainTemplate, user(words("a"), image, words("b")),
			Options{Media: qwen, Interleave: true},
			"<user>a\n" + pad + "\nb</s>", "<user>a\n", 1,
		},
		{
			"string: placed by hand", plainTemplate, user(words("look: "+pad+" there"), image),
			Options{Media: qwen},
			"<user>look: " + pad + " there</s>", "<user>look: ", 1,
		},
		{
			"string: numbered over the conversation", plainTemplate, user(image, audio) + "," + user(other, words("x")),
			Options{Media: phi},
			"<user><|image_1|>\n<|audio_1|></s><user><|image_2|>\nx</s>", "<user>", 3,
		},
		{
			"string: the model adds no text", plainTemplate, user(words("a"), image),
			Options{Media: pixtral},
			"<user>a</s>", "", 1,
		},
		{
			"string: an architecture that is not in the table", plainTemplate, user(words("a"), image),
			Options{},
			"<user>a</s>", "", 1,
		},
		{
			"the format is the server's", plainTemplate, user(words("a"), image),
			Options{Media: qwen, Format: jinja.FormatString},
			"<user>" + pad + "\na</s>", "<user>", 1,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := model(t, row.source, row.opts).Render(t.Context(), &Request{MessagesJSON: []byte("[" + row.messages + "]")})
			require.NoError(t, err)
			require.Equal(t, row.text, string(got.Text))
			require.Len(t, got.Media.Keys, row.keys)
			placed := 0
			for _, p := range got.Media.Rest {
				if p.Key != "" {
					require.Contains(t, got.Media.Keys, p.Key)
					placed++
				}
			}
			require.Equal(t, row.keys, placed, "every item enters the rest, with a place or without")
			require.Equal(t, row.prefix, string(got.Text[:got.Media.ExactBytes]))
		})
	}
}

// TestRestGrowsByTurns: what stands after the exact part, keys in place of media, is a prefix of the next turn's.
func TestRestGrowsByTurns(t *testing.T) {
	t.Parallel()
	flat := func(r Result) string {
		var out strings.Builder
		out.Write(r.Text[:r.Media.ExactBytes])
		for _, p := range r.Media.Rest {
			out.Write(p.Text)
			out.WriteString(p.Key)
		}
		return out.String()
	}
	for _, source := range []string{partsTemplate, plainTemplate} {
		m := model(t, source, Options{Media: media.Of("Qwen2VLForConditionalGeneration")})
		var conversation []string
		var last string
		for turn := range 6 {
			conversation = append(conversation, user(words(fmt.Sprint("turn ", turn)), []string{image, other}[turn%2]))
			got, err := m.Render(t.Context(), &Request{MessagesJSON: []byte("[" + strings.Join(conversation, ",") + "]")})
			require.NoError(t, err)
			require.Len(t, got.Media.Rest, 2*(turn+1)+1, "text and key by turns")
			require.True(t, strings.HasPrefix(flat(got), last))
			last = flat(got)
		}
	}
}

func TestKeysTellItemsApart(t *testing.T) {
	t.Parallel()
	key := func(part string) string {
		got, err := model(t, partsTemplate, Options{}).Render(t.Context(), &Request{MessagesJSON: []byte("[" + user(part) + "]")})
		require.NoError(t, err)
		require.Len(t, got.Media.Rest, 3)
		return got.Media.Rest[1].Key
	}
	seen := map[string]string{}
	for _, part := range []string{
		image, other, audio,
		`{"type":"video_url","video_url":{"url":"data:image/png;base64,AAAA"}}`,
		`{"type":"image_url","image_url":{"url":"x"},"uuid":"1"}`,
		`{"type":"image_url","image_url":{"url":"x"},"uuid":"2"}`,
		`{"type":"image_embeds","image_embeds":{"a":"AA","shape":[1,2]}}`,
	} {
		require.Len(t, key(part), 32)
		require.Empty(t, seen[key(part)], part)
		seen[key(part)] = part
	}
	require.Equal(t, key(image), key(`{"cache_control":{},"image_url":{"url":"data:image/png;base64,AAAA"},"type":"image_url"}`))
	require.Equal(t, key(`{"image_url":"x","uuid":"1"}`), key(`{"type":"image_url","image_url":{"url":"y"},"uuid":"1"}`),
		"the client's uuid names the item")
}

func TestManyItemsStayCheap(t *testing.T) {
	t.Parallel()
	parts := make([]string, maxItems)
	for i := range parts {
		parts[i] = image
	}
	m := model(t, plainTemplate, Options{Media: media.Of("Phi4MMForCausalLM")})
	got, err := m.Render(t.Context(), &Request{MessagesJSON: []byte("[" + user(parts...) + "]")})
	require.NoError(t, err)
	require.Len(t, got.Media.Rest, 2*maxItems+1)
	_, err = m.Render(t.Context(), &Request{MessagesJSON: []byte("[" + user(append(parts, image)...) + "]")})
	require.ErrorContains(t, err, "too many")
}
