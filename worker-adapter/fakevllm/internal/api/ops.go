package api

import (
	"net/http"
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// devRoutes are those of VLLM_SERVER_DEV_MODE=1.
func (h *Handler) devRoutes(t map[string]route) {
	t["/reset_prefix_cache"] = route{post: h.resetCache}
	t["/reset_mm_cache"] = route{post: func(http.ResponseWriter, *http.Request) {}}
	t["/reset_encoder_cache"] = route{post: func(http.ResponseWriter, *http.Request) {}}
	t["/sleep"] = route{post: h.sleep}
	t["/wake_up"] = route{post: h.wakeUp}
	t["/is_sleeping"] = route{get: h.isSleeping}
	t["/pause"] = route{post: h.pause}
	t["/resume"] = route{post: h.resume}
	t["/is_paused"] = route{get: h.isPaused}
	t["/server_info"] = route{get: h.serverInfo}
	t["/abort_requests"] = route{post: h.abortRequests}
}

// health is 200 and empty, also while the engine sleeps.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = nil
	w.Header().Set("Content-Length", "0")
}

// version says which vLLM is simulated.
func (h *Handler) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, append(appendString([]byte(`{"version":`), h.set.Version), '}'))
}

// metrics serves the Prometheus text format.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) { h.deps.Metrics.ServeHTTP(w, r) }

// serverLoad counts generating requests in work; 0 without --enable-server-load-tracking.
func (h *Handler) serverLoad(w http.ResponseWriter, _ *http.Request) {
	n := 0
	if h.set.LoadTracking {
		n = int(h.load.Load())
	}
	writeJSON(w, http.StatusOK, append(appendInt(nil, `{"server_load":`, n), '}'))
}

// eventSources lists every rank's endpoints with the ports in use; it needs neither key nor developer mode.
func (h *Handler) eventSources(w http.ResponseWriter, _ *http.Request) {
	dst := []byte{'{'}
	for i, s := range h.deps.Sources() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(strconv.AppendInt(append(dst, '"'), int64(i), 10), `":{"enable_kv_cache_events":`...)
		dst = strconv.AppendBool(dst, s.Enabled)
		publisher := "null"
		if s.Enabled {
			publisher = "zmq"
		}
		dst = append(append(append(dst, `,"publisher":"`...), publisher...), `","endpoint":`...)
		dst = append(appendString(dst, s.Endpoint), `,"replay_endpoint":`...)
		if s.Replay == "" {
			dst = append(dst, "null"...)
		} else {
			dst = appendString(dst, s.Replay)
		}
		dst = appendInt(dst, `,"buffer_steps":`, s.BufferSteps)
		dst = appendInt(dst, `,"hwm":`, s.HWM)
		dst = appendInt(dst, `,"max_queue_size":`, s.MaxQueueSize)
		dst = append(appendString(append(dst, `,"topic":`...), s.Topic), '}')
	}
	writeJSON(w, http.StatusOK, append(dst, '}'))
}

// resetCache forgets all ranks' caches. success is false if one of them is in use and running requests are to stay.
func (h *Handler) resetCache(w http.ResponseWriter, r *http.Request) {
	running := r.URL.Query().Get("reset_running_requests") == "true"
	ok := true
	for _, e := range h.deps.Engines {
		ok = e.ResetCache(running) && ok
	}
	writeJSON(w, http.StatusOK, append(strconv.AppendBool([]byte(`{"success":`), ok), '}'))
}

// sleep puts all ranks to sleep at level 1 or 2; requests that come meanwhile hang.
func (h *Handler) sleep(w http.ResponseWriter, r *http.Request) {
	level, err := strconv.Atoi(r.URL.Query().Get("level"))
	if err != nil {
		level = 1
	}
	for _, e := range h.deps.Engines {
		e.Sleep(level)
	}
	writeJSON(w, http.StatusOK, append(appendInt(nil, `{"status":"sleeping","level":`, level), '}'))
}

// wakeUp ends sleep of either depth.
func (h *Handler) wakeUp(w http.ResponseWriter, _ *http.Request) {
	for _, e := range h.deps.Engines {
		e.Wake()
	}
	writeJSON(w, http.StatusOK, []byte(`{"status":"awake","tags":null}`))
}

// isSleeping asks rank 0; all sleep together.
func (h *Handler) isSleeping(w http.ResponseWriter, _ *http.Request) {
	asleep := h.deps.Engines[0].SleepLevel() > 0
	writeJSON(w, http.StatusOK, append(strconv.AppendBool([]byte(`{"is_sleeping":`), asleep), '}'))
}

// pause waits for running requests (mode=wait, the default) or ends them (mode=abort); the cache goes too unless
// clear_cache=false.
func (h *Handler) pause(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for _, e := range h.deps.Engines {
		if err := e.Pause(r.Context(), q.Get("mode") == "abort", q.Get("clear_cache") != "false"); err != nil {
			return // the client has gone
		}
	}
	writeJSON(w, http.StatusOK, []byte(`{"status":"paused"}`))
}

// resume ends a pause.
func (h *Handler) resume(w http.ResponseWriter, _ *http.Request) {
	for _, e := range h.deps.Engines {
		e.Resume()
	}
	writeJSON(w, http.StatusOK, []byte(`{"status":"resumed"}`))
}

// isPaused asks rank 0; all pause together.
func (h *Handler) isPaused(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, append(strconv.AppendBool([]byte(`{"is_paused":`), h.deps.Engines[0].Paused()), '}'))
}

// abortRequests ends the named requests, or all of them for an empty list. An engine's id is the answer's id and the
// number of the prompt, "cmpl-…-0"; the answer's id alone names all its prompts.
func (h *Handler) abortRequests(w http.ResponseWriter, r *http.Request) {
	doc, _ := h.readBody(w, r)
	if doc == nil {
		return
	}
	ids := doc.Root.Get("request_ids")
	if ids.Kind != pyjson.List {
		writeError(w, request.Bad("Missing 'request_ids' in request body"))
		return
	}
	match := func(id string) bool {
		for i := range ids.Len() {
			want := ids.At(i)
			if want.Str == id || len(id) > len(want.Str) && id[:len(want.Str)] == want.Str && id[len(want.Str)] == '-' {
				return true
			}
		}
		return ids.Len() == 0
	}
	n := 0
	for _, e := range h.deps.Engines {
		n += e.AbortMatching(match)
	}
	writeJSON(w, http.StatusOK, append(appendInt(nil, `{"status":"aborted","aborted":`, n), '}'))
}

// orca adds the load report that endpoint-load-metrics-format asks for to an answer that is not streamed.
func (h *Handler) orca(w http.ResponseWriter, r *http.Request) {
	format := r.Header.Get("endpoint-load-metrics-format")
	if format == "" {
		return
	}
	var st engine.Stats
	for _, e := range h.deps.Engines {
		s := e.Snapshot()
		st.Waiting += s.Waiting
		st.Usage = max(st.Usage, s.Usage)
	}
	waiting, use := pyjson.FloatRepr(float64(st.Waiting)), pyjson.FloatRepr(st.Usage)
	switch format {
	case "JSON":
		w.Header().Set("endpoint-load-metrics", `JSON {"named_metrics": {"num_requests_waiting": `+waiting+
			`, "kv_cache_usage_perc": `+use+`}}`)
	case "TEXT":
		w.Header().Set("endpoint-load-metrics", "TEXT named_metrics.num_requests_waiting="+waiting+
			", named_metrics.kv_cache_usage_perc="+use)
	}
}
