package fakevllm_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/capture"
)

// replayed is one batch as the replay socket has it.
type replayed struct {
	topic   string
	seq     uint64
	payload []byte
}

// replay asks a worker's ROUTER for all batches from a sequence number on, until the end marker.
func replay(t *testing.T, s *fakevllm.Server, rank int, from uint64) []replayed {
	t.Helper()
	_, at := s.EventEndpoints(rank)
	dealer := zmq4.NewDealer(t.Context())
	defer func() { _ = dealer.Close() }()
	require.NoError(t, dealer.Dial(strings.Replace(at, "*", "127.0.0.1", 1)))
	require.NoError(t, dealer.Send(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, from))))
	var out []replayed
	for {
		msg, err := dealer.Recv()
		require.NoError(t, err)
		frames := msg.Frames
		require.Empty(t, frames[0], "delimiter")
		r := replayed{payload: frames[len(frames)-1], seq: binary.BigEndian.Uint64(frames[len(frames)-2])}
		if len(frames) == 4 {
			r.topic = string(frames[1])
		}
		if r.seq == 1<<64-1 {
			require.Empty(t, r.payload)
			return out
		}
		out = append(out, r)
	}
}

// plainEvent is an event without its encoding: hashes as text.
type plainEvent struct {
	Kind    string
	Hashes  []string
	Parent  string
	Tokens  []int
	Rest    string // all other fields
	Compare bool   // whether tokens are known: generated ones are the model's
}

// events decodes the events of a batch, maps or arrays, from JSON values.
func events(t *testing.T, batch []any) []plainEvent {
	t.Helper()
	names := []string{
		"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
		"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
	}
	var out []plainEvent
	for _, raw := range batch[1].([]any) {
		m, ok := raw.(map[string]any)
		if !ok {
			m = map[string]any{}
			for i, v := range raw.([]any) {
				name := names[i]
				if raw.([]any)[0] == "BlockRemoved" && i > 1 {
					name = []string{"medium", "group_idx"}[i-2]
				}
				m[name] = v
			}
		}
		e := plainEvent{Kind: m["type"].(string)}
		if list, ok := m["block_hashes"].([]any); ok {
			for _, h := range list {
				e.Hashes = append(e.Hashes, fmt.Sprint(h))
			}
		}
		if p := m["parent_block_hash"]; p != nil {
			e.Parent = fmt.Sprint(p)
		}
		if list, ok := m["token_ids"].([]any); ok {
			for _, id := range list {
				var n int
				_, err := fmt.Sscan(fmt.Sprint(id), &n)
				require.NoError(t, err)
				e.Tokens = append(e.Tokens, n)
			}
		}
		for _, name := range append(names[4:], "session_id") {
			e.Rest += fmt.Sprintf("%s=%v ", name, m[name])
		}
		out = append(out, e)
	}
	return out
}

func unpack(t *testing.T, payload []byte) []any {
	t.Helper()
	var v []any
	require.NoError(t, msgpack.Unmarshal(payload, &v))
	return v
}

// pairs checks that two hashes always stand for each other.
type pairs struct{ there, back map[string]string }

func (p *pairs) match(t *testing.T, a, b string) {
	t.Helper()
	if was, ok := p.there[a]; ok {
		require.Equal(t, was, b, "hash %s", a)
	}
	if was, ok := p.back[b]; ok {
		require.Equal(t, was, a, "hash %s", b)
	}
	p.there[a], p.back[b] = b, a
}

func cachedTokens(text string) []string {
	return regexp.MustCompile(`"cached_tokens":\d+`).FindAllString(text, -1)
}

