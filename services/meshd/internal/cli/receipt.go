package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// targetView is a worker and a rank of it.
type targetView struct {
	Worker string `json:"worker_id"`
	Rank   int    `json:"rank"`
}

func (t *targetView) String() string {
	if t == nil {
		return "nobody"
	}
	return fmt.Sprintf("%s rank %d", t.Worker, t.Rank)
}

// receiptView is the part of a receipt that is shown without --json.
type receiptView struct {
	Model           string      `json:"model"`
	Attempt         int         `json:"attempt"`
	Kind            string      `json:"kind"`
	PromptTokens    int         `json:"prompt_tokens"`
	Policy          string      `json:"policy"`
	Chosen          *targetView `json:"chosen"`
	Reason          string      `json:"reason"`
	Certainty       string      `json:"certainty"`
	CertaintyReason string      `json:"certainty_reason"`
	Predicted       int         `json:"predicted_hit_tokens"`
	Actual          *int        `json:"actual_hit_tokens"`
	Outcome         string      `json:"outcome"`
	QueuedMS        int         `json:"queued_ms"`
	Candidates      []struct {
		Target    *targetView `json:"target"`
		Predicted int         `json:"hit_tokens"`
		Cost      float64     `json:"cost"`
	} `json:"candidates"`
	Excluded []struct {
		Target *targetView `json:"target"`
		Reason string      `json:"reason"`
	} `json:"excluded"`
}

// print writes the choice in a sentence and the candidates in a table, the best first.
func (r *receiptView) print(out io.Writer) error {
	attempt := ""
	if r.Attempt > 1 {
		attempt = fmt.Sprintf("attempt %d: ", r.Attempt)
	}
	if r.Kind != "" && r.Kind != "ATTEMPT_KIND_UNSPECIFIED" {
		attempt += word(r.Kind) + ": "
	}
	certainty := word(r.Certainty)
	if r.CertaintyReason != "" {
		certainty += ", " + r.CertaintyReason
	}
	fmt.Fprintf(out, "%s%s for %d tokens of %s: %s (policy %s, %s)\n", attempt, r.Chosen, r.PromptTokens, r.Model, r.Reason,
		r.Policy, certainty)
	if r.QueuedMS > 0 {
		fmt.Fprintf(out, "waited %d ms in the scheduler's queue: every worker was full (scheduler.worker.max_inflight)\n", r.QueuedMS)
	}
	if r.Outcome != "" && r.Outcome != "OUTCOME_UNSPECIFIED" {
		fmt.Fprintf(out, "ended %s; predicted %d cached tokens, the worker says %s\n", word(r.Outcome), r.Predicted, orDash(r.Actual))
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CANDIDATE\tPREDICTED HIT\tCOST")
	for _, c := range r.Candidates {
		fmt.Fprintf(w, "%s\t%d\t%.4g\n", c.Target, c.Predicted, c.Cost)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, e := range r.Excluded {
		fmt.Fprintf(out, "%s is no candidate: %s\n", e.Target, e.Reason)
	}
	return nil
}
