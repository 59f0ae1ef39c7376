package operation

import (
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

// Paths of workers.
const (
	chatPath       = "/v1/chat/completions"
	completionPath = "/v1/completions"
)

// ChatCompletions answers one conversation.
func (s *Service) ChatCompletions(q *gatewayv1.ChatCompletionsRequest, st gatewayv1.OpenAIService_ChatCompletionsServer) error {
	return s.serve(st, "chat_completions", func(t *task) (*dispatch.Answer, error) {
		raw, err := openai.ChatJSON(q)
		if err != nil {
			return nil, err
		}
		return s.forward(t, kind{path: chatPath, shape: openai.ShapeChat, generates: true}, raw)
	})
}

// ChatCompletionsBatch answers many conversations, each at the worker that holds its prefix.
func (s *Service) ChatCompletionsBatch(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_ChatCompletionsBatchServer) error {
	return s.json(st, "chat_completions_batch", kind{path: chatPath, shape: openai.ShapeChatBatch, generates: true}, q)
}

// Completions continues one or many prompts.
func (s *Service) Completions(q *gatewayv1.CompletionsRequest, st gatewayv1.OpenAIService_CompletionsServer) error {
	return s.serve(st, "completions", func(t *task) (*dispatch.Answer, error) {
		raw, err := openai.CompletionJSON(q)
		if err != nil {
			return nil, err
		}
		return s.forward(t, kind{path: completionPath, shape: openai.ShapeCompletion, generates: true}, raw)
	})
}

// Embeddings turns inputs into vectors.
func (s *Service) Embeddings(q *gatewayv1.EmbeddingsRequest, st gatewayv1.OpenAIService_EmbeddingsServer) error {
	return s.serve(st, "embeddings", func(t *task) (*dispatch.Answer, error) {
		raw, err := openai.EmbeddingsJSON(q)
		if err != nil {
			return nil, err
		}
		return s.forward(t, kind{path: "/v1/embeddings"}, raw)
	})
}

// Pooling passes through.
func (s *Service) Pooling(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_PoolingServer) error {
	return s.json(st, "pooling", kind{path: "/pooling"}, q)
}

// Classify passes through.
func (s *Service) Classify(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_ClassifyServer) error {
	return s.json(st, "classify", kind{path: "/classify"}, q)
}

// Score passes through.
func (s *Service) Score(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_ScoreServer) error {
	return s.json(st, "score", kind{path: "/score"}, q)
}

// Rerank passes through.
func (s *Service) Rerank(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_RerankServer) error {
	return s.json(st, "rerank", kind{path: "/rerank"}, q)
}

// Tokenize passes through.
func (s *Service) Tokenize(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_TokenizeServer) error {
	return s.json(st, "tokenize", kind{path: "/tokenize"}, q)
}

// Detokenize passes through.
func (s *Service) Detokenize(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_DetokenizeServer) error {
	return s.json(st, "detokenize", kind{path: "/detokenize"}, q)
}

// Responses passes through; the worker that made a response is remembered.
func (s *Service) Responses(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_ResponsesServer) error {
	return s.json(st, "responses", kind{path: responsesPath, shape: openai.ShapeResponses, stores: true}, q)
}

// Messages passes Anthropic's API through.
func (s *Service) Messages(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_MessagesServer) error {
	return s.json(st, "messages", kind{path: "/v1/messages", shape: openai.ShapeMessages}, q)
}

// CountMessageTokens passes through.
func (s *Service) CountMessageTokens(q *gatewayv1.JSONRequest, st gatewayv1.OpenAIService_CountMessageTokensServer) error {
	return s.json(st, "count_message_tokens", kind{path: "/v1/messages/count_tokens"}, q)
}

// json is an operation whose request has no typed members of its own.
func (s *Service) json(st stream, name string, k kind, q *gatewayv1.JSONRequest) error {
	return s.serve(st, name, func(t *task) (*dispatch.Answer, error) {
		raw, err := openai.JSON(q)
		if err != nil {
			return nil, err
		}
		return s.forward(t, k, raw)
	})
}

// Transcriptions passes a form through.
func (s *Service) Transcriptions(q *gatewayv1.FormRequest, st gatewayv1.OpenAIService_TranscriptionsServer) error {
	return s.form(st, "transcriptions", "/v1/audio/transcriptions", q)
}

// Translations passes a form through.
func (s *Service) Translations(q *gatewayv1.FormRequest, st gatewayv1.OpenAIService_TranslationsServer) error {
	return s.form(st, "translations", "/v1/audio/translations", q)
}
