package fakevllm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/api"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/engine"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/exposition"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/plain"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/publish"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// startTimeout bounds the first question to a tokenizer that may be a service.
const startTimeout = 30 * time.Second

// build makes publishers, engines and handler, and binds the ports.
func (s *Server) build(deps Deps) error {
	if deps.Tokenizer == nil {
		deps.Tokenizer = plain.Tokenizer{}
	}
	if deps.Renderer == nil {
		deps.Renderer = plain.Renderer{}
	}
	if err := s.openEvents(); err != nil {
		return err
	}
	metrics := exposition.New(exposition.Static{
		Model: s.cfg.Model, Ranks: s.cfg.DataParallelSize, BlockSize: s.cfg.BlockSize,
		NumGPUBlocks: s.cfg.NumGPUBlocks, MaxLoRAs: s.cfg.MaxLoRAs,
	}, func(rank int) engine.Stats { return s.engines[rank].Snapshot() })
	for rank := range s.cfg.DataParallelSize {
		var sink engine.Sink
		if s.events != nil {
			sink = s.events[rank]
		}
		s.engines = append(s.engines, engine.New(s.engineConfig(rank), sink, metrics.Observer(rank)))
	}
	adapters := &api.Adapters{}
	for _, l := range s.cfg.LoRAs {
		adapters.Load(l.Name, l.Path)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	set, err := s.settings(ctx, deps.Tokenizer)
	if err != nil {
		return err
	}
	s.handler, err = api.New(ctx, set, api.Deps{
		Log: s.log, Engines: s.engines, Tokenizer: deps.Tokenizer, Renderer: deps.Renderer, Faults: s.switches,
		Metrics: metrics, LoRAs: adapters, Sources: s.sources, Restart: s.Restart,
	})
	if err != nil {
		return err
	}
	if s.cfg.Control != "" {
		if s.control, err = net.Listen("tcp", s.cfg.Control); err != nil {
			return fmt.Errorf("listen for control: %w", err)
		}
	}
	if err := s.bind(); err != nil {
		return err
	}
	s.switches.Apply = s.apply
	return s.switches.Put(s.cfg.Faults)
}

// openEvents starts one publisher per rank. Formats follow the spoken version unless they are set.
func (s *Server) openEvents() error {
	ev := &s.cfg.KVEvents
	if !ev.Enable {
		return nil
	}
	arrays := ev.Format == "arrays" || ev.Format == "" && !s.cfg.since(24)
	topic := ev.ReplayTopic == "on" || ev.ReplayTopic == "" && s.cfg.since(26)
	for rank := range s.cfg.DataParallelSize {
		live, err := publish.ForRank(ev.Endpoint, rank)
		if err != nil {
			return err
		}
		replay, err := publish.ForRank(ev.ReplayEndpoint, rank)
		if err != nil {
			return err
		}
		p, err := publish.Start(publish.Options{
			Endpoint: live, ReplayEndpoint: replay, BufferSteps: ev.BufferSteps, HWM: ev.HWM, Topic: ev.Topic, Rank: rank,
			BindHost: ev.BindHost, Encoding: kvevent.Options{Arrays: arrays, BytesHashes: ev.BytesHashes}, ReplayTopic: topic,
		})
		if err != nil {
			return fmt.Errorf("events of rank %d: %w", rank, err)
		}
		s.events = append(s.events, p)
	}
	return nil
}

// engineConfig sizes one rank; all are alike. One block of num_gpu_blocks is vLLM's null block.
func (s *Server) engineConfig(rank int) engine.Config {
	c := &s.cfg
	profile := c.Coefficients
	if profile == (Profile{}) {
		profile, _ = engine.ProfileByName(c.Profile) // Validate has checked it
	}
	speed := c.Speedup
	if c.Instant {
		speed = 0
	}
	return engine.Config{
		Rank: rank, BlockSize: c.BlockSize, Blocks: c.NumGPUBlocks - 1, MaxNumSeqs: c.MaxNumSeqs,
		MaxBatchedTokens: c.MaxNumBatchedTokens, MaxQueued: c.MaxNumQueuedReqs,
		PrefixCaching: !c.DisablePrefixCaching, StrictLRU: !c.since(24),
		Priority: c.SchedulingPolicy == "priority", Profile: profile, Speedup: speed,
		Hybrid: c.Hybrid, DropLastHit: c.DropLastHit,
	}
}

// settings collects what the handlers need to know of the configuration.
func (s *Server) settings(ctx context.Context, tok Tokenizer) (api.Settings, error) {
	c := &s.cfg
	eos := uint32(c.EOSTokenID)
	if eos == 0 {
		var err error
		if eos, err = findEOS(ctx, tok, c.VocabSize); err != nil {
			return api.Settings{}, err
		}
	}
	info, err := tokenizerInfo(c.TokenizerInfo)
	if err != nil {
		return api.Settings{}, err
	}
	sum := sha256.Sum256([]byte(c.Model + "\x00" + c.Root))
	return api.Settings{
		TokenizerInfo: info,
		Model:         c.Model, Aliases: c.Aliases, Root: c.Root, Version: c.Version + "-simulated",
		Fingerprint: "vllm-" + c.Version + "-simulated-" + hex.EncodeToString(sum[:4]), BlockSize: c.BlockSize,
		NumGPUBlocks: c.NumGPUBlocks, MaxNumSeqs: c.MaxNumSeqs, MaxBatchedTokens: c.MaxNumBatchedTokens,
		MaxLoRAs: c.MaxLoRAs, EOSTokenID: eos,
		Limits:    request.Limits{MaxModelLen: c.MaxModelLen, VocabSize: c.VocabSize},
		AnswerMin: c.AnswerMinTokens, AnswerMax: c.AnswerMaxTokens, APIKeys: c.APIKeys,
		RequestIDHeaders: !c.DisableRequestIDHeaders, PromptTokenDetails: !c.DisablePromptTokensDetails,
		ReasoningParser: c.ReasoningParser != "", ToolParser: !c.DisableToolParser, ForceUsage: c.ForceIncludeUsage,
		DevMode: !c.DisableDevMode, RuntimeLoRA: !c.DisableRuntimeLoRA, LoadTracking: !c.DisableLoadTracking,
		ScaleOut: c.ScaleOut, PromptIDs: c.since(27), Pooling: c.Pooling, EmbeddingSize: c.EmbeddingSize,
		MaxBodyBytes: c.MaxBodyBytes,
	}, nil
}

// tokenizerInfo reads a tokenizer_config.json as vLLM tells it: compact, with the class's name, special tokens as text.
func tokenizerInfo(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer_info: %w", err)
	}
	info := map[string]any{}
	if err := json.Unmarshal(raw, &info); err != nil {
		return nil, fmt.Errorf("tokenizer_info: %w", err)
	}
	if info["tokenizer_class"] == nil {
		info["tokenizer_class"] = "PreTrainedTokenizerFast"
	}
	for name, v := range info {
		if token, ok := v.(map[string]any); ok && token["content"] != nil {
			info[name] = token["content"]
		}
	}
	return json.Marshal(info)
}

