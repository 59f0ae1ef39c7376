package load

import "time"

const (
	// priorLifetimeS is an answer of 400 tokens at 25 ms, until one has ended.
	priorLifetimeS = 10.0
	// maxAdmitS bounds a prediction.
	maxAdmitS = 120.0
	// growthSteps are the decode steps whose new blocks are gone before a request sent now can be admitted: those of the
	// step under way and of the steps that prefill what is ahead.
	growthSteps = 16
	// lifetimeWeight is the weight of one answer in the mean lifetime, a memory of 50.
	lifetimeWeight = 0.02
)

// admitS predicts the wait for need tokens of cache. What is held is the worker's last report and what was sent since;
// the requests it reported as waiting hold nothing yet but come first. In steady state the answers' growth takes what
// ended answers free, so room appears at the rate at which computed prompts leave. A head that waits already has shown
// that this is optimistic: its age is added.
func (l *Ledger) admitS(now time.Duration, need, capacity int) float64 {
	if capacity <= 0 || !l.hasReport {
		return 0
	}
	deficit := need + l.unadmitted() + growthSteps*l.decoding - int((1-l.kvUse)*float64(capacity))
	if deficit <= 0 {
		return 0
	}
	lifetime := l.lifetimeS
	if lifetime == 0 {
		lifetime = priorLifetimeS
	}
	wait := lifetime * float64(deficit) / float64(max(1, l.resident))
	l.skip()
	if l.head < len(l.entries) && l.waiting > 0 {
		wait += (now - l.entries[l.head].started).Seconds()
	}
	return min(maxAdmitS, wait)
}

// unadmitted sums the uncached tokens of requests that hold no blocks yet: sent since the report, or reported waiting.
func (l *Ledger) unadmitted() int {
	tokens, waiting := 0, l.waiting
	for i := len(l.entries) - 1; i >= l.head && i >= 0; i-- {
		e := &l.entries[i]
		if e.gone || e.prefilled {
			continue
		}
		if e.started <= l.reported {
			if waiting == 0 {
				break
			}
			waiting--
		}
		tokens += e.uncached
	}
	return tokens
}

func (l *Ledger) live(d time.Duration) {
	if l.lifetimeS == 0 {
		l.lifetimeS = d.Seconds()
		return
	}
	l.lifetimeS += float64(lifetimeWeight * (d.Seconds() - l.lifetimeS))
}
