package api

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"sort"
	"strconv"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/answer"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// poolingRoutes are those of an embedding model. No capture has them; the shapes are those of vLLM's documentation.
// Vectors are a function of the token ids: equal texts get equal vectors, similar ones nothing in common.
func (h *Handler) poolingRoutes(t map[string]route) {
	t["/v1/embeddings"] = route{post: h.embeddings, generates: true}
	t["/pooling"] = route{post: h.embeddings, generates: true}
	t["/classify"] = route{post: h.classify, generates: true}
	for _, path := range [...]string{"/score", "/v1/score"} {
		t[path] = route{post: h.score, generates: true}
	}
	for _, path := range [...]string{"/rerank", "/v1/rerank", "/v2/rerank"} {
		t[path] = route{post: h.rerank, generates: true}
	}
}

// pooled is one input of a pooling request after the engine computed it.
type pooled struct {
	ids    []uint32
	vector []float64
}

// texts reads a string, a list of strings, a list of ids or a list of such lists.
func (h *Handler) texts(ctx context.Context, v *pyjson.Value) ([][]uint32, error) {
	one := func(v *pyjson.Value) ([]uint32, error) {
		if v.Kind == pyjson.String {
			return h.deps.Tokenizer.Encode(ctx, []byte(v.Str), true)
		}
		ids := make([]uint32, 0, len(v.Ints))
		for _, n := range v.Ints {
			if n < 0 || n >= int64(h.set.Limits.VocabSize) {
				return nil, request.Bad("Token id %d is out of vocabulary", n)
			}
			ids = append(ids, uint32(n))
		}
		return ids, nil
	}
	if v.Kind == pyjson.String || v.Kind == pyjson.List && len(v.Ints) > 0 {
		ids, err := one(v)
		return [][]uint32{ids}, err
	}
	var out [][]uint32
	for i := range v.Len() {
		item := v.At(i)
		ids, err := one(&item)
		if err != nil {
			return nil, err
		}
		out = append(out, ids)
	}
	if len(out) == 0 {
		return nil, request.Bad("The input must be a text, token ids, or a list of either")
	}
	return out, nil
}

// pool runs the inputs through the engine, which computes them without reading its cache.
func (h *Handler) pool(r *http.Request, inputs [][]uint32) ([]pooled, error) {
	rank, bad := h.rank(r)
	if bad != nil {
		return nil, bad
	}
	g := &generation{h: h, engine: h.pick(rank), notify: make(chan struct{}, 1)}
	jobs := make([]*engine.Seq, 0, len(inputs))
	out := make([]pooled, 0, len(inputs))
	for _, ids := range inputs {
		if len(ids) == 0 {
			return nil, request.Bad("The decoder prompt cannot be empty")
		}
		if bad := h.tooLong(len(ids)); bad != nil {
			return nil, bad
		}
		job := engine.Job{ID: "pool-" + randomHex(8), Prompt: ids, SkipRead: true, Notify: g.notify}
		q := engine.NewSeq(job, h.set.BlockSize)
		g.seqs = append(g.seqs, &sequence{seq: q, plan: &plan{}})
		jobs = append(jobs, q)
		out = append(out, pooled{ids: ids, vector: vector(ids, h.set.EmbeddingSize)})
	}
	if err := g.engine.Submit(jobs...); err != nil {
		return nil, err
	}
	if !g.wait(r.Context()) {
		return nil, r.Context().Err()
	}
	return out, nil
}

// vector is a unit vector made from token ids.
func vector(ids []uint32, size int) []float64 {
	r := answer.Seed(ids)
	v := make([]float64, size)
	var sum float64
	for i := range v {
		v[i] = float64(int64(r.Next())) / math.MaxInt64
		sum += v[i] * v[i]
	}
	for i := range v {
		v[i] /= math.Sqrt(sum)
	}
	return v
}

// poolBody parses, resolves the model and pools what field holds; nil if the answer has been written.
func (h *Handler) poolBody(w http.ResponseWriter, r *http.Request, field string) (*pyjson.Value, []pooled) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return nil, nil
	}
	root := &doc.Root
	var out []pooled
	_, bad := h.resolve(root.Get("model").Str)
	if bad != nil {
		writeError(w, bad)
		return nil, nil
	}
	inputs, err := h.texts(r.Context(), root.Get(field))
	if err == nil {
		out, err = h.pool(r, inputs)
	}
	if err != nil {
		writeError(w, h.asError(err))
		return nil, nil
	}
	return root, out
}

// appendPoolHead writes the fields with which pooling answers begin.
func (h *Handler) appendPoolHead(dst []byte, prefix string, root *pyjson.Value) []byte {
	name, _ := h.resolve(root.Get("model").Str) // poolBody has checked it
	dst = appendString(append(dst, `{"id":`...), prefix+randomHex(16))
	dst = appendInt(append(dst, `,"object":"list"`...), `,"created":`, int(time.Now().Unix()))
	return append(appendString(append(dst, `,"model":`...), name), `,"data":[`...)
}

