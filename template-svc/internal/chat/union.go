package chat

import "github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"

// vLLM's request model takes each message for one of two types: OpenAI's of its role, whose lists are looked at late
// and strictly, or vLLM's own for any role, whose lists are looked at once and take bare strings and the parts of
// /v1/responses too. Of those that fit, pydantic's union takes the one that knows more of the message's members, and
// OpenAI's where they are equal. These functions say which it is, as far as a prompt shows it.

// openAIType reports whether OpenAI has a type for the role that may hold a list, and the message fits it.
func openAIType(m value.Value, role string) bool {
	switch role {
	case "system", "developer", "user":
		return true
	case "assistant":
		calls, there := value.Member(m, "tool_calls")
		return !there || !calls.IsNone()
	case "tool":
		id, _ := value.Member(m, "tool_call_id")
		return id.IsStr()
	}
	return false
}

// ownType reports whether a message whose content adds nothing to the count is taken for vLLM's own type.
func ownType(m value.Value, role string) bool {
	if !openAIType(m, role) {
		return true
	}
	lead := 0 // of vLLM's type, in members known
	for _, e := range m.AsDict().Entries() {
		switch key := e.Key.AsStr(); key {
		case "reasoning", "task", "tool_call_id":
			if !e.Val.IsNone() && !e.Val.IsStr() {
				return false
			}
			if key != "tool_call_id" || role != "tool" {
				lead++
			}
		case "reasoning_content":
			if _, both := value.Member(m, "reasoning"); !both && e.Val.IsStr() {
				lead++ // it is renamed before
			}
		case "tools":
			if !e.Val.IsNone() && !functionTools(e.Val) {
				return false
			}
			lead++
		case "tool_calls":
			if role != "assistant" || e.Val.Truth() { // the members of calls count too
				lead++
			}
		case "name":
			if role == "tool" {
				lead++
			}
		case "audio", "function_call", "refusal":
			if role == "assistant" {
				lead--
			}
		}
	}
	return lead > 0
}

// functionTools reports whether a value is a list of tools of type function.
func functionTools(list value.Value) bool {
	if list.Kind() != value.KindList {
		return false
	}
	for _, tool := range list.Cells() {
		kind, _ := value.Member(tool, "type")
		function, _ := value.Member(tool, "function")
		name, _ := value.Member(function, "name")
		if !name.IsStr() || !kind.IsStr() || kind.AsStr() != "function" {
			return false
		}
	}
	return true
}
