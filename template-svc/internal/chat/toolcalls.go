package chat

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// toolCalls rebuilds the calls of an assistant message in the member order of vLLM's request model: id, function
// (arguments before name), type, then what the client sent besides.
func (n *normaliser) toolCalls(calls []value.Value) (value.Value, error) {
	out := make([]value.Value, 0, len(calls))
	for _, call := range calls {
		made, err := n.toolCall(call)
		if err != nil {
			return value.None, err
		}
		out = append(out, made)
	}
	return value.List(out), nil
}

// toolCall rebuilds one call.
func (n *normaliser) toolCall(call value.Value) (value.Value, error) {
	id, hasID := value.Member(call, "id")
	kind, hasType := value.Member(call, "type")
	function, hasFunction := value.Member(call, "function")
	switch {
	case hasType && kind.IsStr() && kind.AsStr() != "function":
		return value.None, refuse("messages", "tool calls other than of type function are not supported")
	case !hasID || !id.IsStr():
		return value.None, refuse("messages", "a tool call needs an id")
	case !hasType || !kind.IsStr():
		return value.None, refuse("messages", "a tool call needs a type")
	case !hasFunction || function.Kind() != value.KindDict:
		return value.None, refuse("messages", "a tool call needs a function")
	}
	args, err := n.arguments(function)
	if err != nil {
		return value.None, err
	}
	name, ok := value.Member(function, "name")
	if !ok || !name.IsStr() {
		return value.None, refuse("messages", "a tool call's function needs a name")
	}
	f := value.NewDict(function.AsDict().Len())
	f.SetStr("arguments", args)
	f.SetStr("name", name)
	copyOthers(f, function, "arguments", "name", "")
	d := value.NewDict(call.AsDict().Len())
	d.SetStr("id", id)
	d.SetStr("function", value.OfDict(f))
	d.SetStr("type", kind)
	copyOthers(d, call, "id", "function", "type")
	return value.OfDict(d), nil
}

// copyOthers copies all members but three, in order.
func copyOthers(d *value.Dict, from value.Value, a, b, c string) {
	for _, e := range from.AsDict().Entries() {
		if key := e.Key.AsStr(); key != a && key != b && key != c {
			d.SetStr(key, e.Val)
		}
	}
}

// arguments parses the text of a call's arguments. vLLM 0.32 gives templates an object in every case: what is empty,
// broken or no object becomes {}. Arguments sent as an object are refused by that version and rendered alike here.
func (n *normaliser) arguments(function value.Value) (value.Value, error) {
	raw, ok := value.Member(function, "arguments")
	switch {
	case ok && raw.Kind() == value.KindDict:
		return raw, nil
	case !ok || !raw.IsStr():
		return value.None, refuse("messages", "a tool call's arguments must be text")
	}
	if raw.AsStr() == "" {
		return emptyObject(), nil
	}
	args, err := jinja.FromJSON([]byte(raw.AsStr()))
	switch {
	case err != nil && n.rules.Old:
		return value.None, refuse("messages", "a tool call's arguments are not valid JSON")
	case err != nil:
		return emptyObject(), nil
	case args.Kind() != value.KindDict && (!n.rules.Old || args.IsNone()):
		return emptyObject(), nil
	}
	return args, nil
}

// emptyObject is {}.
func emptyObject() value.Value { return value.OfDict(value.NewDict(0)) }
