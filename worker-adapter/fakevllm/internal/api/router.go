package api

import (
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// route is what one path serves.
type route struct {
	get, post http.HandlerFunc
	generates bool // faults of status and delay apply; counted in /load
}

// ControlPath is where faults are read and set. It answers while everything else hangs.
const ControlPath = "/fakevllm/faults"

// table is the routes by path; which groups exist depends on flags that vLLM has too.
func (h *Handler) table() map[string]route {
	t := map[string]route{
		"/v1/models":           {get: h.models},
		"/v1/chat/completions": {post: h.chat, generates: true},
		"/v1/completions":      {post: h.completions, generates: true},
		"/tokenize":            {post: h.tokenize},
		"/detokenize":          {post: h.detokenize},
		"/health":              {get: h.health},
		"/ping":                {get: h.health, post: h.health},
		"/version":             {get: h.version},
		"/metrics":             {get: h.metrics},
		"/load":                {get: h.serverLoad},
		"/kv_event_sources":    {get: h.eventSources},
		ControlPath:            {get: h.getFaults, post: h.setFaults},
	}
	if len(h.set.TokenizerInfo) > 0 {
		t["/tokenizer_info"] = route{get: func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, h.set.TokenizerInfo)
		}}
	}
	if h.set.RuntimeLoRA {
		t["/v1/load_lora_adapter"] = route{post: h.loadLoRA}
		t["/v1/unload_lora_adapter"] = route{post: h.unloadLoRA}
	}
	h.scaleOutRoutes(t)
	h.otherDialects(t)
	if h.set.Pooling {
		h.poolingRoutes(t)
	}
	if h.set.DevMode {
		h.devRoutes(t)
	}
	return t
}

// ServeHTTP answers one request with vLLM's headers.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != ControlPath && !h.awaitThaw(r) {
		return
	}
	head := w.Header()
	head.Set("Server", "uvicorn")
	head.Set("Vary", "Origin")
	if h.set.RequestIDHeaders {
		id := r.Header.Get("X-Request-Id")
		if id == "" {
			id = randomHex(16)
		}
		head.Set("X-Request-Id", id)
	}
	rt, known := h.routes[r.URL.Path]
	rec := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
	defer func() {
		handler := "none"
		if known {
			handler = r.URL.Path
		}
		h.deps.Metrics.HTTP(handler, r.Method, rec.status)
	}()
	h.dispatch(rec, r, rt, known)
}

// dispatch checks key, path, method and the status fault, in the order of vLLM's middleware, and serves.
func (h *Handler) dispatch(w http.ResponseWriter, r *http.Request, rt route, known bool) {
	switch {
	case !h.authorized(r):
		w.Header().Del("Vary") // the key is checked outside of what sets it
		writeJSON(w, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
		return
	case !known:
		writeDetail(w, http.StatusNotFound, "Not Found")
		return
	}
	serve := rt.post
	if r.Method == http.MethodGet {
		serve = rt.get
	}
	if serve == nil || r.Method != http.MethodGet && r.Method != http.MethodPost {
		allow := http.MethodPost
		if rt.post == nil {
			allow = http.MethodGet
		}
		w.Header().Set("Allow", allow)
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
		return
	}
	if rt.generates {
		h.load.Add(1)
		defer h.load.Add(-1)
		if status := h.deps.Faults.FailWith(); status != 0 {
			writeError(w, &request.Error{Status: status, Type: strings.ReplaceAll(http.StatusText(status), " ", "") +
				"Error", Message: "Simulated fault: status " + strconv.Itoa(status) + "."})
			return
		}
	}
	serve(w, r)
}

// awaitThaw waits while the worker hangs; false if the client gave up.
func (h *Handler) awaitThaw(r *http.Request) bool {
	for {
		c := h.deps.Faults.Thawed()
		if c == nil {
			return true
		}
		select {
		case <-r.Context().Done():
			return false
		case <-c:
		}
	}
}

// authorized guards the paths that vLLM's --api-key guards: health, metrics, tokenize and developers' routes are open.
func (h *Handler) authorized(r *http.Request) bool {
	if len(h.set.APIKeys) == 0 {
		return true
	}
	guarded := false
	for _, prefix := range [...]string{"/v1", "/v2", "/inference", "/cohere"} {
		guarded = guarded || strings.HasPrefix(r.URL.Path, prefix)
	}
	if !guarded {
		return true
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	ok := 0
	for _, key := range h.set.APIKeys {
		ok |= subtle.ConstantTimeCompare([]byte(token), []byte(key))
	}
	return ok == 1
}

// statusRecorder remembers the status for the metrics. Unwrap lets streams flush.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status and passes it on.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController the writer that can flush.
func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }
