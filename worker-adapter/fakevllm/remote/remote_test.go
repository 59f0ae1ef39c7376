package remote

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
)

// tokenizers records requests and gives canned answers.
type tokenizers struct {
	tokenizerv1.TokenizerServiceClient
	encode *tokenizerv1.EncodeRequest
	decode *tokenizerv1.DecodeRequest
	err    error
}

// templates does the same.
type templates struct {
	templatev1.TemplateServiceClient
	render *templatev1.RenderRequest
	err    error
}

func (s *tokenizers) Encode(
	_ context.Context, r *tokenizerv1.EncodeRequest, _ ...grpc.CallOption,
) (*tokenizerv1.EncodeResponse, error) {
	s.encode = r
	return &tokenizerv1.EncodeResponse{TokenIds: []uint32{1, 2}}, s.err
}

func (s *tokenizers) Decode(
	ctx context.Context, r *tokenizerv1.DecodeRequest, _ ...grpc.CallOption,
) (*tokenizerv1.DecodeResponse, error) {
	s.decode = r
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("a decode without a deadline")
	}
	return &tokenizerv1.DecodeResponse{Text: []byte("text")}, s.err
}

func (s *templates) Render(
	_ context.Context, r *templatev1.RenderRequest, _ ...grpc.CallOption,
) (*templatev1.RenderResponse, error) {
	s.render = r
	return &templatev1.RenderResponse{Text: []byte("prompt")}, s.err
}

func TestTokenizerAsksForItsModel(t *testing.T) {
	t.Parallel()
	s := &tokenizers{}
	tok := Tokenizer{Client: s, Model: "m"}
	ids, err := tok.Encode(t.Context(), []byte("x"), true)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 2}, ids)
	require.True(t, s.encode.GetAddSpecialTokens())
	require.True(t, s.encode.GetWantTokenIds())
	text, err := tok.Decode([]uint32{7})
	require.NoError(t, err)
	require.Equal(t, "text", text)
	require.True(t, s.decode.GetSkipSpecialTokens())
	require.Equal(t, "m", s.decode.GetModel())
}

func TestRendererKeepsTheClientsBytes(t *testing.T) {
	t.Parallel()
	s := &templates{}
	r := Renderer{Client: s, Model: "m", Version: "0.32.0"}
	body := `{"model":"ignored","messages":[{"role":"user","content":"x"}],"tools":[{"a":1.0}],` +
		`"chat_template_kwargs":{"b":1e5},"add_generation_prompt":false,"reasoning_effort":"low"}`
	text, err := r.Render(t.Context(), []byte(body))
	require.NoError(t, err)
	require.Equal(t, "prompt", string(text))
	require.Equal(t, `[{"a":1.0}]`, string(s.render.GetToolsJson()))
	require.Equal(t, `{"b":1e5}`, string(s.render.GetChatTemplateKwargsJson()))
	require.Equal(t, "low", s.render.GetReasoningEffort())
	require.False(t, s.render.GetAddGenerationPrompt())
	require.NotNil(t, s.render.AddGenerationPrompt)
	require.Nil(t, s.render.ContinueFinalMessage)
	require.Equal(t, "0.32.0", s.render.GetWorkerVersion())
}

func TestErrorsRepeatNoText(t *testing.T) {
	t.Parallel()
	down := errors.New("down")
	_, err := Tokenizer{Client: &tokenizers{err: down}}.Encode(t.Context(), []byte("secret"), false)
	require.ErrorContains(t, err, "down")
	require.NotContains(t, err.Error(), "secret")
	_, err = Renderer{Client: &templates{err: down}}.Render(t.Context(), []byte(`{"messages":secret`))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
