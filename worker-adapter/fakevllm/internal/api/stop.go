package api

import (
	"slices"
	"strconv"
	"strings"
)

// stopAt ends the plan at the first stop token or stop string behind min_tokens. A stop string is cut off the text
// unless include_stop_str_in_output keeps it; its tokens count.
func (h *Handler) stopAt(p *plan, s *script) {
	for i, id := range p.ids {
		if i+1 < s.sampling.MinTokens {
			continue
		}
		if slices.Contains(s.sampling.StopIDs, id) {
			at := 0
			if i > 0 {
				at = p.ends[i-1] // the stop token's own text is not shown
			}
			p.end(i, at, strconv.FormatUint(uint64(id), 10))
			return
		}
		if i > 0 && p.ends[i] == p.ends[i-1] {
			continue
		}
		if at, word := p.stopString(s.sampling.Stop, i); word != "" {
			if s.sampling.IncludeStop {
				at += len(word)
			}
			p.end(i, at, string(appendString(nil, word)))
			return
		}
	}
}

// stopString finds a stop string that token i completes.
func (p *plan) stopString(stops []string, i int) (at int, word string) {
	from := 0
	if i > 0 {
		from = p.ends[i-1]
	}
	for _, stop := range stops {
		if stop == "" {
			continue
		}
		begin := max(0, from-len(stop)+1)
		if k := strings.Index(p.text[begin:p.ends[i]], stop); k >= 0 && (word == "" || begin+k < at) {
			at, word = begin+k, stop
		}
	}
	return at, word
}

// end makes token i the last one and the text end at at. Text that streamed tokens show ends there too.
func (p *plan) end(i, at int, reason string) {
	p.ids, p.ends = p.ids[:i+1], p.ends[:i+1]
	p.text = p.text[:at]
	for k := range p.ends {
		p.ends[k] = min(p.ends[k], at)
	}
	p.finish, p.stop = "stop", reason
}
