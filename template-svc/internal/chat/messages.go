package chat

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
	"github.com/kvmesh/kvmesh/template-svc/internal/media"
)

// normaliser turns a request's messages into what the template sees.
type normaliser struct {
	openai bool
	rules  Rules
	// places is nil when the model's architecture is not known to take media.
	places     *media.Model
	interleave bool
	// mark puts sentinels where the real run puts media.
	mark   bool
	counts map[string]int
	items  []item
}

// messages gives the conversation in vLLM's form. Member order is vLLM's, since templates print members with tojson.
func (n *normaliser) messages(list value.Value, quotesDeveloper bool) ([]value.Value, error) {
	if list.Kind() != value.KindList {
		return nil, refuse("messages", "must be a list")
	}
	cells := list.Cells()
	if len(cells) == 0 {
		return nil, refuse("messages", "must hold at least one message")
	}
	out := make([]value.Value, 0, len(cells))
	developers := false
	dicts := value.NewDicts(len(cells), usualMembers)
	for i, m := range cells {
		made, err := n.message(&dicts[i], m, quotesDeveloper)
		if err != nil {
			return nil, err
		}
		role, _ := value.Member(m, "role")
		developers = developers || role.AsStr() == "developer"
		out = append(out, made)
	}
	if developers && !quotesDeveloper {
		return mergeSystem(out), nil
	}
	return out, nil
}

// usualMembers is how many members most messages have: a role, a content, and calls or the call that is answered.
const usualMembers = 3

// message normalises one turn into d. Keys that vLLM does not know are dropped.
func (n *normaliser) message(d *value.Dict, m value.Value, quotesDeveloper bool) (value.Value, error) {
	roleValue, ok := value.Member(m, "role")
	if !ok || !roleValue.IsStr() {
		return value.None, refuse("messages", "every message needs a role")
	}
	role := roleValue.AsStr()
	if name, ok := value.Member(m, "name"); ok && role != "tool" && !name.IsStr() && !name.IsNone() {
		return value.None, refuse("messages", "name must be text")
	}
	content, err := n.content(m, role)
	if err != nil {
		return value.None, err
	}
	if role == "developer" && !quotesDeveloper {
		role, roleValue = "system", value.Str("system")
	}
	d.SetStr("role", roleValue)
	d.SetStr("content", content)
	if role == "assistant" {
		if err := n.assistant(d, m); err != nil {
			return value.None, err
		}
	}
	if id, ok := value.Member(m, "tool_call_id"); ok && role == "tool" {
		d.SetStr("tool_call_id", id)
	}
	if name, ok := value.Member(m, "name"); ok && name.IsStr() {
		d.SetStr("name", name)
	}
	if task, ok := present(m, "task"); ok {
		d.SetStr("task", task)
	}
	if role == "developer" {
		d.SetStr("tools", developerTools(m))
	}
	return value.OfDict(d), nil
}

// assistant adds calls and reasoning. vLLM writes the reasoning under its new and its old name.
func (n *normaliser) assistant(d *value.Dict, m value.Value) error {
	calls, ok := present(m, "tool_calls")
	if ok && calls.Kind() == value.KindDict && !calls.Truth() {
		ok = false // pydantic's iterables take an empty object for an empty list
	}
	if ok && calls.Kind() != value.KindList {
		return refuse("messages", "tool_calls must be a list")
	}
	if ok && len(calls.Cells()) > 0 {
		rebuilt, err := n.toolCalls(calls.Cells())
		if err != nil {
			return err
		}
		d.SetStr("tool_calls", rebuilt)
	}
	reasoning, ok := present(m, "reasoning")
	if !ok {
		reasoning, ok = present(m, "reasoning_content")
	}
	if ok {
		d.SetStr("reasoning", reasoning)
		d.SetStr("reasoning_content", reasoning)
	}
	return nil
}

// content gives a message's content in the template's format.
func (n *normaliser) content(m value.Value, role string) (value.Value, error) {
	c, there := value.Member(m, "content")
	if c.Kind() == value.KindDict && !c.Truth() && openAIType(m, role) {
		c = value.List(nil) // pydantic's iterables take an empty object for an empty list
	}
	switch {
	case !there, c.IsNone():
		if there && role != "assistant" && role != "function" {
			return value.None, refuse("messages", "content of role %s may be left out but not null", safeRole(role))
		}
		if n.openai && role != "tool" {
			return value.List(nil), nil
		}
		return value.Str(""), nil
	case c.IsStr():
		if role == "system" {
			rest := dropBillingLine(c.AsStr())
			if n.openai && rest == "" && c.AsStr() != "" {
				return value.List(nil), nil
			}
			c = value.Str(rest)
		}
		if n.openai && role != "tool" {
			return value.List([]value.Value{textPart(c)}), nil
		}
		return c, nil
	case c.Kind() == value.KindList:
		return n.parts(m, c.Cells(), role)
	}
	return value.None, refuse("messages", "content must be text or a list of parts")
}

// billingPrefix starts a line that Anthropic's clients put before a system text; vLLM drops it, since it changes with
// every request and would spoil the prefix.
const billingPrefix = "x-anthropic-billing-header"

// dropBillingLine removes such a line from the start of a system text.
func dropBillingLine(text string) string {
	if !strings.HasPrefix(text, billingPrefix) {
		return text
	}
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}

// safeRole names a role in an error without repeating a client's arbitrary text.
func safeRole(role string) string {
	switch role {
	case "system", "developer", "user", "assistant", "tool", "function":
		return role
	}
	return "(other)"
}

// formatName gives jinja's name of the format in use.
func (n *normaliser) formatName() string {
	if n.openai {
		return jinja.FormatOpenAI
	}
	return jinja.FormatString
}
