package harmony

import (
	"fmt"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Channels of assistant messages.
const (
	channelAnalysis   = "analysis"
	channelCommentary = "commentary"
	channelFinal      = "final"
)

// functions is the namespace of a request's tools.
const functions = "functions."

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRequest, fmt.Sprintf(format, args...))
}

// converse makes the system and developer messages and those of the conversation. A leading system or developer
// message gives the developer message its instructions.
func converse(req Request) ([]message, error) {
	if req.Messages.Kind() != value.KindList {
		return nil, refuse("messages must be a list")
	}
	rest := req.Messages.Cells()
	instructions, instructed := "", false
	if len(rest) > 0 && isSystem(roleOf(rest[0])) {
		instructions, instructed = flatten(rest[0])
		rest = rest[1:]
	}
	tools, err := toolSection(req.Tools)
	if err != nil {
		return nil, err
	}
	system, err := systemMessage(req, tools != "")
	if err != nil {
		return nil, err
	}
	out := []message{system}
	if instructions != "" || tools != "" {
		out = append(out, developerMessage(instructions, instructed, tools))
	}
	names, err := callNames(rest)
	if err != nil {
		return nil, err
	}
	for _, m := range rest {
		made, err := turn(m, names)
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	return out, nil
}

// systemMessage is the fixed text with effort and date.
func systemMessage(req Request, tools bool) (message, error) {
	effort := "medium"
	switch req.Effort {
	case "":
	case "low", "medium", "high":
		effort = req.Effort
	default:
		return message{}, refuse("reasoning_effort is none of low, medium and high")
	}
	text := "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: " +
		req.Date.Format("2006-01-02") + "\n\nReasoning: " + effort +
		"\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."
	if tools {
		text += "\nCalls to these tools must go to the commentary channel: 'functions'."
	}
	return message{author: "system", contents: []string{text}}, nil
}

// developerMessage holds instructions and tools. Instructions may be empty and there all the same.
func developerMessage(instructions string, there bool, tools string) message {
	var parts []string
	if there {
		parts = append(parts, "# Instructions\n\n"+instructions)
	}
	if tools != "" {
		parts = append(parts, tools)
	}
	return message{author: "developer", contents: []string{strings.Join(parts, "\n\n")}}
}

// callNames maps the ids of tool calls to their functions.
func callNames(messages []value.Value) (map[string]string, error) {
	names := map[string]string{}
	for _, m := range messages {
		calls, ok := value.Member(m, "tool_calls")
		if ok && calls.Kind() != value.KindList {
			return nil, refuse("tool_calls must be a list")
		}
		if !ok {
			continue
		}
		for _, call := range calls.Cells() {
			id, _ := value.Member(call, "id")
			function, _ := value.Member(call, "function")
			name, _ := value.Member(function, "name")
			if !id.IsStr() || !name.IsStr() {
				return nil, refuse("a tool call needs an id and a function's name")
			}
			names[id.AsStr()] = name.AsStr()
		}
	}
	return names, nil
}

// turn gives the Harmony messages of one chat message; some vanish.
func turn(m value.Value, names map[string]string) ([]message, error) {
	switch role := roleOf(m); role {
	case "assistant":
		return assistant(m)
	case "tool":
		id, _ := value.Member(m, "tool_call_id")
		text, _ := flatten(m)
		return []message{{
			author: functions + names[id.AsStr()], channel: channelCommentary, recipient: "assistant", contents: []string{text},
		}}, nil
	case "system", "developer":
		text, ok := flatten(m)
		if !ok {
			return nil, nil
		}
		return []message{developerMessage(text, true, "")}, nil
	case "user":
		contents, err := contentsOf(m)
		return []message{{author: role, contents: contents}}, err
	default:
		return nil, refuse("Harmony has no such role")
	}
}

// assistant gives reasoning, text and calls their channels. With calls, text is commentary and comes first.
func assistant(m value.Value) ([]message, error) {
	var out []message
	say := func(channel, text string) {
		out = append(out, message{author: "assistant", channel: channel, contents: []string{text}, assistant: true})
	}
	reasoning := reasoningOf(m)
	calls, _ := value.Member(m, "tool_calls")
	if calls.Kind() == value.KindList && len(calls.Cells()) > 0 {
		if text, _ := flatten(m); text != "" {
			say(channelCommentary, text)
		}
		if reasoning != "" {
			say(channelAnalysis, reasoning)
		}
		for _, call := range calls.Cells() {
			made, err := toolCall(call)
			if err != nil {
				return nil, err
			}
			out = append(out, made)
		}
		return out, nil
	}
	if reasoning != "" {
		say(channelAnalysis, reasoning)
	}
	contents, err := contentsOf(m)
	if err != nil {
		return nil, err
	}
	if len(contents) > 0 && contents[0] != "" {
		out = append(out, message{author: "assistant", channel: channelFinal, contents: contents, assistant: true})
	}
	return out, nil
}

// toolCall is a call as the model would have written it; arguments stay the client's text.
func toolCall(call value.Value) (message, error) {
	function, _ := value.Member(call, "function")
	name, _ := value.Member(function, "name")
	args, _ := value.Member(function, "arguments")
	if !args.IsNone() && !args.IsStr() {
		// The gateway turns objects into their text for the worker; here that text is gone.
		return message{}, fmt.Errorf("%w: a tool call's arguments are an object", ErrCannot)
	}
	text := ""
	if args.IsStr() {
		text = args.AsStr()
	}
	return message{
		author: "assistant", channel: channelCommentary, recipient: functions + name.AsStr(), kind: "json",
		contents: []string{text}, assistant: true,
	}, nil
}

// reasoningOf reads both names of it.
func reasoningOf(m value.Value) string {
	for _, name := range []string{"reasoning", "reasoning_content"} {
		if v, ok := value.Member(m, name); ok && v.IsStr() {
			return v.AsStr()
		}
	}
	return ""
}

// flatten joins all texts of a message's content; ok is false when there is none.
func flatten(m value.Value) (text string, ok bool) {
	content, _ := value.Member(m, "content")
	if content.IsStr() {
		return content.AsStr(), true
	}
	if content.Kind() != value.KindList {
		return "", false
	}
	var out strings.Builder
	for _, part := range content.Cells() {
		if !part.IsStr() {
			if part, _ = value.Member(part, "text"); !part.IsStr() {
				continue
			}
		}
		out.WriteString(part.AsStr())
		ok = true
	}
	return out.String(), ok
}

// contentsOf gives the texts of a message one by one; a part without text counts as an empty one.
func contentsOf(m value.Value) ([]string, error) {
	content, _ := value.Member(m, "content")
	switch {
	case content.IsStr():
		return []string{content.AsStr()}, nil
	case content.IsNone():
		return []string{""}, nil
	case content.Kind() != value.KindList:
		return nil, refuse("content must be text or a list of parts")
	}
	parts := content.Cells()
	if len(parts) == 0 {
		return []string{""}, nil
	}
	out := make([]string, 0, len(parts))
	for _, part := range parts {
		if part.Kind() != value.KindDict {
			return nil, refuse("content parts must be objects")
		}
		text, there := part.AsDict().GetStr("text")
		if there && !text.IsStr() {
			return nil, refuse("the text of a content part must be text")
		}
		if !there {
			text = value.Str("")
		}
		out = append(out, text.AsStr())
	}
	return out, nil
}

func isSystem(role string) bool { return role == "system" || role == "developer" }

func roleOf(m value.Value) string {
	role, _ := value.Member(m, "role")
	if !role.IsStr() {
		return ""
	}
	return role.AsStr()
}
