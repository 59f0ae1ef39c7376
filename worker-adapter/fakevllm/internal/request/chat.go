package request

import (
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// Chat is a body of POST /v1/chat/completions.
type Chat struct {
	Common
	Messages         *pyjson.Value
	Tools            []Tool
	Choice           Choice
	ReturnPromptText bool
	// Thinking is what the template is asked for; it is true unless the client turns it off.
	Thinking bool
	// PromptIDs replace rendering and tokenising (kv_transfer_params.prompt_token_ids, vLLM 0.27 and later). Echo turns
	// them off.
	PromptIDs []uint32
	Body      []byte
}

// ParseChat reads and checks a body; raw is kept for the renderer.
func ParseChat(doc *pyjson.Doc, raw []byte) (*Chat, *Error) {
	root := &doc.Root
	if err := before(root); err != nil {
		return nil, err
	}
	if err := chatRules(root); err != nil {
		return nil, err
	}
	r := &Chat{Body: raw, Messages: root.Get("messages"), Thinking: true}
	r.HasPromptSurrogates = doc.LoneSurrogate
	var c checker
	c.messages(root, r.Messages)
	c.common(root, &r.Common)
	r.Sampling.Logprobs = Unset
	if c.boolean(root.Get("logprobs"), "body.logprobs", false) {
		r.Sampling.Logprobs = int(c.integer(root.Get("top_logprobs"), "body.top_logprobs", 0))
	}
	c.responseFormat(root.Get("response_format"))
	r.Tools = c.tools(root.Get("tools"))
	r.AddSpecial = c.boolean(root.Get("add_special_tokens"), "body.add_special_tokens", false)
	r.ReturnPromptText = c.boolean(root.Get("return_prompt_text"), "body.return_prompt_text", false)
	if err := c.err(); err != nil {
		return nil, err
	}
	if on := root.Get("chat_template_kwargs").Get("enable_thinking"); on.Kind == pyjson.Bool {
		r.Thinking = on.Bool
	}
	if root.Get("reasoning_effort").Str == "none" {
		r.Thinking = false
	}
	if r.Echo { // echoing a chat prompt computes its logprobs, as a real server does
		r.Sampling.PromptLogprobs = max(r.Sampling.PromptLogprobs, 0)
	}
	return r, r.finish(root)
}

// finish reads what depends on other fields: the tool choice, the constraint, ids that replace the prompt.
func (r *Chat) finish(root *pyjson.Value) *Error {
	var err *Error
	if r.Choice, err = toolChoice(root, r.Tools); err != nil {
		return err
	}
	if r.Limit, err = constraint(root); err != nil {
		return err
	}
	ids := root.Get("kv_transfer_params").Get("prompt_token_ids")
	if r.Echo || ids.IsNull() {
		return nil
	}
	const param = "kv_transfer_params.prompt_token_ids"
	list, ok := tokenIDs(ids)
	if !ok || len(list) == 0 {
		return badParam(param, nil,
			"`kv_transfer_params['prompt_token_ids']` must be a non-empty list of non-negative integers.")
	}
	r.PromptIDs = list
	return nil
}

// CheckVocab refuses ids that the model does not know; param "" is for prompts of completions.
func CheckVocab(ids []uint32, param string, l Limits) *Error {
	for _, id := range ids {
		if int(id) < l.VocabSize {
			continue
		}
		if param == "" {
			return Bad("Token id %d is out of vocabulary", id)
		}
		return badParam(param, nil, "Token id %d is out of vocabulary", id)
	}
	return nil
}

// chatRules are the checks that come before types.
func chatRules(root *pyjson.Value) *Error {
	logprobs, top := root.Get("logprobs"), root.Get("top_logprobs")
	switch {
	case top.Int > 0 && !logprobs.Bool:
		return badParam("top_logprobs", nil, "when using `top_logprobs`, `logprobs` must be set to true.")
	case root.Get("tools").Kind == pyjson.List && root.Get("tools").Len() == 0:
		return badParam("tools", nil, "`tools` must not be an empty array. Either provide at least one tool or omit "+
			"the field entirely.")
	case root.Get("continue_final_message").Bool && root.Get("add_generation_prompt").Bool:
		return Bad("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
	}
	if f := root.Get("response_format"); f.Get("type").Str == "json_schema" && f.Get("json_schema").IsNull() {
		return badParam("response_format", nil,
			"When response_format type is 'json_schema', the 'json_schema' field must be provided.")
	}
	return nil
}

// CheckRender holds what vLLM refuses while it renders.
func (r *Chat) CheckRender(root *pyjson.Value) *Error {
	if !root.Get("chat_template").IsNull() {
		return Bad("Chat template is passed with request, but --trust-request-chat-template is not set. Refused " +
			"request with untrusted chat template.")
	}
	if root.Get("continue_final_message").Bool && root.Get("add_generation_prompt").IsNull() {
		return Bad("continue_final_message and add_generation_prompt are not compatible. Use " +
			"continue_final_message when you want the model to continue the final message, and " +
			"add_generation_prompt when you want to add a header that will prompt it to start a new assistant " +
			"message instead.")
	}
	for i := range r.Messages.Len() {
		m := r.Messages.At(i)
		parts := m.Get("content")
		for j := range parts.Len() {
			p := parts.At(j)
			if t := p.Get("type").Str; t != "text" && t != "" && parts.Kind == pyjson.List {
				return Bad("%s is not a multimodal model", r.Model)
			}
		}
	}
	return nil
}

// responseFormat refuses unknown kinds with the complaints of all members of vLLM's union.
func (c *checker) responseFormat(v *pyjson.Value) {
	if v.IsNull() {
		return
	}
	switch t := v.Get("type"); t.Str {
	case "text", "json_object", "json_schema", "structural_tag":
	default:
		const loc = "body.response_format."
		literal := func(want string) {
			c.add(complaint{
				"literal_error", loc + "type", "Input should be " + want, t.Describe(),
				"'expected': " + pyjson.Repr(want),
			})
		}
		literal("'text', 'json_object' or 'json_schema'")
		literal("'structural_tag'")
		c.missing(loc+"format", v)
		literal("'structural_tag'")
		c.missing(loc+"structures", v)
		c.missing(loc+"triggers", v)
	}
}

// messages checks the shape of the conversation. vLLM's complaints run through all nine members of a union of message
// types; the ones here name the message and the field, which is what a reader of them looks for.
func (c *checker) messages(root, v *pyjson.Value) {
	const loc = "body.messages"
	if v.Kind == pyjson.Missing {
		c.missing(loc, root)
		return
	}
	if !c.list(v, loc) {
		return
	}
	for i := range v.Len() {
		m := v.At(i)
		at := loc + "." + strconv.Itoa(i)
		role := m.Get("role")
		if role.Kind != pyjson.String {
			c.missing(at+".ChatCompletionDeveloperMessageParam.role", &m)
			continue
		}
		body := m.Get("content")
		if ok := body.Kind == pyjson.String || body.Kind == pyjson.List; !ok && !(role.Str == "assistant" && body.IsNull()) {
			member := at + ".ChatCompletionDeveloperMessageParam.content"
			c.add(complaint{"string_type", member, "Input should be a valid string", body.Describe(), ""})
			c.add(complaint{"iterable_type", member, "Input should be iterable", body.Describe(), ""})
		}
		c.toolCalls(m.Get("tool_calls"))
	}
}

// toolCalls refuses arguments that are an object: vLLM 0.32 takes them as a JSON string only.
func (c *checker) toolCalls(calls *pyjson.Value) {
	for k := range calls.Len() {
		call := calls.At(k)
		if args := call.Get("function").Get("arguments"); args.Kind == pyjson.Dict {
			base := "body." + strconv.Itoa(k)
			const want = "'custom'"
			c.add(complaint{
				"string_type", base + ".ChatCompletionMessageFunctionToolCallParam.function",
				"Input should be a valid string", args.Describe(), "",
			})
			c.missing(base+".ChatCompletionMessageCustomToolCallParam.custom", &call)
			c.add(complaint{
				"literal_error", base + ".ChatCompletionMessageCustomToolCallParam.type", "Input should be " + want,
				call.Get("type").Describe(), "'expected': " + pyjson.Repr(want),
			})
		}
	}
}
