package request

import "github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"

// ParseGenerate reads a body of POST /inference/v1/generate. Sampling options stand in sampling_params.
func ParseGenerate(doc *pyjson.Doc) (*Common, []uint32, *Error) {
	root := &doc.Root
	var c checker
	var common Common
	c.common(root.Get("sampling_params"), &common)
	logprobs := root.Get("sampling_params").Get("logprobs")
	common.Sampling.Logprobs = int(c.integer(logprobs, "body.sampling_params.logprobs", Unset))
	common.Model = c.text(root.Get("model"), "body.model")
	common.RequestID = c.text(root.Get("request_id"), "body.request_id")
	common.CacheSalt = c.text(root.Get("cache_salt"), "body.cache_salt")
	common.Priority = int(c.integer(root.Get("priority"), "body.priority", 0))
	common.Stream = c.boolean(root.Get("stream"), "body.stream", false)
	c.streamOptions(root.Get("stream_options"), &common)
	const loc = "body.token_ids"
	list := root.Get("token_ids")
	switch {
	case list.Kind == pyjson.Missing:
		c.missing(loc, root)
	case list.Kind == pyjson.List && list.Len() == 0:
		c.add(complaint{
			"too_short", loc, "List should have at least 1 item after validation, not 0", list.Describe(),
			"'field_type': 'List', 'min_length': 1, 'actual_length': 0",
		})
	}
	ids := c.ids(list, loc)
	if err := c.err(); err != nil {
		return nil, nil, err
	}
	return &common, ids, nil
}