func TestCapturedScenariosHaveTheirEvents(t *testing.T) {
	t.Parallel()
	small := func(c *fakevllm.Config) { c.NumGPUBlocks, c.MaxModelLen, c.KVEvents.Topic = 40, 1024, "kv@worker-1" }
	old := func(c *fakevllm.Config) { c.Version, c.KVEvents.Topic, c.MaxModelLen = "0.23.0", "kv@old", 1024 }
	oldSmall := func(c *fakevllm.Config) { old(c); c.NumGPUBlocks = 40 }
	whole := func(c *fakevllm.Config) { c.KVEvents.BytesHashes = true }
	hybrid := func(c *fakevllm.Config) {
		c.NumGPUBlocks, c.Hybrid = 256, fakevllm.Hybrid{SlidingGroups: 2, WindowTokens: 64}
	}
	generated := "generated tokens are the model's"
	for _, row := range []struct {
		file   string
		adjust func(*fakevllm.Config)
		tokens string // why generated tokens are compared by number only; "" compares all
		until  string // first step that is left out, because it is concurrent or has a text prompt
	}{
		{file: "kv-a-five-blocks.jsonl"},
		{file: "kv-b-again.jsonl"},
		{file: "kv-d-lora.jsonl"},
		{file: "kv-e-cache-salt.jsonl"},
		{file: "kv-f-eviction.jsonl", adjust: small},
		{file: "kv-f2-duplicates-removed.jsonl", adjust: small},
		{file: "kv-f4-too-long.jsonl", adjust: small},
		{file: "kv-g-reset.jsonl", until: "running stream"},
		{file: "kv-h-replay.jsonl"},
		{file: "kv-h2-before-restart.jsonl", adjust: small},
		{file: "kv-j-multi-prompt.jsonl", until: "2 strings"},
		{file: "kv-k-n.jsonl", until: "chat n=2"},
		{file: "kv-l-logprobs.jsonl"},
		{file: "kv-m-decode-blocks.jsonl", tokens: generated},
		{file: "kv-n-chunked-prefill.jsonl"},
		{file: "kv-p-short.jsonl"},
		{file: "kv-q-report-full-session.jsonl"},
		{file: "kv-t-hybrid-swa.jsonl", adjust: hybrid, tokens: generated},
		{file: "bytes-kv-a-five-blocks.jsonl", adjust: whole},
		{file: "bytes-kv-d-lora.jsonl", adjust: whole},
		{file: "bytes-kv-e-cache-salt.jsonl", adjust: whole},
		{file: "bytes-kv-q-report-full-session.jsonl", adjust: whole},
		{file: "v0.23-kv-a-five-blocks.jsonl", adjust: old},
		{file: "v0.23-kv-b-again.jsonl", adjust: old},
		{file: "v0.23-kv-d-lora.jsonl", adjust: old},
		{file: "v0.23-kv-e-cache-salt.jsonl", adjust: old},
		{file: "v0.23-kv-f-eviction.jsonl", adjust: oldSmall},
		{file: "v0.23-kv-p-short.jsonl", adjust: old},
	} {
		t.Run(row.file, func(t *testing.T) {
			t.Parallel()
			cfg := captured()
			cfg.LoRAs = cfg.LoRAs[:1]
			if row.adjust != nil {
				row.adjust(&cfg)
			}
			s, url := start(t, cfg)
			want := run(t, url, row.file, row.until)
			var got []plainEvent
			batches := replay(t, s, 0, 0)
			for i, b := range batches {
				require.EqualValues(t, i, b.seq)
				if cfg.Version == "" {
					require.Equal(t, cfg.KVEvents.Topic, b.topic)
				}
				got = append(got, events(t, unpack(t, b.payload))...)
			}
			compareEvents(t, want, got, row.tokens == "")
		})
	}
}

// run sends a scenario's requests one after the other, compares what they found in the cache and returns the events
// that the real server published meanwhile. Steps with text prompts are left out with their events: the tokenizer is
// another one.
func run(t *testing.T, url, file, until string) []plainEvent {
	t.Helper()
	var want []plainEvent
	skipping, said := false, ""
	for _, line := range capture.Read(t, file) {
		if until != "" && line.Name == until {
			break
		}
		switch line.Kind {
		case "http":
			x := line.HTTP
			skipping = strings.HasPrefix(x.Path, "/v1/chat/")
			if skipping {
				continue
			}
			var headers []string
			for _, h := range x.Headers {
				if strings.HasPrefix(h[0], "X-") {
					headers = append(headers, h[0], h[1])
				}
			}
			if x.Method == "GET" {
				continue
			}
			if strings.HasSuffix(line.Name, "as prompt") {
				x.Body = continued(t, x.Body, said)
			}
			_, body := post(t, url+x.Path, x.Body, headers...)
			said = body
			if !strings.HasPrefix(file, "v0.23-") && !x.Cut {
				require.Equal(t, cachedTokens(x.Answer+strings.Join(x.Events, "")), cachedTokens(body), line.Name)
			}
		case "kv":
			if skipping {
				continue
			}
			var batch []any
			d := json.NewDecoder(strings.NewReader(string(line.Decoded)))
			d.UseNumber()
			require.NoError(t, d.Decode(&batch))
			want = append(want, events(t, batch)...)
		}
	}
	return want
}

// continued puts what the simulated model said into a prompt that goes on from the captured model's 96 tokens behind
// a prompt of 42.
func continued(t *testing.T, body, said string) string {
	t.Helper()
	var ids []string
	for _, m := range regexp.MustCompile(`"token_ids":\[(\d+)\]\}`).FindAllStringSubmatch(said, -1) {
		ids = append(ids, m[1])
	}
	require.Len(t, ids, 96)
	head, rest, _ := strings.Cut(body, "[")
	list, tail, _ := strings.Cut(rest, "]")
	prompt := strings.Split(list, ", ")
	copy(prompt[42:], ids)
	return head + "[" + strings.Join(prompt, ", ") + "]" + tail
}

func compareEvents(t *testing.T, want, got []plainEvent, tokens bool) {
	t.Helper()
	p := pairs{there: map[string]string{}, back: map[string]string{}}
	for i := range min(len(want), len(got)) {
		w, g := want[i], got[i]
		require.Equal(t, w.Kind, g.Kind, "event %d", i)
		require.Equal(t, w.Rest, g.Rest, "event %d", i)
		require.Len(t, g.Hashes, len(w.Hashes), "event %d", i)
		for k := range w.Hashes {
			p.match(t, w.Hashes[k], g.Hashes[k])
		}
		require.Equal(t, w.Parent == "", g.Parent == "", "event %d", i)
		if w.Parent != "" {
			p.match(t, w.Parent, g.Parent)
		}
		if tokens {
			require.Equal(t, w.Tokens, g.Tokens, "event %d", i)
		}
		require.Len(t, g.Tokens, len(w.Tokens), "event %d", i)
	}
	require.Len(t, got, len(want))
}
