package casetest

import (
	"regexp"
	"strings"
)

// stream is an event stream as a client reads it.
type stream struct {
	events   []streamEvent
	comments int
}

type streamEvent struct{ name, data string }

var lineEnd = regexp.MustCompile(`\r\n|\r|\n`)

// parseSSE reads events by the rules; one that is not closed by an empty line is dropped.
func parseSSE(text string) stream {
	var out stream
	var data []string
	name := ""
	lines := lineEnd.Split(strings.TrimPrefix(text, "\ufeff"), -1)
	for _, line := range lines[:len(lines)-1] {
		switch {
		case line == "":
			if joined := strings.Join(data, "\n"); joined != "" {
				out.events = append(out.events, streamEvent{name, joined})
			}
			data, name = nil, ""
		case strings.HasPrefix(line, ":"):
			out.comments++
		default:
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "data":
				data = append(data, value)
			case "event":
				name = value
			}
		}
	}
	return out
}

// payloads is the data of all events before the first [DONE], and how many [DONE] there are and whether one is last.
func (s stream) payloads() (events []streamEvent, dones int, last bool) {
	for i, e := range s.events {
		if e.data != "[DONE]" {
			events = append(events, e)
			continue
		}
		dones++
		last = i == len(s.events)-1
	}
	return events, dones, last
}

func dataOf(events []streamEvent) []string {
	out := make([]string, 0, len(events))
	for _, e := range events {
		out = append(out, e.data)
	}
	return out
}
