package workeradapter

import (
	"fmt"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// eventState is the health of all streams: that of the worst one, and what to change.
func (f *follower) eventState() (workerv1.EventState, string) {
	f.mu.Lock()
	p := f.plan
	f.mu.Unlock()
	if p.model == "" {
		return workerv1.EventState_EVENT_STATE_UNSPECIFIED, ""
	}
	if p.why != "" {
		return workerv1.EventState_EVENT_STATE_OFF, p.why
	}
	state, detail := workerv1.EventState_EVENT_STATE_LIVE, p.hint
	for rank, s := range f.all() {
		if st, why := s.judge(rank); severity(st) > severity(state) || detail == "" {
			state, detail = st, why
		}
	}
	return state, detail
}

// connecting is true while a stream's first connection has neither been made nor failed.
func (f *follower) connecting() bool {
	for _, s := range f.all() {
		if st := s.Status(); !st.Feed.Connected && st.Feed.Fault == "" {
			return true
		}
	}
	return false
}

// deaf is true while a stream's last connection has ended or failed.
func (f *follower) deaf() bool {
	for _, s := range f.all() {
		if st := s.Status(); !st.Feed.Connected && st.Feed.Fault != "" {
			return true
		}
	}
	return false
}

// severity orders the states by how little can be said of the cache.
func severity(s workerv1.EventState) int {
	switch s {
	case workerv1.EventState_EVENT_STATE_HYBRID:
		return 1
	case workerv1.EventState_EVENT_STATE_CATCHING_UP:
		return 2
	case workerv1.EventState_EVENT_STATE_SILENT:
		return 3
	case workerv1.EventState_EVENT_STATE_OFF:
		return 4
	}
	return 0
}

// judge is the state of one rank's stream.
func (s *rankStream) judge(rank int) (workerv1.EventState, string) {
	st := s.Status()
	switch {
	case !st.Feed.Connected && st.Feed.Fault == "":
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: its publisher is being connected", rank)
	case !st.Feed.Connected:
		return workerv1.EventState_EVENT_STATE_OFF, fmt.Sprintf("rank %d: nothing publishes there (%s): "+
			"events are off, or the worker's endpoint connects instead of binding; start vLLM with %s",
			rank, st.Feed.Fault, vllm.EnableEvents)
	case st.Feed.Mending && st.Feed.ReplayFault == "":
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: missed events are being replayed", rank)
	case s.silence.silent():
		return workerv1.EventState_EVENT_STATE_SILENT, fmt.Sprintf("rank %d: the worker computes prompts and "+
			"publishes nothing: check that prefix caching is on, that its topic begins with the adapter's, and that "+
			"events.endpoint is not its replay socket", rank)
	case (st.Feed.Mending || st.Feed.Incomplete) && st.Feed.ReplayFault != "":
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: blocks from before are not known: %s",
			rank, noReplay(st.Feed.ReplayFault))
	case st.Feed.Incomplete:
		return workerv1.EventState_EVENT_STATE_CATCHING_UP, fmt.Sprintf("rank %d: the stream's start could not be "+
			"replayed, so blocks from before are not known: give vLLM a replay_endpoint and more buffer_steps", rank)
	case st.Mirror.Groups > 1 && !st.Mirror.Ruled:
		return workerv1.EventState_EVENT_STATE_HYBRID, fmt.Sprintf("rank %d: hybrid model, and the kind of a cache "+
			"group is not known: no hit is claimed; start vLLM 0.23 or later, or report the kind", rank)
	case st.Mirror.Groups > 1:
		return workerv1.EventState_EVENT_STATE_HYBRID, fmt.Sprintf("rank %d: hybrid model with %d cache groups: only "+
			"the ends of cached prompts can be hit, a shorter prefix hits nothing", rank, st.Mirror.Groups)
	case st.Feed.ReplayFault != "":
		return workerv1.EventState_EVENT_STATE_LIVE, fmt.Sprintf("rank %d: the next lost event costs the whole index: %s",
			rank, noReplay(st.Feed.ReplayFault))
	}
	return workerv1.EventState_EVENT_STATE_LIVE, ""
}

// noReplay says what to look at when a replay socket is configured and does not replay.
func noReplay(fault string) string {
	return fmt.Sprintf("its replay fails (%s): compare vLLM's replay_endpoint with the adapter's events.replay_endpoint",
		fault)
}
