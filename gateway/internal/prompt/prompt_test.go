package prompt

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// services stands for template and tokenizer; a delay or an error makes either fail.
type services struct {
	renderDelay, encodeDelay time.Duration
	renderErr, encodeErr     error
	response                 *templatev1.RenderResponse
	tokens                   uint32
	rendered                 *templatev1.RenderRequest
	encoded                  *tokenizerv1.EncodeRequest
	calls                    atomic.Int32
}

type renderer struct {
	templatev1.TemplateServiceClient
	*services
}

type encoder struct {
	tokenizerv1.TokenizerServiceClient
	*services
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return fault.From(ctx.Err())
	}
}

func (s renderer) Render(ctx context.Context, q *templatev1.RenderRequest, _ ...grpc.CallOption) (*templatev1.RenderResponse, error) {
	s.calls.Add(1)
	s.rendered = q
	if err := pause(ctx, s.renderDelay); err != nil {
		return nil, err
	}
	if s.response != nil {
		return s.response, s.renderErr
	}
	return &templatev1.RenderResponse{Text: []byte("rendered")}, s.renderErr
}

func (s encoder) Encode(ctx context.Context, q *tokenizerv1.EncodeRequest, _ ...grpc.CallOption) (*tokenizerv1.EncodeResponse, error) {
	s.calls.Add(1)
	s.encoded = q
	if err := pause(ctx, s.encodeDelay); err != nil {
		return nil, err
	}
	out := &tokenizerv1.EncodeResponse{TokenCount: 40, UnitHashes: []uint64{1, 2}, UnitTokens: 16}
	if s.tokens > 0 {
		out.TokenCount = s.tokens
	}
	if q.GetWantTokenIds() {
		out.TokenIds = []uint32{7}
	}
	return out, s.encodeErr
}

// budget is what the tests of slow services rely on; the others must not meet it on a busy machine.
func (s *services) budget() time.Duration {
	if s.renderDelay+s.encodeDelay > 0 {
		return 100 * time.Millisecond
	}
	return time.Minute
}

func (s *services) preparer(skipped func(string)) *Preparer {
	if skipped == nil {
		skipped = func(string) {}
	}
	return New(Config{Budget: s.budget(), WantIDs: true}, renderer{services: s}, encoder{services: s}, skipped)
}

func scan(t *testing.T, shape openai.Shape, doc string) *openai.Request {
	t.Helper()
	q, err := openai.Scan(shape, []byte(doc), 100)
	require.NoError(t, err)
	return q
}

const exact, guessed = schedulerv1.Certainty_CERTAINTY_EXACT, schedulerv1.Certainty_CERTAINTY_FALLBACK

func TestChatIsRenderedAndEncoded(t *testing.T) {
	t.Parallel()
	s := &services{}
	q := scan(t, openai.ShapeChat, `{"messages":[{"role":"user"}],"tools":[1.0],"cache_salt":"s","add_generation_prompt":false}`)
	p, err := s.preparer(nil).Prepare(context.Background(), q, fleet.Model{ID: "l", Base: "b", LoRA: "l"})
	require.NoError(t, err)
	require.Equal(t, &Prompt{Hashes: []uint64{1, 2}, UnitTokens: 16, Tokens: 40, Certainty: exact, IDs: []uint32{7}}, p)
	require.Equal(t, "b", s.rendered.GetModel())
	require.Equal(t, `[1.0]`, string(s.rendered.GetToolsJson()))
	require.Nil(t, s.rendered.GetDocumentsJson(), "absent stays absent")
	require.False(t, *s.rendered.AddGenerationPrompt)
	require.Equal(t, "rendered", string(s.encoded.GetText()))
	require.False(t, s.encoded.GetAddSpecialTokens(), "a rendered chat has its own special tokens")
	require.Equal(t, "l", s.encoded.GetSalting().GetLoraName())
	require.Equal(t, "s", s.encoded.GetSalting().GetCacheSalt())
	require.True(t, s.encoded.GetWantTokenIds())
}

// TestPromptsThatAreNotCutAreExact: also where the model's own length is the limit, and where the member says nothing.
func TestPromptsThatAreNotCutAreExact(t *testing.T) {
	t.Parallel()
	for _, keep := range []string{"40", "-1", "null", "[]", "1e3"} {
		p, err := (&services{}).preparer(nil).Prepare(context.Background(),
			scan(t, openai.ShapeChat, `{"messages":[{}],"truncate_prompt_tokens":`+keep+`}`), fleet.Model{Base: "b"})
		require.NoError(t, err)
		require.Equal(t, exact, p.Certainty, keep)
	}
}

