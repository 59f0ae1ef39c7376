package tokenizersvc_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
)

func TestMain(m *testing.M) { kittest.Leak(m) }

// bench is a running service with the demo model and its client.
type bench struct {
	service *tokenizersvc.Service
	client  tokenizerv1.TokenizerServiceClient
	metrics *prometheus.Registry
}

// start runs a service until the test ends and waits until it is ready.
func start(t *testing.T, change func(*tokenizersvc.Config)) *bench {
	t.Helper()
	b := launch(t, change)
	kittest.Eventually(t, func() error { return b.service.Ready(t.Context()) })
	return b
}

// launch runs a service and does not wait.
func launch(t *testing.T, change func(*tokenizersvc.Config)) *bench {
	t.Helper()
	var cfg tokenizersvc.Config
	cfg.SetDefaults()
	cfg.ReloadInterval = -1
	cfg.Models = []tokenizersvc.ModelConfig{{Name: "demo", Path: fixture.Demo(t)}}
	if change != nil {
		change(&cfg)
	}
	b := &bench{metrics: prometheus.NewRegistry()}
	var err error
	b.service, err = tokenizersvc.New(t.Context(), cfg, tokenizersvc.Deps{Log: kittest.Logger(t), Registerer: b.metrics})
	require.NoError(t, err)
	ctx, cancel := newContext(t)
	done := make(chan error, 1)
	go func() { done <- b.service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, kittest.Recv(t, done))
	})
	b.client = tokenizerv1.NewTokenizerServiceClient(kittest.MemServer(t, b.service.Register))
	return b
}

// newContext outlives the test's own, which ends before its clean-up.
func newContext(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithCancel(context.WithoutCancel(t.Context()))
}

func (b *bench) encode(t *testing.T, text string) *tokenizerv1.EncodeResponse {
	t.Helper()
	resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: "demo", Text: []byte(text), WantTokenIds: true})
	require.NoError(t, err)
	return resp
}

// value reads a metric of the demo model, or one without labels.
func (b *bench) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := b.metrics.Gather()
	require.NoError(t, err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			var got []string
			for _, pair := range metric.GetLabel() {
				got = append(got, pair.GetValue())
			}
			if strings.Join(got, ",") != strings.Join(labels, ",") {
				continue
			}
			return metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return -1
}

const chat = "<|im_start|>system\nYou are a helpful assistant. Answer in plain words and say so when you do not know.<|im_end|>\n" +
	"<|im_start|>user\nPlease tell me something about lighthouses, and about the weather at sea in autumn.<|im_end|>\n" +
	"<|im_start|>assistant\n"

func TestEncodeHashesUnits(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	resp := b.encode(t, chat)
	require.EqualValues(t, len(resp.GetTokenIds()), resp.GetTokenCount())
	require.EqualValues(t, kvblock.UnitTokens, resp.GetUnitTokens())
	require.Len(t, resp.GetUnitHashes(), len(resp.GetTokenIds())/kvblock.UnitTokens)
	root := kvblock.Namespace{Model: "demo"}.Root()
	require.Equal(t, kvblock.AppendUnits(nil, root, resp.GetTokenIds(), ""), resp.GetUnitHashes())
}

// TestCutsEncodePiecesAlone: text between cuts is encoded as if it stood alone, and the hashes go over the whole.
func TestCutsEncodePiecesAlone(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	text := []byte("tokenisation begins anew at everything")
	pieces := func(cuts ...uint32) []uint32 {
		var ids []uint32
		from := uint32(0)
		for _, cut := range append(cuts, uint32(len(text))) {
			resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: "demo", Text: text[from:cut], WantTokenIds: true})
			require.NoError(t, err)
			ids = append(ids, resp.GetTokenIds()...)
			from = cut
		}
		return ids
	}
	whole := pieces()
	for _, cuts := range [][]uint32{{0}, {5}, {5, 5, 9}, {uint32(len(text))}, {3, 14}} {
		resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: "demo", Text: text, Cuts: cuts, WantTokenIds: true})
		require.NoError(t, err)
		require.Equal(t, pieces(cuts...), resp.GetTokenIds(), cuts)
	}
	require.NotEqual(t, whole, pieces(3), "the cut inside a word shows")
	for name, req := range map[string]*tokenizerv1.EncodeRequest{
		"outside":    {Cuts: []uint32{uint32(len(text)) + 1}},
		"descending": {Cuts: []uint32{5, 3}},
		"special":    {Cuts: []uint32{5}, AddSpecialTokens: true},
	} {
		req.Model, req.Text = "demo", text
		_, err := b.client.Encode(t.Context(), req)
		require.Equal(t, faultv1.Reason_REASON_INVALID_REQUEST, fault.ReasonOf(err), name)
	}
}

