package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// maxModels bounds the model list; maxRanks the data-parallel ranks behind one address.
const (
	maxModels = 4096
	maxRanks  = 256
)

// Model is an entry of /v1/models.
type Model struct {
	ID     string
	Parent string
	Root   string
	// MaxTokens is the longest context; 0 for adapters.
	MaxTokens uint32
	// Raw is the entry as the server wrote it.
	Raw []byte
}

// Models lists the models in the server's order.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var list struct {
		Data []json.RawMessage `json:"data"`
	}
	if err := c.getJSON(ctx, "/v1/models", &list); err != nil {
		return nil, err
	}
	if len(list.Data) > maxModels {
		return nil, fmt.Errorf("read /v1/models: %d entries, limit is %d", len(list.Data), maxModels)
	}
	out := make([]Model, 0, len(list.Data))
	for _, raw := range list.Data {
		var e struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			Root   *string `json:"root"`
			Max    *uint32 `json:"max_model_len"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("read /v1/models: %w", err)
		}
		out = append(out, Model{ID: e.ID, Parent: value(e.Parent), Root: value(e.Root), MaxTokens: value(e.Max), Raw: raw})
	}
	return out, nil
}

// value is what p points to, or zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// Base is the first model that is no adapter: the namespace of the worker's blocks.
func Base(models []Model) (Model, bool) {
	for _, m := range models {
		if m.Parent == "" && m.ID != "" {
			return m, true
		}
	}
	return Model{}, false
}

// Version is the server's version, as "0.32.0".
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct {
		Version string `json:"version"`
	}
	err := c.getJSON(ctx, "/version", &v)
	return v.Version, err
}

// EnableEvents is the flag of vLLM that turns events on, bound and with replay.
const EnableEvents = `--kv-events-config '{"enable_kv_cache_events":true,"publisher":"zmq",` +
	`"endpoint":"tcp://*:5557","replay_endpoint":"tcp://*:5558"}'`

// Source is how a rank publishes its events, as the worker was told.
type Source struct {
	Enabled   bool   `json:"enable_kv_cache_events"`
	Publisher string `json:"publisher"`
	Endpoint  string `json:"endpoint"`
	Replay    string `json:"replay_endpoint"`
	Topic     string `json:"topic"`
}

// Sources tells how each rank publishes (vLLM since about 0.30). ErrNoRoute on servers that do not say.
func (c *Client) Sources(ctx context.Context) ([]Source, error) {
	byRank := map[string]*Source{}
	if err := c.getJSON(ctx, "/kv_event_sources", &byRank); err != nil {
		return nil, err
	}
	if len(byRank) == 0 || len(byRank) > maxRanks {
		return nil, fmt.Errorf("read /kv_event_sources: %w: %d ranks", errOdd, len(byRank))
	}
	out := make([]Source, len(byRank))
	for key, s := range byRank {
		rank, err := strconv.Atoi(key)
		if err != nil || rank < 0 || rank >= len(out) || s == nil {
			return nil, fmt.Errorf("read /kv_event_sources: %w: odd rank %.20q", errOdd, key)
		}
		out[rank] = *s
	}
	return out, nil
}

// Flag asks a dev route such as /is_paused for its one boolean. Servers without dev mode do not have it: false then.
func (c *Client) Flag(ctx context.Context, path string) (bool, error) {
	m := map[string]bool{}
	if err := c.getJSON(ctx, path, &m); err != nil {
		var se *StatusError
		if errors.Is(err, ErrNoRoute) || errors.As(err, &se) && se.Status < 500 {
			return false, ErrNoRoute
		}
		return false, err
	}
	for _, v := range m {
		if v {
			return true, nil
		}
	}
	return false, nil
}

// Health is nil when the engine lives. A sleeping engine is well in this sense.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.Get(ctx, "/health")
	return err
}

// RuntimeLoRA is true when adapters can be loaded at run time: the route then answers GET with 405, else with 404.
func (c *Client) RuntimeLoRA(ctx context.Context) bool {
	_, err := c.Get(ctx, "/v1/load_lora_adapter")
	var se *StatusError
	return errors.As(err, &se) && se.Status == 405
}

// MaxSequences is --max-num-seqs where the server tells (dev mode), else 0. ctx alone bounds the question.
func (c *Client) MaxSequences(ctx context.Context) uint32 {
	var info struct {
		Config struct {
			Scheduler struct {
				MaxSeqs uint32 `json:"max_num_seqs"`
			} `json:"scheduler_config"`
		} `json:"vllm_config"`
	}
	ask := request{method: http.MethodGet, path: "/server_info?config_format=json", patient: true}
	if err := c.readJSON(ctx, ask, &info); err != nil {
		return 0
	}
	return info.Config.Scheduler.MaxSeqs
}
