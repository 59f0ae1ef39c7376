package schedulersvc

import "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

type gaugeRow struct {
	name, help string
	labels     []string
}

// gaugeTable lists what is read at a scrape. Names that end in _total are counters.
func gaugeTable() []gaugeRow {
	target := []string{"worker", "rank"}
	return []gaugeRow{
		{"index_units", "Distinct units in the index.", nil},
		{"index_bytes", "Memory of the index's tables and shared sets.", nil},
		{"index_evictions_total", "Units given up because the index was at its bound.", nil},
		{"index_refused_total", "Holders not recorded because the index was at its bound.", nil},
		{"feed_deltas_total", "KV deltas applied.", nil},
		{"feed_units_total", "Units added and removed by applied deltas.", nil},
		{"feed_heartbeats_total", "Heartbeats received.", nil},
		{"feed_duplicates_total", "Messages of a seq or epoch that was over.", nil},
		{"feed_strangers_total", "Messages of streams whose worker has no card.", nil},
		{"feed_buffer_overflows_total", "Buffers given up while a snapshot was on its way.", nil},
		{"feed_audits_total", "Digests compared.", nil},
		{"feed_audit_mismatches_total", "Digests that differed from the worker's.", nil},
		{"feed_snapshots_total", "Snapshots applied.", nil},
		{"feed_snapshot_failures_total", "Snapshots that failed.", nil},
		{"feed_mends_total", "Streams that needed a snapshot, by cause.", []string{"cause"}},
		{"queue_waiting", "Requests in the queue.", nil},
		{"reservations", "Own open reservations.", nil},
		{"peers", "Other schedulers heard of.", nil},
		{"peer_reservations", "Open reservations of other schedulers.", nil},
		{"receipts", "Receipts kept.", nil},
		{"receipt_sink_dropped_total", "Receipts that the sink file did not get.", nil},
		{"request_log_dropped_total", "Requests that the request log did not get.", nil},
		{"receipt_bytes", "Memory of the receipts kept.", nil},
		{"target_inflight", "Requests in flight by the reservations of all schedulers.", target},
		{"target_queued_tokens", "Uncached prompt tokens in flight that are not prefilled.", target},
		{"target_expected", "Requests whose units are expected and not confirmed.", target},
		{"target_certainty", "0 EXACT, 1 DEGRADED, 2 FALLBACK.", target},
		{"target_breaker", "0 closed, 1 open, 2 half-open.", target},
		{"target_drift", "Recent share of predicted hit tokens that the worker did not report.", target},
		{"target_prefill_seconds_per_token", "Learnt prefill time of a prompt token.", target},
		{"target_prefill_error", "Mean absolute error of predicted prefill times, as a share.", target},
		{"target_units", "Units that the index holds for the target.", target},
		{"target_event_age_seconds", "Time since the last message of the target's event stream.", target},
	}
}

func outcomeLabel(o schedulerv1.Outcome) string {
	switch o {
	case schedulerv1.Outcome_OUTCOME_OK:
		return "ok"
	case schedulerv1.Outcome_OUTCOME_REJECTED:
		return "rejected"
	case schedulerv1.Outcome_OUTCOME_BUSY:
		return "busy"
	case schedulerv1.Outcome_OUTCOME_CANCELLED:
		return "cancelled"
	default:
		return "failed"
	}
}