// TestSpecialTokensOfChats: a chat may ask the tokenizer for its own tokens; Harmony's prompts have no text to put them around.
func TestSpecialTokensOfChats(t *testing.T) {
	t.Parallel()
	const doc = `{"messages":[{"role":"user"}],"add_special_tokens":true}`
	s := &services{}
	_, err := s.preparer(nil).Prepare(context.Background(), scan(t, openai.ShapeChat, doc), fleet.Model{Base: "b"})
	require.NoError(t, err)
	require.True(t, s.encoded.GetAddSpecialTokens())
	s = &services{response: &templatev1.RenderResponse{Text: []byte("ab"), Cuts: []uint32{1}}}
	_, err = s.preparer(nil).Prepare(context.Background(), scan(t, openai.ShapeChat, doc), fleet.Model{Base: "b"})
	require.NoError(t, err)
	require.False(t, s.encoded.GetAddSpecialTokens())
}

// TestOtherAPIsAreRenderedAsTheirChat: ids are not asked for, since how to send them is proven for chats alone.
func TestOtherAPIsAreRenderedAsTheirChat(t *testing.T) {
	t.Parallel()
	high := "high"
	for name, row := range map[string]struct {
		shape openai.Shape
		doc   string
		want  *templatev1.RenderRequest
	}{
		"messages": {
			openai.ShapeMessages,
			`{"messages":[{"role":"user","content":"b"}],"system":"a","tools":[{"name":"f","input_schema":{"type":"object"}}],` +
				`"chat_template_kwargs":{"x":1},"output_config":{"effort":"high"},"cache_salt":"s"}`,
			&templatev1.RenderRequest{
				Model: "b", MessagesJson: []byte(`[{"role":"system","content":"a"},{"role":"user","content":"b"}]`),
				ToolsJson:      []byte(`[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`),
				ToolChoiceJson: []byte(`"auto"`), ChatTemplateKwargsJson: []byte(`{"x":1}`), ReasoningEffort: &high,
			},
		},
		"responses": {
			openai.ShapeResponses, `{"input":"b","instructions":"a","reasoning":{"effort":"high"},"cache_salt":"s"}`,
			&templatev1.RenderRequest{
				Model: "b", MessagesJson: []byte(`[{"role":"system","content":"a"},{"role":"user","content":"b"}]`), ReasoningEffort: &high,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &services{}
			p, err := s.preparer(nil).Prepare(context.Background(), scan(t, row.shape, row.doc), fleet.Model{Base: "b"})
			require.NoError(t, err)
			require.Equal(t, &Prompt{Hashes: []uint64{1, 2}, UnitTokens: 16, Tokens: 40, Certainty: exact}, p)
			require.Empty(t, cmp.Diff(row.want, s.rendered, protocmp.Transform()))
			require.Equal(t, "s", s.encoded.GetSalting().GetCacheSalt())
			require.Equal(t, row.shape == openai.ShapeResponses, s.encoded.GetAddSpecialTokens(), "vLLM's default for the API")
			require.False(t, s.encoded.GetWantTokenIds())
		})
	}
}

func TestCompletionText(t *testing.T) {
	t.Parallel()
	s := &services{}
	_, err := s.preparer(nil).Prepare(context.Background(), scan(t, openai.ShapeCompletion, `{"prompt":"a\nb"}`), fleet.Model{Base: "b"})
	require.NoError(t, err)
	require.Equal(t, "a\nb", string(s.encoded.GetText()))
	require.True(t, s.encoded.GetAddSpecialTokens(), "vLLM's default for text")
	require.Nil(t, s.rendered)
}

func TestCompletionIDsAreHashedHere(t *testing.T) {
	t.Parallel()
	s := &services{}
	ids := make([]string, 40)
	want := make([]uint32, 40)
	for i := range ids {
		ids[i], want[i] = fmt.Sprint(i), uint32(i)
	}
	q := scan(t, openai.ShapeCompletion, `{"prompt":[`+strings.Join(ids, ",")+`],"cache_salt":"s"}`)
	p, err := s.preparer(nil).Prepare(context.Background(), q, fleet.Model{Base: "b", LoRA: "l"})
	require.NoError(t, err)
	root := kvblock.Namespace{Model: "b", LoRA: "l"}.Root()
	require.Equal(t, kvblock.AppendUnits(nil, root, want, "s"), p.Hashes)
	require.EqualValues(t, 40, p.Tokens)
	require.Equal(t, exact, p.Certainty)
	require.Zero(t, s.calls.Load())
}

