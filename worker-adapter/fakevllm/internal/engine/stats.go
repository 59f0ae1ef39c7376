package engine

import "time"

// Stats are the engine's counters since it began, and its gauges at the moment of the snapshot.
type Stats struct {
	Queries          uint64 // prompt tokens looked up in the prefix cache
	Hits             uint64 // of them found
	PromptTokens     uint64
	GenerationTokens uint64
	Preemptions      uint64
	Rejected         uint64
	Running          int
	Waiting          int
	Usage            float64 // share of blocks in use, 0 to 1
	SleepLevel       int
	RunningLoRAs     []string
	WaitingLoRAs     []string
}

// StepInfo describes a computed step.
type StepInfo struct {
	Load     Load
	Produced int
	Took     time.Duration
}

// JobInfo describes an ended job. Durations are 0 for phases it never reached.
type JobInfo struct {
	State      State
	Length     bool // the output was cut by a limit
	Prompt     int
	Cached     int
	Generated  int
	Preempted  int
	Queue      time.Duration // submission to first admission
	Prefill    time.Duration // first admission to first token
	Decode     time.Duration // first token to end
	FirstToken time.Duration // submission to first token
	Total      time.Duration
}

// info sums up an ended sequence. It belongs to the engine's goroutine: the times are not guarded.
func (s *Seq) info(now time.Time) JobInfo {
	j := JobInfo{
		State: s.State(), Length: s.Cut, Prompt: len(s.Prompt), Cached: s.Cached(), Generated: s.Produced(),
		Preempted: s.preempted, Total: now.Sub(s.queued),
	}
	if !s.scheduled.IsZero() {
		j.Queue = s.scheduled.Sub(s.queued)
	}
	if !s.first.IsZero() {
		j.Prefill = s.first.Sub(s.scheduled)
		j.Decode = now.Sub(s.first)
		j.FirstToken = s.first.Sub(s.queued)
	}
	return j
}

// Snapshot returns the counters and gauges.
func (e *Engine) Snapshot() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.stats
	st.Running, st.Waiting = len(e.sched.running), len(e.sched.waiting)
	for _, q := range e.aborts { // already ended for their clients
		if q.admitted {
			st.Running--
			continue
		}
		st.Waiting--
	}
	st.Running, st.Waiting = max(0, st.Running), max(0, st.Waiting)
	st.Usage = e.sched.pool.usage()
	st.SleepLevel = int(e.mode.level)
	st.RunningLoRAs, st.WaitingLoRAs = adapters(e.sched.running), adapters(e.sched.waiting)
	return st
}

// adapters lists the different LoRA adapters of sequences in their order.
func adapters(seqs []*Seq) []string {
	var names []string
	seen := map[string]bool{}
	for _, q := range seqs {
		if n := q.Scope.LoRAName; n != "" && !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	return names
}
