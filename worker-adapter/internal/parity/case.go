package parity

import "strings"

// Names of features. Each is one row of a card's parity.
const (
	featureChat        = "chat"
	featureTurns       = "turns"
	featureParts       = "content_parts"
	featureScripts     = "scripts"
	featureTools       = "tools"
	featureToolHistory = "tool_history"
	featurePrefix      = "no_generation_prompt"
	featureCompletions = "completions"
)

// chatCase is a chat request that exercises one feature. The fields are JSON source.
type chatCase struct {
	feature  string
	messages string
	tools    string
	// noPrompt asks for no generation prompt.
	noPrompt bool
}

// weather is a tool definition.
const weather = `[{"type":"function","function":{"name":"get_weather","description":"Weather of a city.",` +
	`"parameters":{"type":"object","properties":{"city":{"type":"string","description":"Name"}},"required":["city"]}}}]`

// scripts is text, as JSON source, on which tokenizers and templates part.
const scripts = `naïve Ωμέγα 你好 नमस्ते 👩‍💻  \n\ttab \"quoted\" <b>&amp;</b>`

// chatCases are the requests, in the order in which they are sent. The first is long enough to fill blocks of 128
// tokens, so that sending it again is a cache hit.
func chatCases() []chatCase {
	long := strings.Repeat("The mesh keeps the same prefix on the same worker. ", 40)
	user := func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	return []chatCase{
		{feature: featureChat, messages: "[" + user(long) + "]"},
		{feature: featureTurns, messages: `[{"role":"system","content":"Be brief."},` + user("One?") +
			`,{"role":"assistant","content":"One."},` + user("Two?") + "]"},
		{feature: featureParts, messages: `[{"role":"user","content":[{"type":"text","text":"First."},` +
			`{"type":"text","text":"Second."}]}]`},
		{feature: featureScripts, messages: "[" + user(scripts) + "]"},
		{feature: featureTools, messages: "[" + user("Weather in Oslo?") + "]", tools: weather},
		{feature: featureToolHistory, messages: "[" + user("Weather in Oslo?") +
			`,{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",` +
			`"function":{"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"}}]},` +
			`{"role":"tool","tool_call_id":"call_1","content":"Rain, 7 °C"}]`, tools: weather},
		{feature: featurePrefix, messages: "[" + user("Go on.") + `,{"role":"assistant","content":"Then"}]`, noPrompt: true},
	}
}

// completionText is the prompt of the completions comparison: special tokens are the tokenizer's own here.
const completionText = "Once upon a time, 3 meshes met.\n\n\tThey said: \u201chello\u201d."
