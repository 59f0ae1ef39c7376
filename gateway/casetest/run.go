package casetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Result is how a case ended.
type Result struct {
	Case   *Case
	Faults []string
	Took   time.Duration
}

// OnlyLate tells whether nothing but time limits failed.
func (r Result) OnlyLate() bool {
	return len(r.Faults) > 0 && !slices.ContainsFunc(r.Faults, func(f string) bool { return !strings.HasPrefix(f, late) })
}

// afterWait is how long the state after a case may take to settle.
const afterWait = 2 * time.Second

// Run plays one case at a door.
func Run(ctx context.Context, door Door, c *Case) Result {
	start := time.Now()
	r := &runner{c: c}
	if err := r.run(ctx, door); err != nil {
		r.f.addf("%v", err)
	}
	return Result{Case: c, Faults: r.f, Took: time.Since(start)}
}

// runner is one case in play.
type runner struct {
	c       *Case
	f       faults
	fleet   *Fleet
	target  *Target
	replies []Reply
}

func (r *runner) run(ctx context.Context, door Door) error {
	before := runtime.NumGoroutine()
	var err error
	if r.fleet, err = startFleet(r.c.Worker); err != nil {
		return err
	}
	defer r.fleet.stop()
	if r.target, err = door.Open(ctx, r.c.Setup, r.fleet); err != nil {
		return fmt.Errorf("open mesh: %w", err)
	}
	r.fleet.refuse()
	release, err := r.occupy()
	if err != nil {
		r.target.Stop()
		return err
	}
	r.send()
	release()
	r.waitCancelled()
	r.judge()
	r.after()
	r.target.Stop()
	r.fleet.stop()
	if slices.Contains(r.c.Expect.After, "no_leak") && !eventually(func() bool { return runtime.NumGoroutine() <= before+3 }) {
		r.f.addf("goroutines leak: %d before, %d after", before, runtime.NumGoroutine())
	}
	return nil
}

// occupy takes places with endless requests; the returned function lets them go.
func (r *runner) occupy() (release func(), err error) {
	n := r.c.Setup.Occupy
	var held []*client
	for range n {
		c := &client{base: r.target.BaseURL, plan: &ClientPlan{}}
		if err := c.dial(); err != nil {
			return nil, err
		}
		body := `{"model":"acme/tiny-chat","messages":[{"role":"user","content":"` + occupyMark + `"}]}`
		q := Request{Method: http.MethodPost, Path: "/v1/chat/completions", RawBody: &body, Headers: r.auth()}
		head, b := q.encode(c.conn.RemoteAddr().String())
		if _, err := c.conn.Write(append(head, b...)); err != nil {
			return nil, err
		}
		held = append(held, c)
		want := len(held)
		arrived := func() bool {
			return r.fleet.Occupied() >= want || r.target.Inflight != nil && r.target.Inflight() > want
		}
		if want > 1 || !eventually(arrived) {
			// The ones that wait in a queue reach no worker; their number shows at the gateway.
			eventually(func() bool { return r.target.Inflight != nil && r.target.Inflight() > want })
		}
	}
	return func() {
		for _, c := range held {
			c.close()
		}
	}, nil
}

// auth is the headers of the runner's own requests.
func (r *runner) auth() map[string]json.RawMessage {
	if len(r.c.Setup.APIKeys) == 0 {
		return nil
	}
	v := quote("Bearer " + r.c.Setup.APIKeys[0])
	return map[string]json.RawMessage{"Authorization": json.RawMessage(v)}
}

// send plays the client's side.
func (r *runner) send() {
	times, lanes := max(1, r.c.Repeat.Times), max(1, r.c.Repeat.Concurrency)
	r.replies = make([]Reply, times)
	next := make(chan int)
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			c := &client{base: r.target.BaseURL, plan: &r.c.Client}
			defer c.close()
			for i := range next {
				if i > 0 && r.c.Repeat.GapMS > 0 {
					t := time.NewTimer(time.Duration(r.c.Repeat.GapMS) * time.Millisecond)
					<-t.C
				}
				r.replies[i] = c.do(&r.c.Request)
				if !r.c.Repeat.SameConnection {
					c.close()
				}
			}
		})
	}
	for i := range times {
		next <- i
	}
	close(next)
	wg.Wait()
}

// waitCancelled gives the workers the time to see the ends of their calls. One that hangs keeps its call open.
func (r *runner) waitCancelled() {
	eventually(func() bool {
		for _, c := range r.fleet.Calls() {
			if !c.Done && c.Cancelled.IsZero() {
				return false
			}
		}
		return true
	})
}

// after checks the state that a case leaves behind.
func (r *runner) after() {
	for _, what := range r.c.Expect.After {
		switch what {
		case "inflight_zero":
			if r.target.Inflight != nil && !eventually(func() bool { return r.target.Inflight() == 0 }) {
				r.f.addf("%d requests are still counted", r.target.Inflight())
			}
		case "next_request_ok", "worker_kept":
			r.next(what)
		case "no_leak": // looked at after the mesh has stopped
		}
	}
}

// next sends a small chat request that must work, or at least reach a worker that was used.
func (r *runner) next(what string) {
	used := map[string]bool{}
	for _, c := range r.fleet.Calls() {
		used[c.Worker] = true
	}
	r.fleet.mu.Lock()
	if what == "next_request_ok" {
		r.fleet.answers = []Answer{{Kind: "auto", Auto: "chat"}}
	}
	r.fleet.mu.Unlock()
	model := "acme/tiny-chat"
	if len(r.c.Worker.Models) > 0 {
		model = r.c.Worker.Models[0]
	}
	body := `{"model":` + quote(model) + `,"messages":[{"role":"user","content":"Still there?"}]}`
	c := &client{base: r.target.BaseURL, plan: &ClientPlan{}}
	if what == "worker_kept" {
		plan := &ClientPlan{}
		c.plan = plan
		d := struct {
			AfterMS     int `json:"after_ms"`
			AfterEvents int `json:"after_events"`
		}{AfterMS: 500}
		plan.Disconnect = &d
	}
	defer c.close()
	count := len(r.fleet.Calls())
	reply := c.do(&Request{Method: http.MethodPost, Path: "/v1/chat/completions", RawBody: &body, Headers: r.auth()})
	if what == "next_request_ok" && reply.Status != http.StatusOK {
		r.f.addf("the next request got %d", reply.Status)
	}
	calls := r.fleet.Calls()
	if what == "worker_kept" && (len(calls) == count || !used[calls[count].Worker]) {
		r.f.addf("the next request did not reach a worker used before")
	}
}

// eventually polls a condition until it holds or the wait is over.
func eventually(ok func() bool) bool {
	deadline := time.Now().Add(afterWait)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}

// Summary counts results and lists what failed.
func Summary(results []Result) string {
	var b strings.Builder
	passed := 0
	for _, r := range results {
		if len(r.Faults) == 0 {
			passed++
			continue
		}
		fmt.Fprintf(&b, "FAIL %s (%s)\n", r.Case.ID, r.Case.Title)
		for _, f := range r.Faults {
			fmt.Fprintf(&b, "     %s\n", f)
		}
	}
	fmt.Fprintf(&b, "%d passed, %d failed\n", passed, len(results)-passed)
	return b.String()
}
