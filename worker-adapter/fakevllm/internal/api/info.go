package api

import (
	"encoding/json"
	"net/http"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// serverInfo is a small part of vLLM's: the sections and keys that adapters read, and a word that this is a simulation.
func (h *Handler) serverInfo(w http.ResponseWriter, _ *http.Request) {
	src := h.deps.Sources()
	info := map[string]any{
		"vllm_config": map[string]any{
			"model_config": map[string]any{"model": h.set.Root, "max_model_len": h.set.Limits.MaxModelLen},
			"cache_config": map[string]any{
				"block_size": h.set.BlockSize, "num_gpu_blocks": h.set.NumGPUBlocks, "enable_prefix_caching": true,
				"kv_cache_size_tokens": h.set.NumGPUBlocks * h.set.BlockSize,
			},
			"scheduler_config": map[string]any{
				"max_num_batched_tokens": h.set.MaxBatchedTokens, "max_num_seqs": h.set.MaxNumSeqs,
			},
			"kv_events_config": map[string]any{
				"enable_kv_cache_events": src[0].Enabled, "endpoint": src[0].Endpoint, "replay_endpoint": src[0].Replay,
				"topic": src[0].Topic,
			},
			"parallel_config": map[string]any{"data_parallel_size": len(h.deps.Engines)},
		},
		"simulated": true,
	}
	body, err := json.Marshal(info)
	if err != nil {
		writeError(w, &request.Error{Status: 500, Type: "InternalServerError", Message: "Internal server error"})
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// getFaults answers with all switches.
func (h *Handler) getFaults(w http.ResponseWriter, _ *http.Request) { h.writeFaults(w) }

// writeFaults writes the switches under the names of the configuration.
func (h *Handler) writeFaults(w http.ResponseWriter) {
	body, err := json.Marshal(h.faults())
	if err != nil {
		writeDetail(w, http.StatusInternalServerError, err.Error())
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// setFaults changes the switches that the body names and leaves the others. clear_cache and restart, if true, act once.
func (h *Handler) setFaults(w http.ResponseWriter, r *http.Request) {
	set := h.faults()
	var once struct {
		ClearCache bool `json:"clear_cache"`
		Restart    bool `json:"restart"`
	}
	_, raw := h.readBody(w, r)
	if raw == nil {
		return
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		writeDetail(w, http.StatusBadRequest, err.Error())
		return
	}
	_ = json.Unmarshal(raw, &once) // the same bytes have just been parsed
	if once.ClearCache {
		for _, e := range h.deps.Engines {
			e.ResetCache(true)
		}
	}
	err := h.deps.Faults.Put(set)
	if err == nil && once.Restart {
		err = h.deps.Restart()
	}
	if err != nil {
		writeDetail(w, http.StatusBadRequest, err.Error())
		return
	}
	h.writeFaults(w)
}
