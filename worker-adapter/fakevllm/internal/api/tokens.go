package api

import (
	"net/http"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// tokenize takes a prompt (special tokens on) or messages (rendered, special tokens off).
func (h *Handler) tokenize(w http.ResponseWriter, r *http.Request) {
	doc, raw := h.readBody(w, r)
	if doc == nil {
		return
	}
	root := &doc.Root
	if _, bad := h.resolve(root.Get("model").Str); bad != nil {
		writeError(w, bad)
		return
	}
	ids, err := h.tokenIDs(r, root, raw)
	if err != nil {
		writeError(w, h.asError(err))
		return
	}
	dst := appendInt(nil, `{"count":`, len(ids))
	dst = appendInt(dst, `,"max_model_len":`, h.set.Limits.MaxModelLen)
	dst = appendInts(append(dst, `,"tokens":`...), ids)
	dst = append(dst, `,"token_strs":`...)
	if !root.Get("return_token_strs").Bool {
		writeJSON(w, http.StatusOK, append(dst, "null}"...))
		return
	}
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, h.detok.piece(id))
	}
	writeJSON(w, http.StatusOK, append(dst, "]}"...))
}

// tokenIDs tokenises either form of the body.
func (h *Handler) tokenIDs(r *http.Request, root *pyjson.Value, raw []byte) ([]uint32, error) {
	special := root.Get("add_special_tokens")
	if prompt := root.Get("prompt"); prompt.Kind == pyjson.String {
		return h.deps.Tokenizer.Encode(r.Context(), []byte(prompt.Str), special.Kind != pyjson.Bool || special.Bool)
	}
	if root.Get("messages").Kind != pyjson.List {
		in := pyjson.Repr(root.Describe())
		return nil, &request.Error{Status: 400, Type: "Bad Request", Param: "body.prompt", Message: "2 validation " +
			"errors:\n  {'type': 'missing', 'loc': 'body.prompt', 'msg': 'Field required', 'input': " + in +
			"}\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': " + in + "}"}
	}
	text, err := h.deps.Renderer.Render(r.Context(), raw)
	if err != nil {
		return nil, renderError(err)
	}
	return h.deps.Tokenizer.Encode(r.Context(), text, special.Bool)
}

// detokenize turns ids into text; ids that the tokenizer does not know add nothing.
func (h *Handler) detokenize(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	if _, bad := h.resolve(doc.Root.Get("model").Str); bad != nil {
		writeError(w, bad)
		return
	}
	list := doc.Root.Get("tokens")
	if !list.AllInts() {
		writeError(w, request.Bad("tokens must be a list of integers"))
		return
	}
	ids := make([]uint32, 0, list.Len())
	for _, n := range list.Ints {
		if n >= 0 && n < int64(h.set.Limits.VocabSize) {
			ids = append(ids, uint32(n))
		}
	}
	text, err := h.deps.Tokenizer.Decode(ids)
	if err != nil {
		text = ""
	}
	writeJSON(w, http.StatusOK, append(appendString([]byte(`{"prompt":`), text), '}'))
}
