package api

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// Adapter is a loaded LoRA adapter.
type Adapter struct {
	ID   int // vLLM's number, counted from 1 over all loads of new names
	Name string
	Path string
}

// Adapters are the loaded LoRA adapters. Methods may be called by any goroutine; a nil Adapters has none.
type Adapters struct {
	mu   sync.Mutex
	list []Adapter
	ids  map[string]int
}

// Load adds an adapter or, if it is there, changes its path. A name keeps its number over unloading.
func (a *Adapters) Load(name, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids == nil {
		a.ids = map[string]int{}
	}
	if a.ids[name] == 0 {
		a.ids[name] = len(a.ids) + 1
	}
	for i := range a.list {
		if a.list[i].Name == name {
			a.list[i].Path = path
			return
		}
	}
	a.list = append(a.list, Adapter{ID: a.ids[name], Name: name, Path: path})
}

// Unload removes an adapter; false if there is none of that name.
func (a *Adapters) Unload(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.list)
	a.list = slices.DeleteFunc(a.list, func(x Adapter) bool { return x.Name == name })
	return len(a.list) < n
}

// All returns the adapters in the order of loading.
func (a *Adapters) All() []Adapter {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// scope is what a model name adds to block hashes; nothing for the base model.
func (a *Adapters) scope(model string) engine.Scope {
	for _, x := range a.All() {
		if x.Name == model {
			return engine.Scope{LoRAID: x.ID, LoRAName: x.Name, LoRAPath: x.Path}
		}
	}
	return engine.Scope{}
}

// resolve returns the name under which the model answers; "" is the base model.
func (h *Handler) resolve(name string) (string, *request.Error) {
	if name == "" || name == h.set.Model || slices.Contains(h.set.Aliases, name) {
		if name == "" {
			name = h.set.Model
		}
		return name, nil
	}
	for _, x := range h.deps.LoRAs.All() {
		if x.Name == name {
			return name, nil
		}
	}
	return "", &request.Error{
		Status: http.StatusNotFound, Type: "NotFoundError", Param: "model",
		Message: fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", name,
			strings.Join(append([]string{h.set.Model}, h.set.Aliases...), ", ")),
	}
}

// models lists the served names and then the adapters, whose parent is the base model and whose length is null.
func (h *Handler) models(w http.ResponseWriter, _ *http.Request) {
	now := int(time.Now().Unix())
	dst := []byte(`{"object":"list","data":[`)
	card := func(id, root, parent string, length int) {
		if dst[len(dst)-1] == '}' {
			dst = append(dst, ',')
		}
		dst = appendString(append(dst, `{"id":`...), id)
		dst = appendInt(dst, `,"object":"model","created":`, now)
		dst = appendString(append(dst, `,"owned_by":"vllm","root":`...), root)
		dst = append(dst, `,"parent":`...)
		if parent == "" {
			dst = appendInt(dst, `null,"max_model_len":`, length)
		} else {
			dst = append(appendString(dst, parent), `,"max_model_len":null`...)
		}
		dst = append(dst, `,"permission":[{"id":"modelperm-`+randomHex(8)+`","object":"model_permission"`...)
		dst = appendInt(dst, `,"created":`, now)
		dst = append(dst, `,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,`+
			`"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"organization":"*",`+
			`"group":null,"is_blocking":false}]}`...)
	}
	for _, name := range append([]string{h.set.Model}, h.set.Aliases...) {
		card(name, h.set.Root, "", h.set.Limits.MaxModelLen)
	}
	for _, x := range h.deps.LoRAs.All() {
		card(x.Name, x.Path, h.set.Model, 0)
	}
	writeJSON(w, http.StatusOK, append(dst, "]}"...))
}

// tooLong refuses a prompt that leaves no room at all; vLLM stops counting one token above the limit.
func (h *Handler) tooLong(n int) *request.Error {
	limit := h.set.Limits.MaxModelLen
	if n <= limit {
		return nil
	}
	return &request.Error{Status: 400, Type: "BadRequestError", Param: "input_tokens", Message: fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "+
			"(parameter=input_tokens, value=%d)", limit, limit+1, limit+1)}
}

// rank reads X-data-parallel-rank: -1 without the header or with one that is no number.
func (h *Handler) rank(r *http.Request) (int, *request.Error) {
	n, err := strconv.Atoi(r.Header.Get("X-data-parallel-rank"))
	if err != nil {
		return -1, nil
	}
	if size := len(h.deps.Engines); n < 0 || n >= size {
		return 0, request.Bad("data_parallel_rank %d is out of range [0, %d).", n, size)
	}
	return n, nil
}

// priority lets the header win over the body; a header that is no number is ignored.
func priority(r *http.Request, body int) int {
	if n, err := strconv.Atoi(r.Header.Get("X-Vllm-Priority")); err == nil {
		return n
	}
	return body
}
