package casetest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Play runs cases at a door, lanes of them at once; those that count goroutines run alone, after the others. A case that
// only missed a time limit of its own among the others is run once more alone, and told to late, which may be nil.
// Results stand in the order of the cases.
func Play(ctx context.Context, door Door, cases []Case, lanes int, late func(Result)) []Result {
	results := make([]Result, len(cases))
	var mu sync.Mutex
	var alone []int
	next := make(chan int)
	var wg sync.WaitGroup
	for range lanes {
		wg.Go(func() {
			for i := range next {
				results[i] = Run(ctx, door, &cases[i])
				if results[i].OnlyLate() {
					mu.Lock()
					alone = append(alone, i)
					mu.Unlock()
				}
			}
		})
	}
	for _, i := range slowFirst(cases) {
		if !slices.Contains(cases[i].Expect.After, "no_leak") {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	for _, i := range alone {
		if late != nil {
			late(results[i])
		}
		results[i] = Run(ctx, door, &cases[i])
	}
	for i := range cases {
		if slices.Contains(cases[i].Expect.After, "no_leak") {
			results[i] = Run(ctx, door, &cases[i])
		}
	}
	return results
}

// slowFirst orders cases by the pauses that they state, longest first, so that no long one is left for the end.
func slowFirst(cases []Case) []int {
	order := make([]int, len(cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return pauses(&cases[b]) - pauses(&cases[a]) })
	return order
}

// Timed tells whether a case depends on times: it waits by plan, or sets a deadline.
func (c *Case) Timed() bool {
	deadline := slices.ContainsFunc(slices.Collect(maps.Keys(c.Request.Headers)),
		func(name string) bool { return strings.EqualFold(name, "x-request-timeout") })
	return deadline || pauses(c) > 0 || c.Client.Disconnect != nil || c.Expect.MaxMS > 0
}

// pauses is what a case waits for by plan, in milliseconds.
func pauses(c *Case) int {
	ms := c.Setup.TokenizerDelayMS + c.Setup.TemplateDelayMS + c.Setup.RequestTimeoutMS + c.Expect.MinMS +
		c.Repeat.GapMS*c.Repeat.Times
	if p := c.Client.Pause; p != nil {
		ms += p.MS
	}
	answers := slices.Clone(c.Worker.Answers)
	for _, m := range c.Worker.Fleet {
		answers = append(answers, m.Answers...)
	}
	for _, a := range answers {
		ms += a.DelayMS
		for _, s := range a.Steps {
			ms += s.WaitMS
			if s.Gen != nil {
				ms += s.Gen.Count * s.Gen.GapMS
			}
		}
	}
	return ms
}