// findEOS looks for the end-of-turn token among the usual names; the vocabulary's last id stands in if there is none.
func findEOS(ctx context.Context, tok Tokenizer, vocab int) (uint32, error) {
	for _, name := range [...]string{"<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>", "<end_of_turn>"} {
		ids, err := tok.Encode(ctx, []byte(name), false)
		if err != nil {
			return 0, fmt.Errorf("look for the end-of-sequence token: %w", err)
		}
		if len(ids) == 1 {
			return ids[0], nil
		}
	}
	return uint32(vocab - 1), nil
}

// sources are the endpoints as they are bound.
func (s *Server) sources() []api.EventSource {
	ev := &s.cfg.KVEvents
	out := make([]api.EventSource, s.cfg.DataParallelSize)
	for rank := range out {
		out[rank] = api.EventSource{
			Enabled: ev.Enable, Endpoint: ev.Endpoint, Replay: ev.ReplayEndpoint, BufferSteps: ev.BufferSteps,
			HWM: ev.HWM, MaxQueueSize: ev.MaxQueueSize, Topic: ev.Topic,
		}
		if s.events != nil {
			out[rank].Endpoint, out[rank].Replay = s.events[rank].Endpoints()
		}
	}
	return out
}

// EventEndpoints returns the bound PUB and replay endpoints of a rank, "" without events.
func (s *Server) EventEndpoints(rank int) (live, replay string) {
	if s.events == nil {
		return "", ""
	}
	return s.events[rank].Endpoints()
}
