package prompt

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"

	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

// conversation is a rendered prompt with media; a piece that begins with "key:" is an item.
func conversation(exact string, rest ...string) *templatev1.RenderResponse {
	r := &templatev1.RenderResponse{Text: []byte(exact + strings.Join(rest, "")), ExactBytes: uint32(len(exact))}
	for _, p := range rest {
		if key, ok := strings.CutPrefix(p, "key:"); ok {
			r.MediaKeys = append(r.MediaKeys, key)
			r.Rest = append(r.Rest, &templatev1.PromptPiece{Piece: &templatev1.PromptPiece_MediaKey{MediaKey: key}})
			continue
		}
		r.Rest = append(r.Rest, &templatev1.PromptPiece{Piece: &templatev1.PromptPiece_Text{Text: []byte(p)}})
	}
	return r
}

func prepare(t *testing.T, s *services, doc string, m fleet.Model) *Prompt {
	t.Helper()
	p, err := s.preparer(nil).Prepare(context.Background(), scan(t, openai.ShapeChat, doc), m)
	require.NoError(t, err)
	return p
}

const plain = `{"messages":[{}]}`

func TestMediaPromptsBeginExactly(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		tokens uint32
		exact  []uint64
	}{
		{"whole units before the first item", 40, []uint64{1, 2}},
		{"the last token may change with what follows", 32, []uint64{1}},
		{"a token more", 33, []uint64{1, 2}},
		{"nothing before it", 1, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &services{tokens: row.tokens, response: conversation("<system>", "", "key:aa", "what is it?")}
			p := prepare(t, s, plain, fleet.Model{Base: "b"})
			require.Equal(t, "<system>", string(s.encoded.GetText()), "only what is exact is tokenised")
			require.False(t, s.encoded.GetWantTokenIds())
			require.Empty(t, p.IDs, "the ids of a part are never sent as a prompt")
			require.Equal(t, schedulerv1.Certainty_CERTAINTY_DEGRADED, p.Certainty)
			require.Equal(t, ReasonMedia, p.Reason)
			require.Len(t, p.Hashes, len(row.exact)+mediaTokens/16)
			require.Equal(t, row.exact, append([]uint64(nil), p.Hashes[:len(row.exact)]...))
			require.Equal(t, row.tokens+mediaTokens+uint32(len("what is it?"))/bytesPerToken+1, p.Tokens)
		})
	}
}

// TestMediaPromptsGrowWithTheConversation: the next turn begins with the hashes of this one, other items do not.
func TestMediaPromptsGrowWithTheConversation(t *testing.T) {
	t.Parallel()
	hashes := func(doc string, m fleet.Model, r *templatev1.RenderResponse) []uint64 {
		return prepare(t, &services{response: r}, doc, m).Hashes
	}
	b := fleet.Model{Base: "b"}
	question := strings.Repeat("what is it? ", 20)
	one := hashes(plain, b, conversation("<system>", "", "key:aa", question))
	two := hashes(plain, b, conversation("<system>", "", "key:aa", question+"An owl.", "key:bb", "And this?"))
	require.Greater(t, len(two), len(one))
	require.Equal(t, one, two[:len(one)])
	guess := len([]uint64{1, 2})
	for name, other := range map[string][]uint64{
		"item":  hashes(plain, b, conversation("<system>", "", "key:bb", question)),
		"text":  hashes(plain, b, conversation("<System>", "", "key:aa", question)),
		"lora":  hashes(plain, fleet.Model{Base: "b", LoRA: "l"}, conversation("<system>", "", "key:aa", question)),
		"model": hashes(plain, fleet.Model{Base: "c"}, conversation("<system>", "", "key:aa", question)),
		"salt":  hashes(`{"messages":[{}],"cache_salt":"s"}`, b, conversation("<system>", "", "key:aa", question)),
	} {
		require.NotEqual(t, one[guess], other[guess], name)
	}
}

// TestCutsTravel: a format that tokenises in pieces says where they begin.
func TestCutsTravel(t *testing.T) {
	t.Parallel()
	s := &services{response: &templatev1.RenderResponse{Text: []byte("ab"), Cuts: []uint32{1}}}
	p := prepare(t, s, plain, fleet.Model{Base: "b"})
	require.Equal(t, exact, p.Certainty)
	require.Equal(t, []uint32{1}, s.encoded.GetCuts())
}

func TestOddAnswersOfTheTemplateServiceAreHarmless(t *testing.T) {
	t.Parallel()
	r := conversation("x", "", "key:aa", "")
	r.ExactBytes = 1 << 30
	p := prepare(t, &services{response: r}, plain, fleet.Model{Base: "b"})
	require.NotEmpty(t, p.Hashes)
	r = conversation("x", "", "key:"+strings.Repeat("k", 1000), "")
	require.Len(t, prepare(t, &services{response: r}, plain, fleet.Model{Base: "b"}).Hashes, 2+mediaTokens/16)
}