// appendPoolUsage closes the data and writes the usage: pooling generates nothing.
func appendPoolUsage(dst []byte, all []pooled) []byte {
	n := 0
	for _, p := range all {
		n += len(p.ids)
	}
	dst = appendInt(append(dst, `],"usage":`...), `{"prompt_tokens":`, n)
	dst = appendInt(dst, `,"total_tokens":`, n)
	return append(dst, `,"completion_tokens":0,"prompt_tokens_details":null}}`...)
}

// embeddings serves /v1/embeddings and /pooling, whose answers differ in names only.
func (h *Handler) embeddings(w http.ResponseWriter, r *http.Request) {
	root, all := h.poolBody(w, r, "input")
	if root == nil {
		return
	}
	prefix, object, field := "embd-", "embedding", "embedding"
	if r.URL.Path == "/pooling" {
		prefix, object, field = "pool-", "pooling", "data"
	}
	dst := h.appendPoolHead(nil, prefix, root)
	for i, p := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendInt(dst, `{"index":`, i), `,"object":"`+object+`","`+field+`":`...)
		if root.Get("encoding_format").Str == "base64" {
			buf := make([]byte, 0, 4*len(p.vector))
			for _, f := range p.vector {
				buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(float32(f)))
			}
			dst = append(appendString(dst, base64.StdEncoding.EncodeToString(buf)), '}')
			continue
		}
		dst = append(dst, '[')
		for k, f := range p.vector {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendFloat(dst, f)
		}
		dst = append(dst, "]}"...)
	}
	writeJSON(w, http.StatusOK, appendPoolUsage(dst, all))
}

// classify makes two classes of the vector's first element.
func (h *Handler) classify(w http.ResponseWriter, r *http.Request) {
	root, all := h.poolBody(w, r, "input")
	if root == nil {
		return
	}
	dst := h.appendPoolHead(nil, "classify-", root)
	for i, p := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		yes := (p.vector[0] + 1) / 2
		label := 0
		if yes > 0.5 {
			label = 1
		}
		dst = append(appendInt(dst, `{"index":`, i), `,"label":"LABEL_`+strconv.Itoa(label)+`","probs":[`...)
		dst = appendFloat(append(appendFloat(dst, 1-yes), ','), yes)
		dst = append(dst, `],"num_classes":2}`...)
	}
	writeJSON(w, http.StatusOK, appendPoolUsage(dst, all))
}

// similarity is the cosine of two vectors, moved to 0–1.
func similarity(a, b pooled) float64 {
	var sum float64
	for i := range a.vector {
		sum += a.vector[i] * b.vector[i]
	}
	return (sum + 1) / 2
}

// pairs pools a query and documents; the first result is the query.
func (h *Handler) pairs(w http.ResponseWriter, r *http.Request, query, docs string) (root *pyjson.Value, all []pooled) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return nil, nil
	}
	root = &doc.Root
	if _, bad := h.resolve(root.Get("model").Str); bad != nil {
		writeError(w, bad)
		return nil, nil
	}
	first, err := h.texts(r.Context(), root.Get(query))
	if err == nil {
		var rest [][]uint32
		if rest, err = h.texts(r.Context(), root.Get(docs)); err == nil {
			all, err = h.pool(r, append(first[:1:1], rest...))
		}
	}
	if err != nil {
		writeError(w, h.asError(err))
		return nil, nil
	}
	return root, all
}

// score compares one text with others.
func (h *Handler) score(w http.ResponseWriter, r *http.Request) {
	root, all := h.pairs(w, r, "text_1", "text_2")
	if root == nil {
		return
	}
	dst := h.appendPoolHead(nil, "score-", root)
	for i, p := range all[1:] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendFloat(append(appendInt(dst, `{"index":`, i), `,"object":"score","score":`...),
			similarity(all[0], p)), '}')
	}
	writeJSON(w, http.StatusOK, appendPoolUsage(dst, all))
}

// rerank orders documents by their similarity to the query, best first.
func (h *Handler) rerank(w http.ResponseWriter, r *http.Request) {
	root, all := h.pairs(w, r, "query", "documents")
	if root == nil {
		return
	}
	order := make([]int, len(all)-1)
	for i := range order {
		order[i] = i
	}
	sort.SliceStable(order, func(a, b int) bool {
		return similarity(all[0], all[order[a]+1]) > similarity(all[0], all[order[b]+1])
	})
	if n := root.Get("top_n"); n.Int > 0 && int(n.Int) < len(order) {
		order = order[:n.Int]
	}
	name, _ := h.resolve(root.Get("model").Str)
	total := 0
	for _, p := range all {
		total += len(p.ids)
	}
	dst := appendString(append(appendString([]byte(`{"id":`), "rerank-"+randomHex(16)), `,"model":`...), name)
	dst = appendInt(appendInt(dst, `,"usage":{"prompt_tokens":`, total), `,"total_tokens":`, total)
	dst = append(dst, `},"results":[`...)
	docs := root.Get("documents")
	for k, i := range order {
		if k > 0 {
			dst = append(dst, ',')
		}
		d := docs.At(i)
		dst = appendString(append(appendInt(dst, `{"index":`, i), `,"document":{"text":`...), d.Str)
		dst = append(appendFloat(append(dst, `},"relevance_score":`...), similarity(all[0], all[i+1])), '}')
	}
	writeJSON(w, http.StatusOK, append(dst, "]}"...))
}
