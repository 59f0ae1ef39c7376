package e2e

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// TestOpenAIGo drives both shapes of the mesh with OpenAI's own Go client, as its users write it.
func TestOpenAIGo(t *testing.T) {
	eachShape(t, func(t *testing.T, s shape) {
		c := newCaller(s.URL(t))
		t.Cleanup(c.http.CloseIdleConnections)
		exact(t, c, workerCount)
		official := openai.NewClient(
			option.WithBaseURL(s.URL(t)+"/v1"), option.WithAPIKey("any"), option.WithMaxRetries(0),
			option.WithHTTPClient(c.http), option.WithRequestTimeout(requestLimit),
		)
		rows := []struct {
			name string
			run  func(*testing.T, openai.Client)
		}{
			{"models are listed and found by id", goModels},
			{"plain chat", goChat},
			{"streamed chat with usage", goStream},
			{"completion", goCompletion},
			{"tool call and its result", goTools},
			{"streamed tool call", goToolStream},
			{"structured output", goStructured},
			{"typed errors", goErrors},
			{"second turn reads the cache", func(t *testing.T, o openai.Client) { goSecondTurn(t, o, c) }},
		}
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) { row.run(t, official) })
		}
		idle(t, c)
	})
}

// goChatOf is a first turn about a topic that no other test shares.
func goChatOf(topic string) openai.ChatCompletionNewParams {
	turns := conversation(topic)
	return openai.ChatCompletionNewParams{
		Model: model, MaxTokens: openai.Int(8),
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(turns[0].Content), openai.UserMessage(turns[1].Content),
		},
	}
}

func goModels(t *testing.T, c openai.Client) {
	page, err := c.Models.List(t.Context())
	require.NoError(t, err)
	require.Len(t, page.Data, 1)
	require.Equal(t, model, page.Data[0].ID)
	one, err := c.Models.Get(t.Context(), model)
	require.NoError(t, err)
	require.Equal(t, model, one.ID)
}

func goChat(t *testing.T, c openai.Client) {
	got, err := c.Chat.Completions.New(t.Context(), goChatOf("go plain"))
	require.NoError(t, err)
	require.Equal(t, "chat.completion", string(got.Object))
	require.Equal(t, "assistant", string(got.Choices[0].Message.Role))
	require.NotEmpty(t, got.Choices[0].Message.Content)
	require.Equal(t, "length", got.Choices[0].FinishReason)
	require.EqualValues(t, 8, got.Usage.CompletionTokens)
	require.Equal(t, got.Usage.TotalTokens, got.Usage.PromptTokens+got.Usage.CompletionTokens)
}

func goStream(t *testing.T, c openai.Client) {
	ask := goChatOf("go streamed")
	ask.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := c.Chat.Completions.NewStreaming(t.Context(), ask)
	defer stream.Close()
	var whole openai.ChatCompletionAccumulator
	pieces := 0
	for stream.Next() {
		chunk := stream.Current()
		require.True(t, whole.AddChunk(chunk), chunk.RawJSON())
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			pieces++
		}
	}
	require.NoError(t, stream.Err())
	require.Greater(t, pieces, 1)
	require.NotEmpty(t, whole.Choices[0].Message.Content)
	require.EqualValues(t, 8, whole.Usage.CompletionTokens)
}

func goCompletion(t *testing.T, c openai.Client) {
	got, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: model, MaxTokens: openai.Int(4),
		Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"The tide is", "The wind is"}},
	})
	require.NoError(t, err)
	require.Len(t, got.Choices, 2)
	for i, choice := range got.Choices {
		require.EqualValues(t, i, choice.Index)
		require.NotEmpty(t, choice.Text)
	}
	require.EqualValues(t, 8, got.Usage.CompletionTokens)
}

// goToolAsk asks a question that must be answered by a call of lookup_tide.
func goToolAsk(topic string) openai.ChatCompletionNewParams {
	ask := goChatOf(topic)
	ask.MaxTokens = openai.Int(256)
	ask.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "lookup_tide", Description: openai.String("Height of the tide at a harbour."),
		Parameters: shared.FunctionParameters{
			"type": "object", "required": []string{"harbour"},
			"properties": map[string]any{"harbour": map[string]string{"type": "string"}},
		},
	})}
	ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	return ask
}

// requireTideCall checks a call of lookup_tide whose arguments are whole JSON with the required member.
func requireTideCall(t *testing.T, name, arguments string) {
	t.Helper()
	require.Equal(t, "lookup_tide", name)
	var args struct {
		Harbour *string `json:"harbour"`
	}
	require.NoError(t, json.Unmarshal([]byte(arguments), &args), arguments)
	require.NotNil(t, args.Harbour, arguments)
}

func goTools(t *testing.T, c openai.Client) {
	ask := goToolAsk("go tools")
	got, err := c.Chat.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	require.NotEmpty(t, got.Choices[0].Message.ToolCalls, got.RawJSON())
	call := got.Choices[0].Message.ToolCalls[0]
	requireTideCall(t, call.Function.Name, call.Function.Arguments)
	ask.Messages = append(ask.Messages, got.Choices[0].Message.ToParam(), openai.ToolMessage("2.4 m", call.ID))
	ask.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	got, err = c.Chat.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	require.NotEmpty(t, got.Choices[0].Message.Content)
	require.Empty(t, got.Choices[0].Message.ToolCalls)
}

