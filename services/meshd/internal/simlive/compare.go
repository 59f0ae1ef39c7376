package simlive

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Row is one policy's figures, in seconds of the workers' time.
type Row struct {
	Policy         string
	Mean, P50, P90 float64
	Hit            float64
	Failed         int
	Lag            time.Duration // by which the machine was late, 99th percentile; of the live mesh only
}

// disturbed is the lag from which a round says little: steps of the engine take ten to fifty milliseconds.
const disturbed = 20 * time.Millisecond

// better prefers fewer failures, then the lesser mean: what a busy machine adds to a round is never negative.
func (r Row) better(o Row) bool {
	return r.Failed < o.Failed || r.Failed == o.Failed && r.Mean < o.Mean
}

func summarise(policy string, answers []answer) Row {
	r := Row{Policy: policy}
	var times []float64
	cached, prompt := 0, 0
	for _, a := range answers {
		if a.err != nil {
			r.Failed++
			continue
		}
		times = append(times, a.ttft.Seconds())
		r.Mean += a.ttft.Seconds()
		cached, prompt = cached+a.cached, prompt+a.prompt
	}
	if len(times) == 0 {
		return r
	}
	slices.Sort(times)
	r.Mean /= float64(len(times))
	r.P50, r.P90 = times[len(times)/2], times[len(times)*9/10]
	if prompt > 0 {
		r.Hit = float64(cached) / float64(prompt)
	}
	return r
}

// apart is from which ratio of mean TTFT on two policies of the simulator are in an order that the mesh must keep. Below
// it a slice of some hundred requests and a busy machine decide.
const apart = 1.25

// Comparison is both tables.
type Comparison struct {
	Requests  int
	Simulated []Row
	Live      []Row
	Took      time.Duration
}

// pairs counts the pairs that the simulator holds apart, and names those whose order the mesh turns round.
func (c *Comparison) pairs() (all int, reversed []string) {
	live := map[string]float64{}
	for _, r := range c.Live {
		live[r.Policy] = r.Mean
	}
	for _, a := range c.Simulated {
		for _, b := range c.Simulated {
			if a.Mean*apart > b.Mean {
				continue
			}
			all++
			if live[a.Policy] >= live[b.Policy] {
				reversed = append(reversed, fmt.Sprintf("%s before %s", a.Policy, b.Policy))
			}
		}
	}
	return all, reversed
}

// Err says which order was lost or which requests failed.
func (c *Comparison) Err() error {
	for _, r := range c.Live {
		if r.Failed > 0 {
			return fmt.Errorf("%s: %d of %d requests failed", r.Policy, r.Failed, c.Requests)
		}
	}
	if _, reversed := c.pairs(); len(reversed) > 0 {
		for _, r := range c.Live {
			if r.Lag > disturbed {
				return fmt.Errorf("the machine was too busy to tell (up to %s late during %s): %s",
					r.Lag.Round(time.Millisecond), r.Policy, strings.Join(reversed, ", "))
			}
		}
		return fmt.Errorf("the mesh turns the simulator's order round: %s", strings.Join(reversed, ", "))
	}
	return nil
}

// Write prints both tables and how the orders agree.
func (c *Comparison) Write(w io.Writer) error {
	var b strings.Builder
	table := func(title string, rows []Row) {
		fmt.Fprintf(&b, "\n%s\n  %-16s %8s %8s %8s %7s %7s %7s\n", title, "policy", "TTFT s", "p50", "p90", "hit", "failed", "lag ms")
		rows = slices.SortedFunc(slices.Values(rows), func(x, y Row) int { return cmp.Compare(x.Mean, y.Mean) })
		for _, r := range rows {
			fmt.Fprintf(&b, "  %-16s %8.3f %8.3f %8.3f %7.4f %7d %7d\n", r.Policy, r.Mean, r.P50, r.P90, r.Hit, r.Failed,
				r.Lag.Milliseconds())
		}
	}
	table("simulator, best first", c.Simulated)
	table(fmt.Sprintf("live mesh, best first (%s)", c.Took.Round(time.Second)), c.Live)
	all, reversed := c.pairs()
	fmt.Fprintf(&b, "\n%d of %d pairs that the simulator holds apart by %.0f %% are in the same order\n",
		all-len(reversed), all, (apart-1)*100)
	_, err := io.WriteString(w, b.String())
	return err
}
