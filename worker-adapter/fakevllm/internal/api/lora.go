package api

import (
	"net/http"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// writeText answers with plain text and no content type.
func writeText(w http.ResponseWriter, text string) {
	w.Header()["Content-Type"] = nil // a bare Starlette response has none
	_, _ = w.Write([]byte(text))
}

// loraName reads the adapter's name; "" if the answer has been written.
func (h *Handler) loraName(w http.ResponseWriter, r *http.Request) (string, *pyjson.Doc) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return "", nil
	}
	name := doc.Root.Get("lora_name")
	if name.Kind != pyjson.String || name.Str == "" {
		writeError(w, &request.Error{Status: 400, Type: "Bad Request", Param: "body.lora_name", Message: "1 validation " +
			"error:\n  {'type': 'missing', 'loc': 'body.lora_name', 'msg': 'Field required', 'input': " +
			pyjson.Repr(doc.Root.Describe()) + "}"})
		return "", nil
	}
	return name.Str, doc
}

// loadLoRA takes any path as an adapter but one whose last element begins with "no-such", so that tests can have the
// failure of a real server.
func (h *Handler) loadLoRA(w http.ResponseWriter, r *http.Request) {
	name, doc := h.loraName(w, r)
	if doc == nil {
		return
	}
	path := doc.Root.Get("lora_path").Str
	if !doc.Root.Get("load_inplace").Bool {
		for _, x := range h.deps.LoRAs.All() {
			if x.Name == name {
				writeError(w, &request.Error{Status: 400, Type: "InvalidUserInput", Message: "The lora adapter '" + name +
					"' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True."})
				return
			}
		}
	}
	if path == "" || strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "no-such") {
		writeError(w, &request.Error{Status: 404, Type: "NotFoundError", Message: "Loading lora " + name +
			" failed: No adapter found for " + path})
		return
	}
	h.deps.LoRAs.Load(name, path)
	writeText(w, "Success: LoRA adapter '"+name+"' added successfully.")
}

// unloadLoRA forgets an adapter. Its cached blocks stay: loaded again from the same path it hits them.
func (h *Handler) unloadLoRA(w http.ResponseWriter, r *http.Request) {
	name, doc := h.loraName(w, r)
	if doc == nil {
		return
	}
	if !h.deps.LoRAs.Unload(name) {
		writeError(w, &request.Error{Status: 404, Type: "NotFoundError", Message: "The lora adapter '" + name +
			"' cannot be found."})
		return
	}
	writeText(w, "Success: LoRA adapter '"+name+"' removed successfully.")
}
