//go:build realvllm

package realvllm

// surface is what is sent to a worker and to the mesh. own marks what the mesh
// answers in its own words: refusals, and the usage of a batch, which the worker gives for one of its prompts.
var surface = []struct {
	path, body string
	own        bool
}{
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":6,"temperature":0}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":6,"temperature":0,"n":2}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":1,"temperature":0,"stream":true}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":1,"temperature":0,"stream":true,` +
		`"stream_options":{"include_usage":true}}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":1,"temperature":0,"stream":true,` +
		`"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":3,"temperature":0,"logprobs":true,"top_logprobs":2}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":3,"temperature":0,` +
		`"tools":[{"type":"function","function":{"name":"f"}}]}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":3,"temperature":0,"return_token_ids":true,"prompt_logprobs":1}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":2,"temperature":0,"mine":{"a":[1,2.50,1e3]}}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"temperature":99}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":-1}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}],"max_tokens":99999}`, false},
	{"/v1/chat/completions", `{"model":"qwen","messages":[]}`, true},
	{"/v1/chat/completions", `{"model":"qwen","messages":"x"}`, true},
	{"/v1/chat/completions", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, true},
	{"/v1/chat/completions", `[]`, true},
	{"/v1/completions", `{"model":"qwen","prompt":"The river","max_tokens":6,"temperature":0}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":["The river","A lake","The sea"],"max_tokens":6,"temperature":0}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":[[1,2,3],[4,5,6]],"max_tokens":6,"temperature":0}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":[1,2,3],"max_tokens":6,"temperature":0}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":"The river","max_tokens":2,"temperature":0,"echo":true,"logprobs":1}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":"The river","max_tokens":1,"temperature":0,"stream":true}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":[151935,999999],"max_tokens":1}`, false},
	{"/v1/completions", `{"model":"qwen","prompt":[],"max_tokens":1}`, true},
	{"/v1/responses", `{"model":"qwen","input":"Hello","max_output_tokens":6,"temperature":0}`, false},
	{"/v1/responses", `{"model":"qwen","input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]}],"instructions":"Be brief","max_output_tokens":6,"temperature":0}`, false},
	{"/v1/responses", `{"model":"qwen","input":5}`, false},
	{"/v1/messages", `{"model":"qwen","max_tokens":6,"messages":[{"role":"user","content":"rivers"}],"temperature":0}`, false},
	{"/v1/messages", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}]}`, false},
	{"/v1/messages/count_tokens", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}]}`, false},
	{"/tokenize", `{"model":"qwen","prompt":"Hello world"}`, false},
	{"/tokenize", `{"model":"qwen","messages":[{"role":"user","content":"rivers"}]}`, false},
	{"/detokenize", `{"model":"qwen","tokens":[1,2,3]}`, false},
	{"/v1/chat/completions/batch", `{"model":"qwen","messages":[[{"role":"user","content":"a"}],[{"role":"user","content":"b"}]],"max_tokens":3,"temperature":0}`, true},
}
