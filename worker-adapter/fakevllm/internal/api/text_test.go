package api

import (
	"context"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/plain"
)

// wordTokenizer has a token for each word with the space before it, bytes for what is no ASCII, and leaves its special
// token out when it decodes: what the tokenizers of real models do.
type wordTokenizer struct{ words *[]string }

const (
	special     = "<tool_call>"
	specialID   = 9000
	byteTokens  = 10000
	firstWordID = 1
)

func (w wordTokenizer) Encode(_ context.Context, text []byte, _ bool) ([]uint32, error) {
	var ids []uint32
	rest := string(text)
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, special):
			ids, rest = append(ids, specialID), rest[len(special):]
		case rest[0] >= utf8.RuneSelf:
			ids, rest = append(ids, byteTokens+uint32(rest[0])), rest[1:]
		default:
			n := 1
			for n < len(rest) && rest[n] != ' ' && rest[n] < utf8.RuneSelf && !strings.HasPrefix(rest[n:], special) {
				n++
			}
			ids, rest = append(ids, w.id(rest[:n])), rest[n:]
		}
	}
	return ids, nil
}

func (w wordTokenizer) id(word string) uint32 {
	for i, have := range *w.words {
		if have == word {
			return uint32(i) + firstWordID
		}
	}
	*w.words = append(*w.words, word)
	return uint32(len(*w.words)-1) + firstWordID
}

func (w wordTokenizer) Decode(ids []uint32) (string, error) {
	var b []byte
	for _, id := range ids {
		switch {
		case id == specialID:
		case id >= byteTokens:
			b = append(b, byte(id-byteTokens))
		default:
			b = append(b, (*w.words)[id-firstWordID]...)
		}
	}
	return strings.ToValidUTF8(strings.TrimPrefix(string(b), " "), "\uFFFD"), nil // a first space is trimmed
}

func TestEndsOfTokens(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, text string
		want       []string // what each token adds
	}{
		{"words", "one two three", []string{"one", " two", " three"}},
		{"leading space", " one two", []string{" one", " two"}},
		{"split character", "a é b", []string{"a", " ", "", "é", " b"}},
		{"four bytes", "😀", []string{"", "", "", "😀"}},
		{"special token left out", "a <tool_call>\n{} b", []string{"a", " ", "", "<tool_call>\n{}", " b"}},
		{"nothing", "", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			tok := wordTokenizer{words: &[]string{}}
			d, err := newDetokenizer(t.Context(), tok)
			require.NoError(t, err)
			ids, err := tok.Encode(t.Context(), []byte(row.text), false)
			require.NoError(t, err)
			from := 0
			var got []string
			for _, end := range d.ends(row.text, ids) {
				got = append(got, row.text[from:end])
				from = end
			}
			require.Equal(t, row.want, got)
		})
	}
}

// FuzzEnds holds that all of a text is shown, in order, whatever it is made of.
func FuzzEnds(f *testing.F) {
	for _, seed := range []string{"a b", "é", "<think>x</think>", "<tool_call>\n{}", "😀😀 x", "\u200d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || text == "" {
			return
		}
		for _, tok := range []Tokenizer{plain.Tokenizer{}, wordTokenizer{words: &[]string{}}} {
			d, err := newDetokenizer(t.Context(), tok)
			require.NoError(t, err)
			ids, err := tok.Encode(t.Context(), []byte(text), false)
			require.NoError(t, err)
			last := 0
			for _, end := range d.ends(text, ids) {
				require.GreaterOrEqual(t, end, last)
				require.True(t, utf8.ValidString(text[last:end]))
				last = end
			}
			require.Equal(t, len(text), last)
		}
	})
}

const call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"

func TestSplit(t *testing.T) {
	t.Parallel()
	type piece struct {
		kind regionKind
		text string
	}
	for _, row := range []struct {
		name, text      string
		thinking, tools bool
		want            []piece // markup left out
	}{
		{"answer", "abc", false, true, []piece{{content, "abc"}}},
		{"nothing", "", false, false, []piece{{content, ""}}},
		{"unfinished thought", "abc", true, true, []piece{{reasoning, "abc"}}},
		{"thought and answer", "hm</think>\n\nabc", true, true, []piece{{reasoning, "hm"}, {content, "abc"}}},
		{"thought and nothing", "hm</think>\n\n", true, true, []piece{{reasoning, "hm"}}},
		{"call", call, false, true, []piece{{arguments, `{"a": 1}`}}},
		{"calls are text without tools", call, false, false, []piece{{content, call}}},
		{
			"words and two calls", "Ok: " + call + "\n" + call, false, true,
			[]piece{{content, "Ok: "}, {arguments, `{"a": 1}`}, {arguments, `{"a": 1}`}},
		},
		{"thought and call", "hm</think>\n\n" + call, true, true, []piece{{reasoning, "hm"}, {arguments, `{"a": 1}`}}},
		{"unfinished call", call[:30], false, true, []piece{{content, call[:30]}}},
		{"call that is no JSON", "<tool_call>\nx\n</tool_call>", false, true, []piece{{content, "<tool_call>\nx\n</tool_call>"}}},
		{"call without a name", "<tool_call>\n{}\n</tool_call>", false, true, []piece{{content, "<tool_call>\n{}\n</tool_call>"}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var got []piece
			at := 0
			for _, r := range split(row.text, row.thinking, row.tools) {
				require.Equal(t, at, r.from, "regions leave no gap")
				at = r.to
				if r.kind != markup {
					got = append(got, piece{r.kind, row.text[r.from:r.to]})
				}
			}
			require.Equal(t, len(row.text), at)
			require.Equal(t, row.want, got)
		})
	}
}

// Cutting a text into deltas at any places and joining them gives what is said at once.
func TestDeltasAddUpToTheMessage(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"abc", "hm</think>\n\nabc", "hm</think>\n\n" + call, "hm</think>\n\nOk: " + call + "\n" + call,
	} {
		thinking := strings.Contains(text, thoughtEnd)
		p := &plan{text: text, regions: split(text, thinking, true)}
		p.flow = p.regions
		want := p.message(text)
		for _, step := range []int{1, 2, 3, 7, len(text)} {
			var got message
			for from := 0; from < len(text); from += step {
				d := p.delta(from, min(len(text), from+step))
				got.content += d.content
				got.reasoning += d.reasoning
				for _, c := range d.calls {
					if c.name != "" {
						got.calls = append(got.calls, toolCall{name: c.name})
						continue
					}
					got.calls[c.call].arguments += c.arguments
				}
			}
			got.hasContent = want.hasContent
			require.Equal(t, want, got, "%q by %d", text, step)
		}
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		text, name string
		want       bool
	}{
		{"Weather in Paris?", "get_weather", true},
		{"Say hello.", "get_weather", false},
		{"get it", "get_it", false},
		{"what TIME is it", "time.now", true},
		{"", "x", false},
	} {
		require.Equal(t, row.want, mentions(row.text, row.name), row.name)
	}
}