// TestBOSOfTransformers4: text prompts of Llama's tokenizer class begin with BOS where the workers run transformers 4,
// and chats do not.
func TestBOSOfTransformers4(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyDemo(t, dir, nil)
	config := `{"tokenizer_class":"LlamaTokenizerFast","add_bos_token":true,"bos_token":"<|im_start|>"}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o600))
	b := start(t, func(c *tokenizersvc.Config) {
		c.Models = append(c.Models,
			tokenizersvc.ModelConfig{Name: "four", Path: dir, Transformers: 4},
			tokenizersvc.ModelConfig{Name: "five", Path: dir},
		)
	})
	ids := func(model string, text string, special bool) []uint32 {
		resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{
			Model: model, Text: []byte(text), AddSpecialTokens: special, WantTokenIds: true,
		})
		require.NoError(t, err)
		return resp.GetTokenIds()
	}
	for _, text := range []string{"Once", strings.Repeat("upon a time ", 40), ""} {
		plain := ids("five", text, false)
		require.Equal(t, plain, ids("four", text, false))
		require.Equal(t, plain, ids("five", text, true))
		require.Equal(t, append(ids("five", "<|im_start|>", false), plain...), ids("four", text, true))
	}
}

func TestSaltingEntersTheHashes(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	plain := b.encode(t, chat)
	rows := []struct {
		name    string
		salting *tokenizerv1.Salting
		want    func(ids []uint32) []uint64
		unit    uint32
	}{
		{"LoRA", &tokenizerv1.Salting{LoraName: "sql"}, func(ids []uint32) []uint64 {
			return kvblock.AppendUnits(nil, kvblock.Namespace{Model: "demo", LoRA: "sql"}.Root(), ids, "")
		}, 16},
		{"cache salt", &tokenizerv1.Salting{CacheSalt: "tenant"}, func(ids []uint32) []uint64 {
			return kvblock.AppendUnits(nil, kvblock.Namespace{Model: "demo"}.Root(), ids, "tenant")
		}, 16},
		{"odd block size", &tokenizerv1.Salting{BlockTokens: 24}, func(ids []uint32) []uint64 {
			return kvblock.AppendBlocks(nil, kvblock.Namespace{Model: "demo"}.Root(), ids, 24, "")
		}, 24},
		{"block of whole units", &tokenizerv1.Salting{BlockTokens: 64}, func(ids []uint32) []uint64 {
			return kvblock.AppendUnits(nil, kvblock.Namespace{Model: "demo"}.Root(), ids, "")
		}, 16},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			resp, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{
				Model: "demo", Text: []byte(chat), Salting: row.salting,
			})
			require.NoError(t, err)
			require.Empty(t, resp.GetTokenIds(), "ids were not asked for")
			require.Equal(t, row.want(plain.GetTokenIds()), resp.GetUnitHashes())
			require.Equal(t, row.unit, resp.GetUnitTokens())
			hashed, err := b.client.HashTokens(t.Context(), &tokenizerv1.HashTokensRequest{
				Model: "demo", TokenIds: plain.GetTokenIds(), Salting: row.salting,
			})
			require.NoError(t, err)
			require.Equal(t, resp.GetUnitHashes(), hashed.GetUnitHashes())
			require.Equal(t, row.unit, hashed.GetUnitTokens())
		})
	}
}

func TestHashTokensOfAnUnknownModel(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	ids := make([]uint32, 32)
	resp, err := b.client.HashTokens(t.Context(), &tokenizerv1.HashTokensRequest{Model: "other", TokenIds: ids})
	require.NoError(t, err)
	require.Len(t, resp.GetUnitHashes(), 2)
}

func TestBatchKeepsTheOrder(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	var texts [][]byte
	for _, line := range strings.SplitAfter(strings.Repeat(chat, 30), "\n") {
		texts = append(texts, []byte(line))
	}
	resp, err := b.client.EncodeBatch(t.Context(), &tokenizerv1.EncodeBatchRequest{Model: "demo", Texts: texts, WantTokenIds: true})
	require.NoError(t, err)
	require.Len(t, resp.GetResults(), len(texts))
	for i, text := range texts {
		require.Equal(t, b.encode(t, string(text)).GetTokenIds(), resp.GetResults()[i].GetTokenIds())
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *tokenizersvc.Config) {
		c.Models = append(c.Models, tokenizersvc.ModelConfig{Name: "broken", Path: t.TempDir()})
		tekken := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(tekken, "tekken.json"), []byte("{}"), 0o600))
		c.Models = append(c.Models, tokenizersvc.ModelConfig{Name: "mistral", Path: tekken})
		c.MaxTextBytes = 64 * conf.KiB
		c.MaxRunBytes = 4 * conf.KiB
	})
	encode := func(model, text string) error {
		_, err := b.client.Encode(t.Context(), &tokenizerv1.EncodeRequest{Model: model, Text: []byte(text)})
		return err
	}
	decode := func(req *tokenizerv1.DecodeRequest) error {
		req.Model = "demo"
		_, err := b.client.Decode(t.Context(), req)
		return err
	}
	rows := []struct {
		name   string
		err    error
		reason faultv1.Reason
		says   string
	}{
		{"unknown model", encode("nope", "x"), faultv1.Reason_REASON_MODEL_NOT_FOUND, `"nope"`},
		{"damaged model", encode("broken", "x"), faultv1.Reason_REASON_TOKENIZER_FAILED, "could not be loaded"},
		{"refused format", encode("mistral", "x"), faultv1.Reason_REASON_UNSUPPORTED_MODEL, "tekken"},
		{"long text", encode("demo", strings.Repeat("ab 1 ", 20_000)), faultv1.Reason_REASON_TOO_LARGE, "100000 bytes"},
		{"endless spaces", encode("demo", strings.Repeat(" ", 5000)), faultv1.Reason_REASON_TOO_LARGE, "run of"},
		{"endless letters", encode("demo", strings.Repeat("a", 5000)), faultv1.Reason_REASON_TOO_LARGE, "run of"},
		{"batch with one bad text", func() error {
			_, err := b.client.EncodeBatch(t.Context(), &tokenizerv1.EncodeBatchRequest{
				Model: "demo", Texts: [][]byte{[]byte("ok"), []byte(strings.Repeat("-", 5000))},
			})
			return err
		}(), faultv1.Reason_REASON_TOO_LARGE, "run of"},
		{
			"id out of range", decode(&tokenizerv1.DecodeRequest{TokenIds: []uint32{5, 8000}}),
			faultv1.Reason_REASON_INVALID_REQUEST, "token id 8000 is out of range: the model has 8000 ids",
		},
		{
			"largest id", decode(&tokenizerv1.DecodeRequest{TokenIds: []uint32{0xffffffff}}),
			faultv1.Reason_REASON_INVALID_REQUEST, "out of range",
		},
		{
			"too many ids", decode(&tokenizerv1.DecodeRequest{TokenIds: make([]uint32, 1<<20+1)}),
			faultv1.Reason_REASON_TOO_LARGE, "more than the limit",
		},
		{
			"state that no response gave", decode(&tokenizerv1.DecodeRequest{State: &tokenizerv1.DecodeState{ReadOffset: 3}}),
			faultv1.Reason_REASON_INVALID_REQUEST, "decode state",
		},
		{
			"state with unknown ids", decode(&tokenizerv1.DecodeRequest{State: &tokenizerv1.DecodeState{PendingTokenIds: []uint32{9999}}}),
			faultv1.Reason_REASON_INVALID_REQUEST, "out of range",
		},
		{"state with offsets the wrong way", decode(&tokenizerv1.DecodeRequest{State: &tokenizerv1.DecodeState{
			PendingTokenIds: []uint32{1, 2}, PrefixOffset: 2, ReadOffset: 1,
		}}), faultv1.Reason_REASON_INVALID_REQUEST, "decode state"},
		{"hash of unknown ids", func() error {
			_, err := b.client.HashTokens(t.Context(), &tokenizerv1.HashTokensRequest{Model: "demo", TokenIds: []uint32{8000}})
			return err
		}(), faultv1.Reason_REASON_INVALID_REQUEST, "out of range"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			require.Error(t, row.err)
			got := fault.From(row.err)
			require.Equal(t, row.reason.String(), got.Reason.String())
			require.Contains(t, got.Message, row.says)
		})
	}
	require.NoError(t, encode("demo", "the service still answers"))
}

func TestOneBadModelDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *tokenizersvc.Config) {
		c.Models = append(c.Models, tokenizersvc.ModelConfig{Name: "absent", Path: filepath.Join(t.TempDir(), "none")})
	})
	resp, err := b.client.ListModels(t.Context(), &tokenizerv1.ListModelsRequest{})
	require.NoError(t, err)
	require.Len(t, resp.GetModels(), 2)
	require.Equal(t, tokenizerv1.ModelState_MODEL_STATE_FAILED, resp.GetModels()[0].GetState())
	require.NotEmpty(t, resp.GetModels()[0].GetDetail())
	demo := resp.GetModels()[1]
	require.Equal(t, tokenizerv1.ModelState_MODEL_STATE_READY, demo.GetState())
	require.Equal(t, "fast", demo.GetEngine())
	require.True(t, demo.GetSegmentCache())
	require.EqualValues(t, 8000, demo.GetVocabulary())
	require.EqualValues(t, 1, b.value(t, "kvmesh_tokenizer_model_ready", "demo"))
	require.EqualValues(t, 0, b.value(t, "kvmesh_tokenizer_model_ready", "absent"))
}

func TestNotReadyWithoutAnyModel(t *testing.T) {
	t.Parallel()
	b := launch(t, func(c *tokenizersvc.Config) { c.Models[0].Path = t.TempDir() })
	kittest.Eventually(t, func() error {
		err := b.service.Ready(t.Context())
		if err != nil && strings.Contains(err.Error(), "no tokenizer could be loaded: demo") {
			return nil
		}
		return err
	})
	none := start(t, func(c *tokenizersvc.Config) { c.Models = nil })
	require.NoError(t, none.service.Ready(t.Context()))
}

func TestSecondTurnComesFromTheCache(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	b.encode(t, chat)
	require.EqualValues(t, 0, b.value(t, "kvmesh_tokenizer_segment_bytes_total", "demo", "hit"))
	second := b.encode(t, chat+"They are tall.<|im_end|>\n<|im_start|>user\nThank you!<|im_end|>\n<|im_start|>assistant\n")
	require.Greater(t, b.value(t, "kvmesh_tokenizer_segment_bytes_total", "demo", "hit"), 100.0)
	require.Positive(t, b.value(t, "kvmesh_tokenizer_segment_cache_bytes"))
	fresh := start(t, func(c *tokenizersvc.Config) { c.NoSegmentCache = true; c.Engine = "reference" })
	want := fresh.encode(t, chat+"They are tall.<|im_end|>\n<|im_start|>user\nThank you!<|im_end|>\n<|im_start|>assistant\n")
	require.Equal(t, want.GetTokenIds(), second.GetTokenIds())
	require.EqualValues(t, -1, fresh.value(t, "kvmesh_tokenizer_segment_cache_bytes"))
}

func TestAuditsAreCounted(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *tokenizersvc.Config) { c.AuditEvery = 1 })
	b.encode(t, chat)
	kittest.Eventually(t, func() error {
		if b.value(t, "kvmesh_tokenizer_audits_total", "demo", "equal") == 1 {
			return nil
		}
		return context.DeadlineExceeded
	})
	require.EqualValues(t, 1, b.value(t, "kvmesh_tokenizer_fast_engine", "demo"))
}

func TestDecodeWholeAndAsAStream(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	text := "Grüße, 世界! <think>a\x00b</think> 👩🏽‍🚀 done<|im_end|>"
	ids := b.encode(t, text).GetTokenIds()
	whole, err := b.client.Decode(t.Context(), &tokenizerv1.DecodeRequest{Model: "demo", TokenIds: ids, SkipSpecialTokens: true})
	require.NoError(t, err)
	require.Equal(t, strings.TrimSuffix(text, "<|im_end|>"), string(whole.GetText()))
	require.Nil(t, whole.GetState())
	var streamed strings.Builder
	state := &tokenizerv1.DecodeState{}
	for i, id := range ids {
		step, err := b.client.Decode(t.Context(), &tokenizerv1.DecodeRequest{
			Model: "demo", TokenIds: []uint32{id}, State: state, SkipSpecialTokens: true, Flush: i == len(ids)-1,
		})
		require.NoError(t, err)
		require.NotContains(t, string(step.GetText()), "\ufffd")
		streamed.Write(step.GetText())
		state = step.GetState()
	}
	require.Equal(t, string(whole.GetText()), streamed.String())
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	rows := []struct{ name, text string }{
		{"nothing", ""},
		{"NUL", "\x00\x00<|im_end|>\x00"},
		{"surrogates", strings.Repeat("\xed\xa0\x80\xed\xb0\x80", 1000)},
		{"bytes that are no text", strings.Repeat("\xff\xfe\xc3", 5000)},
		{"added tokens only", strings.Repeat("<|im_start|><|im_end|>", 5000)},
		{"almost added tokens", strings.Repeat("<|im_star", 5000)},
		{"combining marks", "a" + strings.Repeat("\u0301", 20_000)},
		{"8 MB of prose", strings.Repeat("The sea was calm, and nobody spoke. ", 8<<20/37)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			resp := b.encode(t, row.text)
			decoded, err := b.client.Decode(t.Context(), &tokenizerv1.DecodeRequest{Model: "demo", TokenIds: resp.GetTokenIds()[:min(len(resp.GetTokenIds()), 1<<20)]})
			require.NoError(t, err)
			if len(row.text) < 1<<20 && row.name != "combining marks" {
				require.Equal(t, strings.ToValidUTF8(row.text, "\ufffd") == row.text, string(decoded.GetText()) == row.text)
			}
		})
	}
}

func TestCancelledWhileWaitingForASlot(t *testing.T) {
	t.Parallel()
	b := start(t, func(c *tokenizersvc.Config) { c.Parallel = 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := b.client.Encode(ctx, &tokenizerv1.EncodeRequest{Model: "demo", Text: []byte(strings.Repeat(chat, 100))})
			if err != nil && fault.ReasonOf(err) != faultv1.Reason_REASON_CANCELLED {
				t.Errorf("reason %v, want CANCELLED", fault.ReasonOf(err))
			}
		})
	}
	group.Wait()
	b.encode(t, "the slot is free again")
}

func TestReloadWhileRequestsRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyDemo(t, dir, nil)
	b := start(t, func(c *tokenizersvc.Config) {
		c.Models[0].Path = dir
		c.ReloadInterval = 1 // every look follows the last at once
	})
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := b.client.Encode(context.Background(), &tokenizerv1.EncodeRequest{Model: "demo", Text: []byte(chat)}); err != nil {
					t.Errorf("a request failed while the model was loaded again: %v", err)
					return
				}
			}
		})
	}
	copyDemo(t, dir, map[string]any{"vocab_size": 9000})
	kittest.Eventually(t, func() error {
		_, err := b.client.Decode(t.Context(), &tokenizerv1.DecodeRequest{Model: "demo", TokenIds: []uint32{8999}})
		return err
	})
	close(stop)
	group.Wait()
}

// copyDemo writes the demo model to dir with changes to config.json.
func copyDemo(t *testing.T, dir string, change map[string]any) {
	t.Helper()
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "config.json"} {
		data, err := os.ReadFile(filepath.Join(fixture.Demo(t), name))
		require.NoError(t, err)
		if name == "config.json" && change != nil {
			config := map[string]any{}
			require.NoError(t, json.Unmarshal(data, &config))
			for key, value := range change {
				config[key] = value
			}
			data, err = json.Marshal(config)
			require.NoError(t, err)
		}
		temp := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(temp, data, 0o600))
		require.NoError(t, os.Rename(temp, filepath.Join(dir, name)))
	}
}