func TestWhatCannotBePreparedFallsBack(t *testing.T) {
	t.Parallel()
	refused := fault.New(faultv1.Reason_REASON_TEMPLATE_FAILED, "no")
	rows := []struct {
		name  string
		s     *services
		shape openai.Shape
		doc   string
		want  string
	}{
		{"template fails", &services{renderErr: refused}, openai.ShapeChat, `{"messages":[{}]}`, ReasonTemplate},
		{"tokenizer fails", &services{encodeErr: refused}, openai.ShapeChat, `{"messages":[{}]}`, ReasonTokenizer},
		{"ids out of range", &services{}, openai.ShapeCompletion, `{"prompt":[-1]}`, ReasonTokenizer},
		{"null prompt", &services{}, openai.ShapeCompletion, `{"prompt":null}`, ReasonOperation},
		{"responses that continue another", &services{}, openai.ShapeResponses, `{"input":"x","previous_response_id":"r"}`, ReasonOperation},
		{
			"responses of a Harmony model", &services{response: &templatev1.RenderResponse{Text: []byte("ab"), Cuts: []uint32{1}}},
			openai.ShapeResponses, `{"input":"x"}`, ReasonOperation,
		},
		{"messages with an image", &services{}, openai.ShapeMessages, `{"messages":[{"role":"user","content":[{"type":"image"}]}]}`, ReasonOperation},
		{"template fails for messages", &services{renderErr: refused}, openai.ShapeMessages, `{"messages":[]}`, ReasonTemplate},
		{"a chat longer than what is kept", &services{}, openai.ShapeChat, `{"messages":[{}],"truncate_prompt_tokens":39}`, ReasonTruncated},
		{"a text longer than what is kept", &services{}, openai.ShapeCompletion, `{"prompt":"a","truncate_prompt_tokens":0}`, ReasonTruncated},
		{"ids longer than what is kept", &services{}, openai.ShapeCompletion, `{"prompt":[1,2,3],"truncate_prompt_tokens":"2"}`, ReasonTruncated},
		{"embeddings", &services{}, openai.ShapeOther, `{"input":"x"}`, ReasonOperation},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var skipped []string
			p, err := row.s.preparer(func(r string) { skipped = append(skipped, r) }).Prepare(context.Background(), scan(t, row.shape, row.doc), fleet.Model{Base: "b"})
			require.NoError(t, err)
			require.Equal(t, guessed, p.Certainty)
			require.Equal(t, row.want, p.Reason)
			require.Positive(t, p.Tokens)
			if row.want == ReasonOperation {
				require.Empty(t, skipped, "nothing was skipped that could have been done")
			} else {
				require.Equal(t, []string{row.want}, skipped)
			}
		})
	}
}

// TestSlownessCostsTheBudgetOnlyAtFirst: after a few late answers the service is left alone, but for one request now and then.
func TestSlownessCostsTheBudgetOnlyAtFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &services{encodeDelay: time.Minute}
		p := s.preparer(nil)
		q := scan(t, openai.ShapeChat, `{"messages":[{}]}`)
		for i := range 10 {
			start := time.Now()
			out, err := p.Prepare(context.Background(), q, fleet.Model{Base: "b"})
			require.NoError(t, err)
			require.Equal(t, ReasonSlow, out.Reason)
			took := time.Since(start)
			if i < restAfter {
				require.Equal(t, 100*time.Millisecond, took)
			} else {
				require.Zero(t, took)
			}
		}
		for range 3 {
			time.Sleep(restFor)
			for i := range 5 {
				start := time.Now()
				_, err := p.Prepare(context.Background(), q, fleet.Model{Base: "b"})
				require.NoError(t, err)
				require.Equal(t, i == 0, time.Since(start) > 0, "one finds out")
			}
		}
		s.encodeDelay = 0
		out, err := p.Prepare(context.Background(), q, fleet.Model{Base: "other"})
		require.NoError(t, err)
		require.Equal(t, exact, out.Certainty, "other models are not concerned")
		time.Sleep(restFor)
		out, err = p.Prepare(context.Background(), q, fleet.Model{Base: "b"})
		require.NoError(t, err)
		require.Equal(t, exact, out.Certainty)
		require.Empty(t, p.resting.models)
	})
}

