package bench

import (
	"fmt"
	"strings"
	"time"
)

// row is one scenario's figures of one arm: the best of all rounds.
type row struct {
	cpu    time.Duration // per unit of work
	events time.Duration // of cpu, what was used when the run was over
	rate   float64
	p50    time.Duration
	gap    time.Duration
	lost   int // over all rounds
}

// table collects figures and prints them.
type table struct {
	rounds    int
	scenarios []scenario
	arms      []string // the yardstick first
	best      map[string]row
	memory    map[string]float64
}

func newTable(rounds int) *table {
	return &table{rounds: rounds, best: map[string]row{}, memory: map[string]float64{}}
}

// add keeps the best of what there is and r.
func (t *table) add(arm string, s scenario, r row) {
	key := arm + "|" + s.name
	have, ok := t.best[key]
	if ok {
		r.cpu, r.events, r.rate = min(have.cpu, r.cpu), min(have.events, r.events), max(have.rate, r.rate)
		r.lost += have.lost
		r.p50, r.gap = min(have.p50, r.p50), min(have.gap, r.gap)
	}
	t.best[key] = r
}

func (t *table) of(arm string, s scenario) row { return t.best[arm+"|"+s.name] }

// String is the table: a line per figure, each arm beside the yardstick and with its ratio.
func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, `Best of %d interleaved rounds; in brackets the ratio to proxy, Go's httputil.ReverseProxy, in the same run. CPU is user
and system time of all processes of an arm. Worker and client are processes of their own on the same machine.
gateway: scheduler, template and tokenizer are stand-ins that answer at once. mesh: the all-in-one process: prompts
rendered, tokenised, hashed and routed; adapter and event plane follow the cache events of every prompt, which the mock
worker sends when a run is over: their CPU counts, with all that a process does in the .3 s after; latencies are without
them.
processes: the same, one process per service over TCP with a NATS server. All arms, proxy too, collect garbage by the
same settings (400 %%). No two requests are equal. 1 KB: the client's own system message and a new question. cold: no part
of the prompt was sent before; known: all but the last question was. added: beyond a request straight to the worker in the
same rounds.

%-27s %-11s`, t.rounds, "", "")
	for _, arm := range t.arms {
		fmt.Fprintf(&b, " %17s", arm)
	}
	b.WriteByte('\n')
	for _, s := range t.scenarios {
		t.line(&b, s.name, "us CPU", func(arm string) float64 { return us(t.of(arm, s).cpu) })
		t.plain(&b, "  of it, cache events", "us CPU", func(arm string) float64 { return us(t.of(arm, s).events) })
		direct := t.of("direct", s)
		switch {
		case s.load.plan == nil:
			t.line(&b, "  per "+s.unit, "us p50", func(arm string) float64 { return us(t.of(arm, s).p50) })
			t.line(&b, "", "added us", func(arm string) float64 { return us(t.of(arm, s).p50 - direct.p50) })
			t.line(&b, "", "per second", func(arm string) float64 { return t.of(arm, s).rate })
		case s.load.plan.gap > 0:
			t.line(&b, "  per "+s.unit, "us gap p99", func(arm string) float64 { return us(t.of(arm, s).gap) })
			t.line(&b, "", "added us", func(arm string) float64 { return us(t.of(arm, s).gap - direct.gap) })
		}
		for _, arm := range t.arms {
			if n := t.of(arm, s).lost; n > 0 {
				fmt.Fprintf(&b, "  %s lost %d streams\n", arm, n)
			}
		}
	}
	t.line(&b, "open idle stream", "KB", func(arm string) float64 { return t.memory[arm] })
	return b.String()
}

// plain prints one figure of every arm, without ratios.
func (t *table) plain(b *strings.Builder, name, unit string, value func(arm string) float64) {
	fmt.Fprintf(b, "%-27s %-11s", name, unit)
	for _, arm := range t.arms {
		if v := value(arm); v >= 0.05 {
			fmt.Fprintf(b, " %10.1f       ", v)
		} else {
			fmt.Fprintf(b, " %17s", "")
		}
	}
	b.WriteByte('\n')
}

// line prints one figure of every arm that has it.
func (t *table) line(b *strings.Builder, name, unit string, value func(arm string) float64) {
	fmt.Fprintf(b, "%-27s %-11s", name, unit)
	first := value(t.arms[0])
	for _, arm := range t.arms {
		v := value(arm)
		switch {
		case v == 0:
			fmt.Fprintf(b, " %17s", "")
		case arm == t.arms[0]:
			fmt.Fprintf(b, " %10.1f       ", v)
		default:
			fmt.Fprintf(b, " %10.1f (%4.2f)", v, v/first)
		}
	}
	b.WriteByte('\n')
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
