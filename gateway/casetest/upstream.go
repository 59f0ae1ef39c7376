package casetest

import (
	"slices"
	"strconv"
	"time"
)

// answer is what a stream says when its chunks are put together, by choice.
type answer struct {
	content, reasoning, args, finish map[string]string
}

func join(trees []*node) answer {
	a := answer{map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}}
	for _, n := range trees {
		choices := n.get("choices")
		if choices == nil {
			continue
		}
		for _, c := range choices.items {
			i := textOf(c.get("index"))
			d := c.get("delta")
			if reason := c.get("finish_reason"); reason != nil && reason.kind == 's' {
				a.finish[i] = unquote(reason.text)
			}
			a.content[i] += textOf(c.get("text")) + textOf(d.get("content"))
			a.reasoning[i] += textOf(d.get("reasoning"))
			if calls := d.get("tool_calls"); calls != nil {
				for _, t := range calls.items {
					a.args[i+":"+textOf(t.get("index"))] += textOf(t.get("function").get("arguments"))
				}
			}
		}
	}
	return a
}

// textOf is a string's content or a number's source, empty for anything else.
func textOf(n *node) string {
	if n == nil || n.kind != 's' && n.kind != 'n' {
		return ""
	}
	return n.plain()
}

// upstream checks what the workers received.
func (r *runner) upstream(u *Upstream, calls []Received) {
	if u.Calls != nil && !u.Calls.Holds(len(calls)) {
		r.f.addf("%d calls to workers", len(calls))
	}
	used := map[string]bool{}
	for _, c := range calls {
		used[c.Worker] = true
		if u.OnlyWorkers != nil && !slices.Contains(u.OnlyWorkers, c.Worker) {
			r.f.addf("worker %s was used", c.Worker)
		}
		if u.Path != "" && c.Path != u.Path {
			r.f.addf("a worker got path %s", c.Path)
		}
		r.f.check("forwarded", c.Body, u.Body)
		r.f.text("forwarded", c.Body, u.Raw)
		r.f.headers("forwarded", c.Header, u.Headers)
		switch u.Fidelity {
		case "tokens":
			r.fidelity(u, c.Body)
		case "bytes": // the project's own
			if sent := string(r.c.Request.bodyBytes()); c.Body != sent {
				r.f.addf("the worker's body is not the client's: %s, sent %s", clip(strconv.Quote(c.Body)), clip(strconv.Quote(sent)))
			}
		}
	}
	if u.WorkersUsed != nil && !u.WorkersUsed.Holds(len(used)) {
		r.f.addf("%d workers used", len(used))
	}
	if n := r.fleet.Connections(); u.Connections != nil && !u.Connections.Holds(n) {
		r.f.addf("%d connections opened", n)
	}
	if u.Cancelled != nil && *u.Cancelled {
		r.cancelled(u, calls)
	}
}

// cancelled checks that every call that was open when the client left, or when the deadline passed, was closed in time.
func (r *runner) cancelled(u *Upstream, calls []Received) {
	var left time.Time
	for _, reply := range r.replies {
		if reply.Left.After(left) {
			left = reply.Left
		}
	}
	for i, c := range calls {
		switch {
		case c.Cancelled.IsZero() && !c.Done:
			r.f.addf("call %d was not cancelled", i)
		case u.CancelledWithinMS > 0 && !c.Cancelled.IsZero() &&
			c.Cancelled.Sub(left) > time.Duration(u.CancelledWithinMS)*time.Millisecond:
			r.f.timef("call %d was cancelled %v after the client left", i, c.Cancelled.Sub(left))
		}
	}
}

// fidelity compares the client's body with a worker's, token by token.
func (r *runner) fidelity(u *Upstream, got string) {
	sent, err := parseTree(string(r.c.Request.bodyBytes()))
	if err != nil {
		r.f.addf("the case's body is no JSON")
		return
	}
	have, err := parseTree(got)
	if err != nil {
		r.f.addf("the worker got no JSON: %s", clip(got))
		return
	}
	argumentsAsText(sent)
	may := u.MayAdd
	if may == nil {
		may = []string{"kv_transfer_params", "vllm_xargs"}
		if s := sent.get("stream"); s != nil && s.kind == 't' {
			may = append(may, "stream_options")
		}
	}
	kept := have.members[:0:0]
	for _, m := range have.members {
		if sent.get(m.key) != nil || !slices.Contains(may, m.key) {
			kept = append(kept, m)
		}
	}
	have.members = kept
	if !sent.same(have) {
		r.f.addf("the worker's body differs: %s, sent %s", clip(strconv.Quote(got)), clip(strconv.Quote(sent.text)))
	}
}