func goToolStream(t *testing.T, c openai.Client) {
	stream := c.Chat.Completions.NewStreaming(t.Context(), goToolAsk("go tool stream"))
	defer stream.Close()
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		require.True(t, whole.AddChunk(stream.Current()), stream.Current().RawJSON())
	}
	require.NoError(t, stream.Err())
	require.NotEmpty(t, whole.Choices)
	require.NotEmpty(t, whole.Choices[0].Message.ToolCalls)
	call := whole.Choices[0].Message.ToolCalls[0]
	require.NotEmpty(t, call.ID)
	requireTideCall(t, call.Function.Name, call.Function.Arguments)
}

func goStructured(t *testing.T, c openai.Client) {
	ask := goChatOf("go structured")
	ask.MaxTokens = openai.Int(256)
	ask.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{
		OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: "tide", Strict: openai.Bool(true), Schema: map[string]any{
				"type": "object", "required": []string{"harbour", "metres"}, "additionalProperties": false,
				"properties": map[string]any{
					"harbour": map[string]string{"type": "string"}, "metres": map[string]string{"type": "integer"},
				},
			},
		}},
	}
	got, err := c.Chat.Completions.New(t.Context(), ask)
	require.NoError(t, err)
	var tide struct {
		Harbour *string `json:"harbour"`
		Metres  *int    `json:"metres"`
	}
	text := got.Choices[0].Message.Content
	require.NoError(t, json.Unmarshal([]byte(text), &tide), text)
	require.NotNil(t, tide.Harbour, text)
	require.NotNil(t, tide.Metres, text)
}

func goErrors(t *testing.T, c openai.Client) {
	rows := []struct {
		name   string
		change func(*openai.ChatCompletionNewParams)
		status int
		param  string
	}{
		{
			"unknown model", func(p *openai.ChatCompletionNewParams) { p.Model = "no/such-model" },
			http.StatusNotFound, "model",
		},
		{
			"temperature out of range", func(p *openai.ChatCompletionNewParams) { p.Temperature = openai.Float(-1) },
			http.StatusBadRequest, "temperature",
		},
	}
	for _, row := range rows {
		for _, streamed := range []bool{false, true} {
			t.Run(row.name+", streamed "+strconv.FormatBool(streamed), func(t *testing.T) {
				ask := goChatOf("go errors")
				row.change(&ask)
				var err error
				if streamed {
					stream := c.Chat.Completions.NewStreaming(t.Context(), ask)
					require.False(t, stream.Next())
					err = stream.Err()
				} else {
					_, err = c.Chat.Completions.New(t.Context(), ask)
				}
				var typed *openai.Error
				require.True(t, errors.As(err, &typed), "%v", err)
				require.Equal(t, row.status, typed.StatusCode)
				require.Equal(t, row.param, typed.Param)
				require.NotEmpty(t, typed.Message)
				require.NotEmpty(t, typed.Type)
			})
		}
	}
}

// goSecondTurn asks on once the scheduler knows the first turn's units, so that the prediction is exact on any machine.
func goSecondTurn(t *testing.T, c openai.Client, mesh *caller) {
	ask := goChatOf("go second turn")
	var first, second *http.Response
	got, err := c.Chat.Completions.New(t.Context(), ask, option.WithResponseInto(&first))
	require.NoError(t, err)
	require.Zero(t, got.Usage.PromptTokensDetails.CachedTokens)
	ask.Messages = append(ask.Messages, got.Choices[0].Message.ToParam(), openai.UserMessage("And then?"))
	known := int(got.Usage.PromptTokens) / kvblock.UnitTokens * kvblock.UnitTokens
	eventually(t, requestLimit, func() error {
		if n := predicted(t, mesh, ask); n < known {
			return errCount("tokens that the scheduler knows to be held", n, known)
		}
		return nil
	})
	got, err = c.Chat.Completions.New(t.Context(), ask, option.WithResponseInto(&second))
	require.NoError(t, err)
	require.Equal(t, first.Header.Get("X-Kvmesh-Worker"), second.Header.Get("X-Kvmesh-Worker"))
	cached := got.Usage.PromptTokensDetails.CachedTokens
	require.Positive(t, cached)
	require.Equal(t, strconv.FormatInt(cached, 10), second.Header.Get("X-Kvmesh-Predicted-Hit-Tokens"))
	require.Equal(t, strconv.FormatInt(cached, 10), second.Header.Get("X-Kvmesh-Cached-Tokens"))
	require.True(t, strings.HasPrefix(second.Header.Get("X-Kvmesh-Worker"), "sim-"))
}

// predicted is the most prompt tokens that events say a worker holds of a request that is not sent.
func predicted(t *testing.T, c *caller, ask openai.ChatCompletionNewParams) int {
	t.Helper()
	got := c.mustPost(t, "/kvmesh/v1/explain", ask, http.StatusOK)
	var body struct {
		Receipt struct {
			Candidates []struct {
				HitTokens      int `json:"hit_tokens"`
				ExpectedTokens int `json:"expected_hit_tokens"`
			} `json:"candidates"`
		} `json:"receipt"`
	}
	require.NoError(t, json.Unmarshal(got.body, &body), string(got.body))
	most := 0
	for _, candidate := range body.Receipt.Candidates {
		most = max(most, candidate.HitTokens-candidate.ExpectedTokens)
	}
	return most
}
