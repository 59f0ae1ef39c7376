package policy

import "fmt"

// wording says in words what it means that a term is less, and the unit that the difference is given in: tokens, s, or
// none where the number says nothing.
type wording struct{ words, unit string }

func wordingOf(term string) wording {
	switch term {
	case "queue":
		return wording{"shorter queue", "s"}
	case "prefill":
		return wording{"less of the prompt to compute", "s"}
	case "delay":
		return wording{"delays fewer others by work that a cache could spare", "s"}
	case "eviction":
		return wording{"evicts less for work that a cache could spare", "s"}
	case "decode":
		return wording{"quicker decode steps", "s"}
	case "room":
		return wording{"more room in its cache", "s"}
	case "admission":
		return wording{"admitted sooner", "s"}
	case "lora":
		return wording{"the adapter is loaded", "s"}
	case "match":
		return wording{"longer match", "of the score"}
	case "free_kv":
		return wording{"more free cache", "of the score"}
	case "cold":
		return wording{"warm, the other one is cold", ""}
	case "tokens_x_requests":
		return wording{"fewer tokens times requests", "tokens"}
	case "random":
		return wording{"drawn at random", ""}
	case "order":
		return wording{"its turn", ""}
	case "requests":
		return wording{"fewer requests in flight", "requests"}
	case "tokens":
		return wording{"fewer tokens in flight", "tokens"}
	case "load":
		return wording{"less loaded of the two drawn", ""}
	case "hash":
		return wording{"first in the order of the prompt's hash", ""}
	}
	return wording{term + " is less", ""}
}

// Why is Deciding in words, for receipts: "shorter queue by 0.12 s".
func (r *Ranking) Why() string {
	term, gain := r.Deciding()
	switch term {
	case "only":
		return "only candidate"
	case "session":
		return "session stays"
	case "tie":
		return "tie, drawn at random"
	}
	w := wordingOf(term)
	unit := w.unit
	if r.units != "" && (term == "queue" || term == "prefill" || term == "match") {
		unit = r.units
	}
	if unit == "" {
		return w.words
	}
	return fmt.Sprintf("%s by %.3g %s", w.words, gain, unit)
}

// unitsOf is what a policy's queue, prefill and match are measured in where that is not seconds.
func unitsOf(policy string) string {
	switch policy {
	case "sticky", "longest-prefix":
		return "tokens"
	case "blend":
		return "of the score"
	}
	return ""
}
