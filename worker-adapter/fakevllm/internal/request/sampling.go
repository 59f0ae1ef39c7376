package request

import (
	"math"
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// Unset stands for a null integer option; -1 is a value that clients send.
const Unset = math.MinInt32

// maxSequences is VLLM_MAX_N_SEQUENCES.
const maxSequences = 16384

// maxLogprobs is vLLM's --max-logprobs.
const maxLogprobs = 20

// Sampling are the options that shape the output.
type Sampling struct {
	N              int // choices per prompt
	MaxTokens      int // Unset if the client gave none
	MinTokens      int // before which no stop applies
	Temperature    float64
	HasTemperature bool
	Stop           []string
	IncludeStop    bool
	StopIDs        []uint32
	AllowedIDs     []uint32
	IgnoreEOS      bool
	Seed           uint64
	Logprobs       int // alternatives per token; Unset for no logprobs
	PromptLogprobs int // Unset for none
	topP           float64
	topK           int64
	biased         []int64
}

// Common are the options that all generating endpoints share.
type Common struct {
	Model               string
	Sampling            Sampling
	Stream              bool
	IncludeUsage        bool
	ContinuousUsage     bool   // only together with IncludeUsage
	StreamInterval      int    // tokens per chunk, but for the first
	Echo                bool   // the prompt stands before the answer
	ReturnTokenIDs      bool   // of prompt and output
	ReturnTokensAsIDs   bool   // logprobs name tokens "token_id:N"
	CacheSalt           string // separates caches of equal prompts
	SessionID           string // goes into the events of blocks
	RequestID           string // part of the answer's id unless a header has one
	Priority            int    // lower is sooner, under the priority policy
	ReportFull          bool   // announce cached blocks again
	TruncatePrompt      int    // tokens of the prompt's end that are kept; Unset for all
	AddSpecial          bool   // begin-of-sequence token and the like
	Limit               Constraint
	HasPromptSurrogates bool // the body holds text that no tokenizer takes
}

// common reads the shared fields. The names of a field's value and of its place in the message are the same.
func (c *checker) common(root *pyjson.Value, into *Common) {
	at := func(name string) (*pyjson.Value, string) { return root.Get(name), "body." + name }
	s := &into.Sampling
	num := func(name string, def int64) int64 { v, loc := at(name); return c.integer(v, loc, def) }
	flag := func(name string, def bool) bool { v, loc := at(name); return c.boolean(v, loc, def) }
	str := func(name string) string { v, loc := at(name); return c.text(v, loc) }

	into.Model = str("model")
	into.Echo = flag("echo", false)
	if bias := root.Get("logit_bias"); bias.Kind == pyjson.Dict {
		for i := range bias.Members {
			id, _ := strconv.ParseInt(bias.Members[i].Key, 10, 64)
			s.biased = append(s.biased, id)
		}
	}
	s.MaxTokens = int(num("max_tokens", Unset))
	if v := root.Get("max_completion_tokens"); !v.IsNull() {
		s.MaxTokens = int(num("max_completion_tokens", Unset))
	}
	s.N = int(num("n", 1))
	s.Seed = uint64(num("seed", 0))
	s.Stop = c.stops(at("stop"))
	into.Stream = flag("stream", false)
	c.streamOptions(root.Get("stream_options"), into)
	temp, loc := at("temperature")
	s.HasTemperature = !temp.IsNull()
	s.Temperature = c.float(temp, loc, 1)
	v, loc := at("top_p")
	s.topP = c.float(v, loc, 1)
	s.topK = num("top_k", 0)
	if v, loc := at("bad_words"); c.list(v, loc) {
		s.StopIDs = c.ids(at("stop_token_ids"))
	}
	s.IncludeStop = flag("include_stop_str_in_output", false)
	s.IgnoreEOS = flag("ignore_eos", false)
	s.MinTokens = int(num("min_tokens", 0))
	s.AllowedIDs = c.ids(at("allowed_token_ids"))
	s.PromptLogprobs = int(num("prompt_logprobs", Unset))
	into.TruncatePrompt = int(num("truncate_prompt_tokens", Unset))
	into.StreamInterval = int(num("stream_interval", 1))
	into.ReturnTokenIDs = flag("return_token_ids", false)
	into.ReturnTokensAsIDs = flag("return_tokens_as_token_ids", false)
	into.CacheSalt = root.Get("cache_salt").Str
	into.SessionID = str("session_id")
	into.RequestID = str("request_id")
	into.Priority = int(num("priority", 0))
	into.ReportFull = root.Get("vllm_xargs").Get("kv_cache_report_mode").Str == "full"
}

// stops reads one stop string or a list of them.
func (c *checker) stops(v *pyjson.Value, loc string) []string {
	switch v.Kind {
	case pyjson.Missing, pyjson.Null:
		return nil
	case pyjson.String:
		return []string{v.Str}
	case pyjson.List:
		out := make([]string, 0, v.Len())
		for i := range v.Len() {
			item := v.At(i)
			out = append(out, c.text(&item, loc+"."+strconv.Itoa(i)))
		}
		return out
	}
	c.text(v, loc)
	c.list(v, loc)
	return nil
}

// streamOptions reads stream_options; continuous_usage_stats does nothing without include_usage.
func (c *checker) streamOptions(v *pyjson.Value, into *Common) {
	into.IncludeUsage = c.boolean(v.Get("include_usage"), "body.stream_options.include_usage", false)
	into.ContinuousUsage = into.IncludeUsage &&
		c.boolean(v.Get("continuous_usage_stats"), "body.stream_options.continuous_usage_stats", false)
}

// before holds the rules that vLLM checks before types: they see the raw fields.
func before(root *pyjson.Value) *Error {
	stream := root.Get("stream")
	if o := root.Get("stream_options"); !o.IsNull() && stream.Kind == pyjson.Bool && !stream.Bool ||
		!o.IsNull() && stream.IsNull() {
		return badParam("stream_options", nil, "Stream options can only be defined when `stream=True`.")
	}
	if p := root.Get("prompt_logprobs"); !p.IsNull() && stream.Bool && (p.Int > 0 || p.Int == -1) {
		return badParam("prompt_logprobs", nil, "`prompt_logprobs` are not available when `stream=True`.")
	}
	if s := root.Get("cache_salt"); !s.IsNull() && (s.Kind != pyjson.String || s.Str == "") {
		return badParam("cache_salt", nil, "Parameter 'cache_salt' must be a non-empty string if provided.")
	}
	return nil
}

// Limits are the model's bounds.
type Limits struct {
	MaxModelLen int
	VocabSize   int
}

// Verify holds the rules of vLLM's SamplingParams, in its order. maxTokens is the value after it was cut to the
// context's rest.
func (s *Sampling) Verify(maxTokens int, l Limits) *Error {
	switch {
	case s.MaxTokens > l.MaxModelLen:
		return badParam("max_tokens", s.MaxTokens, "max_tokens=%d cannot be greater than max_model_len=%d. Please "+
			"request fewer output tokens.", s.MaxTokens, l.MaxModelLen)
	case s.N < 1:
		return Bad("n must be at least 1, got %d.", s.N)
	case s.N > maxSequences:
		return Bad("n must be at most %d, got %d. To increase this limit, set the VLLM_MAX_N_SEQUENCES environment "+
			"variable.", maxSequences, s.N)
	case math.IsNaN(s.Temperature) || math.IsInf(s.Temperature, 0):
		t := pyjson.FloatRepr(s.Temperature)
		return badParam("temperature", t, "temperature must be a finite number, got %s.", t)
	case s.Temperature < 0:
		t := pyjson.FloatRepr(s.Temperature)
		return badParam("temperature", t, "temperature must be non-negative, got %s.", t)
	case s.Temperature > 2:
		t := pyjson.FloatRepr(s.Temperature)
		return badParam("temperature", t, "temperature must be in [0, 2], got %s.", t)
	case s.topP <= 0 || s.topP > 1:
		p := pyjson.FloatRepr(s.topP)
		return badParam("top_p", p, "top_p must be in (0, 1], got %s.", p)
	case s.topK < -1:
		return Bad("top_k must be 0 (disable), or at least 1, got %d.", s.topK)
	case maxTokens < 1:
		return badParam("max_tokens", maxTokens, "max_tokens must be at least 1, got %d.", maxTokens)
	case s.MinTokens > maxTokens:
		return Bad("min_tokens must be less than or equal to max_tokens=%d, got %d.", maxTokens, s.MinTokens)
	case s.HasTemperature && s.Temperature == 0 && s.N > 1:
		return Bad("n must be 1 when using greedy sampling, got %d.", s.N)
	case s.Logprobs > maxLogprobs:
		return badParam("logprobs", s.Logprobs,
			"Requested sample logprobs of %d, which is greater than max allowed: %d", s.Logprobs, maxLogprobs)
	}
	for _, id := range s.biased {
		if id < 0 || id >= int64(l.VocabSize) {
			return badParam("logit_bias", "["+strconv.FormatInt(id, 10)+"]",
				"token_id(s) [%d] in logit_bias contain out-of-vocab token ids. Vocabulary size: %d", id, l.VocabSize)
		}
	}
	return nil
}

// OutputLimit is the number of tokens that may be generated behind a prompt; def applies where the client gave none.
// It may be below 1: Verify refuses that. allowZero is for completions with echo, where 0 generates one token.
func (s *Sampling) OutputLimit(prompt, def int, allowZero bool, l Limits) int {
	want := s.MaxTokens
	switch {
	case want == Unset:
		want = def
	case want == 0 && allowZero:
		want = 1
	}
	return min(want, l.MaxModelLen-prompt)
}
