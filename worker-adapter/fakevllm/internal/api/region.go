package api

import (
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// regionKind is what a part of the model's text becomes in a chat answer.
type regionKind uint8

const (
	content regionKind = iota
	reasoning
	arguments // of a tool call
	markup    // shown to nobody
)

// region is a part [from, to) of the text. A call's markup region names it: the call exists once the text reaches to.
type region struct {
	from, to int
	kind     regionKind
	call     int    // number of the tool call, for arguments and for the markup that names it
	name     string // of the called function, in the markup region behind which its arguments begin
}

const (
	toolOpen   = "<tool_call>\n"
	toolClose  = "\n</tool_call>"
	thoughtEnd = "</think>"
)

// split parses a finished text as vLLM's qwen3 reasoning parser and hermes tool parser would.
func split(text string, thinking, tools bool) []region {
	var out []region
	pos := 0
	if thinking {
		end := strings.Index(text, thoughtEnd)
		if end < 0 {
			return []region{{0, len(text), reasoning, 0, ""}}
		}
		out = append(out, region{from: 0, to: end, kind: reasoning})
		pos = end + len(thoughtEnd)
		pos += len(text[pos:]) - len(strings.TrimLeft(text[pos:], "\n"))
		out = append(out, region{from: end, to: pos, kind: markup})
	}
	for call := 0; tools; call++ {
		at := strings.Index(text[pos:], toolOpen)
		if at < 0 {
			break
		}
		rs, next := splitCall(text, pos+at, call)
		if rs == nil {
			break
		}
		if at > 0 && (call == 0 || strings.TrimSpace(text[pos:pos+at]) != "") {
			out = append(out, region{from: pos, to: pos + at, kind: content})
		} else if at > 0 {
			out = append(out, region{from: pos, to: pos + at, kind: markup})
		}
		out = append(out, rs...)
		pos = next
	}
	if pos < len(text) || len(out) == 0 {
		out = append(out, region{from: pos, to: len(text), kind: content})
	}
	return out
}

// splitCall parses one <tool_call> whose object has the keys name and arguments in that order; nil if it is another.
func splitCall(text string, at, call int) (regions []region, next int) {
	body := at + len(toolOpen)
	length := strings.Index(text[body:], toolClose)
	if length < 0 {
		return nil, 0
	}
	end := body + length
	doc, err := pyjson.Parse([]byte(text[body:end]))
	if err != nil || doc.Root.Get("name").Str == "" || doc.Root.Get("arguments").Kind == pyjson.Missing {
		return nil, 0
	}
	args := string(doc.Root.Get("arguments").Raw)
	from := body + strings.LastIndex(text[body:end], args)
	named := body + strings.Index(text[body:end], `",`) + 1
	next = end + len(toolClose)
	return []region{
		{from: at, to: named, kind: markup, call: call, name: doc.Root.Get("name").Str},
		{from: named, to: from, kind: markup},
		{from: from, to: from + len(args), kind: arguments, call: call},
		{from: from + len(args), to: next, kind: markup},
	}, next
}
