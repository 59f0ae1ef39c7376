package casetest

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// judge compares what was seen with what was expected.
func (r *runner) judge() {
	calls := r.fleet.Calls()
	e := &r.c.Expect
	counts := map[string]int{}
	for i := range r.replies {
		reply := &r.replies[i]
		counts[strconv.Itoa(reply.Status)]++
		if reply.Abandoned && reply.NoAnswer {
			continue
		}
		r.reply(reply, calls)
	}
	for status, want := range e.StatusCounts {
		if !want.Holds(counts[status]) {
			r.f.addf("status %s came %d times", status, counts[status])
		}
	}
	if e.Upstream != nil {
		r.upstream(e.Upstream, calls)
	}
}

// reply checks one reply.
func (r *runner) reply(reply *Reply, calls []Received) {
	e := &r.c.Expect
	if reply.Aborted && !reply.Abandoned {
		if !e.OrAborted {
			r.f.addf("the connection broke off after status %d: %s", reply.Status, clip(reply.Body))
		}
		return
	}
	if e.Status != nil && !statusFits(e.Status, reply.Status) {
		r.f.addf("status is %d, not %s: %s", reply.Status, e.Status, clip(reply.Body))
	}
	r.f.headers("reply", reply.Header, e.Headers)
	r.f.check("reply", reply.Body, e.Body)
	r.f.text("reply", reply.Body, e.Raw)
	if e.Relayed == "bytes" && (len(calls) == 0 || reply.Body != lastSent(calls)) {
		r.f.addf("the reply is not the worker's: %s", clip(reply.Body))
	}
	if e.OwnError {
		r.f.ownError(first(reply.Header["content-type"]), reply.Body)
	}
	if e.MaxMS > 0 && reply.Elapsed > time.Duration(e.MaxMS)*time.Millisecond {
		r.f.timef("took %v, at most %d ms", reply.Elapsed, e.MaxMS)
	}
	if e.MinMS > 0 && reply.Elapsed < time.Duration(e.MinMS)*time.Millisecond {
		r.f.addf("took %v, at least %d ms", reply.Elapsed, e.MinMS)
	}
	if e.SSE != nil {
		r.sse(e.SSE, reply, calls)
	}
}

func first(v []string) string {
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// lastSent is the body of the last answer that was used.
func lastSent(calls []Received) string { return calls[len(calls)-1].Sent }

func statusFits(raw json.RawMessage, status int) bool {
	var one int
	if json.Unmarshal(raw, &one) == nil {
		return one == status
	}
	var many []int
	_ = json.Unmarshal(raw, &many)
	return slices.Contains(many, status)
}

// sse checks an event stream.
func (r *runner) sse(want *SSE, reply *Reply, calls []Received) {
	s := parseSSE(reply.Body)
	events, dones, last := s.payloads()
	if want.DataEqualsWorker && len(calls) > 0 {
		sent, _, _ := parseSSE(lastSent(calls)).payloads()
		if !slices.Equal(dataOf(events), dataOf(sent)) {
			r.f.addf("%d events differ from the worker's %d: %s", len(events), len(sent), clip(reply.Body))
		}
	}
	switch string(want.Done) {
	case "true":
		if dones != 1 || !last {
			r.f.addf("%d [DONE] events, the last event is one: %v", dones, last)
		}
	case "false":
		if dones != 0 {
			r.f.addf("there is a [DONE]")
		}
	}
	if want.Events != nil && !want.Events.Holds(len(events)) {
		r.f.addf("%d events", len(events))
	}
	if want.Comments != nil && !want.Comments.Holds(s.comments) {
		r.f.timef("%d comments", s.comments) // they come by the clock
	}
	if want.Names != nil {
		names := make([]string, 0, len(events))
		for _, e := range events {
			names = append(names, e.name)
		}
		if !slices.Equal(names, want.Names) {
			r.f.addf("event names are %q", names)
		}
	}
	r.pace(want, reply)
	r.payloads(want, events)
}

// pace checks when events came.
func (r *runner) pace(want *SSE, reply *Reply) {
	if ms := want.FirstEventWithinMS; ms > 0 && (len(reply.Arrivals) == 0 || reply.Arrivals[0] > time.Duration(ms)*time.Millisecond) {
		r.f.timef("the first event is late")
	}
	if ms := want.GapWithinMS; ms > 0 {
		for i := 1; i < len(reply.Arrivals); i++ {
			if gap := reply.Arrivals[i] - reply.Arrivals[i-1]; gap > time.Duration(ms)*time.Millisecond {
				r.f.timef("a gap of %v before event %d", gap, i)
			}
		}
	}
}

// payloads checks what the events say.
func (r *runner) payloads(want *SSE, events []streamEvent) {
	trees := make([]*node, 0, len(events))
	errors, ids := 0, map[string]bool{}
	for _, e := range events {
		n, err := parseTree(e.data)
		if err != nil {
			r.f.addf("an event is no JSON: %s", clip(e.data))
			return
		}
		trees = append(trees, n)
		if n.get("error") != nil {
			errors++
		} else if id := n.get("id"); id != nil {
			ids[id.text] = true
		}
	}
	if want.ErrorEvent != nil && *want.ErrorEvent != (errors > 0) {
		r.f.addf("%d error events", errors)
	}
	if want.SameID && len(ids) != 1 {
		r.f.addf("%d ids in one stream", len(ids))
	}
	j := join(trees)
	r.joined("content", want.Content, j.content)
	r.joined("reasoning", want.Reasoning, j.reasoning)
	r.joined("tool_args", want.ToolArgs, j.args)
	for k, reason := range want.Finish {
		have := j.finish[k]
		if reason == nil && have != "" || reason != nil && have != *reason {
			r.f.addf("finish of %s is %q", k, have)
		}
	}
	for _, c := range want.Chunks {
		r.chunks(string(c.Pick), c.Check, trees)
	}
}

func (r *runner) joined(what string, want, have map[string]string) {
	for k, w := range want {
		if have[k] != w {
			r.f.addf("%s of %s is %q, not %q", what, k, clip(have[k]), clip(w))
		}
	}
}

// chunks checks picked events.
func (r *runner) chunks(pick string, checks []Check, trees []*node) {
	fits := func(n *node) bool {
		return !slices.ContainsFunc(checks, func(c Check) bool { return c.fault(n.at(c.At)) != "" })
	}
	var picked []*node
	switch pick {
	case `"all"`:
		if i := slices.IndexFunc(trees, func(n *node) bool { return !fits(n) }); i >= 0 {
			r.f.addf("event %d does not fit: %s", i, clip(trees[i].text))
		}
		return
	case `"any"`, `"none"`:
		if slices.ContainsFunc(trees, fits) != (pick == `"any"`) {
			r.f.addf("chunks %s: no", pick)
		}
		return
	case `"first"`:
		picked = trees[:min(1, len(trees))]
	case `"last"`:
		picked = trees[max(0, len(trees)-1):]
	case `"usage"`, `"error"`:
		for _, n := range trees {
			usage := n.get("choices") != nil && n.get("choices").length() == 0 && n.get("usage") != nil
			if pick == `"error"` && n.get("error") != nil || pick == `"usage"` && usage {
				picked = append(picked, n)
			}
		}
	default:
		if i, err := strconv.Atoi(pick); err == nil && i < len(trees) {
			picked = trees[i : i+1]
		}
	}
	if len(picked) == 0 {
		r.f.addf("there is no %s chunk", strings.Trim(pick, `"`))
	}
	for _, n := range picked {
		r.f.check("chunk "+pick, n.text, checks)
	}
}