// TestOneStallIsOneSlowness: requests that one stall makes late together count once, those that come after it anew.
func TestOneStallIsOneSlowness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRests()
		for stall := range restAfter {
			require.False(t, r.now("b"), "stall %d", stall)
			begun := time.Now()
			for range 40 { // begun up to the stall's end, given up one after another
				time.Sleep(10 * time.Millisecond)
				r.note("b", true, begun)
			}
			time.Sleep(restFor / 10)
		}
		require.True(t, r.now("b"))
		require.False(t, r.now("other"))
		time.Sleep(restFor)
		require.False(t, r.now("b"))
		require.True(t, r.now("b"), "one is enough to find out")
		r.note("b", true, time.Now())
		require.True(t, r.now("b"), "and so is one more")
		time.Sleep(restFor)
		require.False(t, r.now("b"))
		r.note("b", false, time.Now())
		require.False(t, r.now("b"), "being in time forgets")
	})
}

func TestTheClientLeavingIsNoSlowness(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &services{renderDelay: time.Minute}
		p := s.preparer(nil)
		ctx, cancel := context.WithCancel(context.Background())
		go func() { time.Sleep(time.Millisecond); cancel() }()
		_, err := p.Prepare(ctx, scan(t, openai.ShapeChat, `{"messages":[{}]}`), fleet.Model{Base: "b"})
		require.Equal(t, faultv1.Reason_REASON_CANCELLED, fault.ReasonOf(err))
		require.Empty(t, p.resting.models)
		p.resting.note("b", true, time.Now())
		ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, _ = p.Prepare(ctx, scan(t, openai.ShapeChat, `{"messages":[{}]}`), fleet.Model{Base: "b"})
		require.Equal(t, 1, p.resting.models["b"].late, "nor does it forget one")
	})
}

// chat is a conversation of turns; each turn's text is its own.
func chat(turns int, salt, tools string) string {
	var msgs []string
	for i := range turns {
		msgs = append(msgs, fmt.Sprintf(`{"role":"user","content":"%s"}`, strings.Repeat(fmt.Sprintf("turn %d ", i), 40)))
	}
	return `{"messages":[` + strings.Join(msgs, ",") + `]` + salt + tools + `}`
}

// TestFallbackChainsShareTheirPrefix: the next turn of a conversation begins with the hashes of the one before; other
// tools, salts and adapters do not.
func TestFallbackChainsShareTheirPrefix(t *testing.T) {
	t.Parallel()
	hashes := func(doc string, m fleet.Model) []uint64 {
		return fallback(scan(t, openai.ShapeChat, doc), m, ReasonTemplate).Hashes
	}
	b := fleet.Model{Base: "b"}
	two, three := hashes(chat(2, "", ""), b), hashes(chat(3, "", ""), b)
	require.Greater(t, len(three), len(two))
	require.Equal(t, two[:len(two)-1], three[:len(two)-1])
	for name, other := range map[string][]uint64{
		"salt":  hashes(chat(2, `,"cache_salt":"s"`, ""), b),
		"tools": hashes(chat(2, "", `,"tools":[{"a":1}]`), b),
		"lora":  hashes(chat(2, "", ""), fleet.Model{Base: "b", LoRA: "l"}),
		"model": hashes(chat(2, "", ""), fleet.Model{Base: "c"}),
	} {
		require.NotEqual(t, two[0], other[0], name)
	}
}

func TestFallbackIsBounded(t *testing.T) {
	t.Parallel()
	doc := `{"messages":[{"content":"` + strings.Repeat("x", 3<<20) + `"}]}`
	p := fallback(scan(t, openai.ShapeChat, doc), fleet.Model{Base: "b"}, ReasonTemplate)
	require.Len(t, p.Hashes, maxFallbackUnits)
	require.Greater(t, p.Tokens, uint32(700_000), "the length counts whole")
}

// TestByteChainDoesNotCareHowItIsFed compares pieces with the whole.
func TestByteChainDoesNotCareHowItIsFed(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("0123456789", 100))
	feed := func(step int) []uint64 {
		c := byteChain{root: 5, prev: 5}
		for at := 0; at < len(text); at += step {
			c.write(text[at:min(at+step, len(text))])
		}
		return c.hashes
	}
	want := feed(len(text))
	require.Len(t, want, len(text)/unitBytes)
	for _, step := range []int{1, 3, 63, 64, 65, 200} {
		require.Equal(t, want, feed(step))
	}
}
