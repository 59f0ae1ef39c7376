package workeradapter

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/feed"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
)

// metrics are the adapter's. The worker's id is a constant label: several adapters fit in one process.
type metrics struct {
	gaps, replayed, restarts, undecodable prometheus.Counter
	unreplayed                            prometheus.Counter
	deltas, units, lost, epochs           prometheus.Counter
	snapshots                             prometheus.Counter
	state, events, silent                 prometheus.Gauge
	held, blocks, orphans                 *prometheus.GaugeVec
	left                                  *prometheus.GaugeVec
}

// newMetrics registers the adapter's metrics; r may be nil.
func newMetrics(r prometheus.Registerer, worker string) *metrics {
	f := factory{reg: r, labels: prometheus.Labels{"worker": worker}}
	return &metrics{
		gaps:        f.counter("event_gaps_total", "Holes seen in the worker's event sequence."),
		replayed:    f.counter("event_batches_replayed_total", "Event batches fetched from the replay socket."),
		restarts:    f.counter("event_restarts_total", "Event sequences that could not be continued."),
		undecodable: f.counter("event_batches_undecodable_total", "Event batches that are no msgpack."),
		unreplayed:  f.counter("event_gaps_unreplayed_total", "Holes that no replay filled: what is known begins after them."),
		deltas:      f.counter("deltas_total", "Messages published about the cache, heartbeats included."),
		units:       f.counter("delta_units_total", "Units added and removed in published deltas."),
		lost:        f.counter("deltas_lost_total", "Deltas that could not be published."),
		epochs:      f.counter("epochs_total", "Beginnings of a stream."),
		snapshots:   f.counter("snapshots_total", "Snapshots served."),
		state:       f.gauge("worker_state", "State of the worker, as in WorkerState."),
		events:      f.gauge("event_state", "Health of the event streams, as in EventState."),
		silent:      f.gauge("events_silent", "1 while the worker computes prompts and publishes nothing."),
		held:        f.vec("units", "Units claimed for the worker.", "rank"),
		blocks:      f.vec("blocks", "Blocks known of the worker, claimed or not.", "rank"),
		orphans:     f.vec("orphan_blocks", "Blocks whose parent was never seen.", "rank"),
		left:        f.vec("left_out", "Events and blocks that could not be used, by reason.", "rank", "reason"),
	}
}

// factory makes metrics of one adapter.
type factory struct {
	reg    prometheus.Registerer
	labels prometheus.Labels
}

const namespace, subsystem = "kvmesh", "worker_adapter"

func (f factory) add(c prometheus.Collector) {
	if f.reg != nil {
		f.reg.MustRegister(c)
	}
}

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: f.labels,
	})
	f.add(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: f.labels,
	})
	f.add(g)
	return g
}

func (f factory) vec(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: f.labels,
	}, labels)
	f.add(v)
	return v
}

// feed is what a rank's feed counts.
func (m *metrics) feed() feed.Metrics {
	return feed.Metrics{
		Gaps: m.gaps, Replayed: m.replayed, Restarts: m.restarts, Undecodable: m.undecodable, Unreplayed: m.unreplayed,
	}
}

// stream is what a rank's stream counts.
func (m *metrics) stream() stream.Metrics {
	return stream.Metrics{Deltas: m.deltas, Units: m.units, Lost: m.lost, Epochs: m.epochs}
}

// observe sets the gauges from a card and the streams. The rank label has at most maxRanks values.
func (m *metrics) observe(c *workerv1.WorkerCard, streams []*rankStream) {
	m.state.Set(float64(c.State))
	m.events.Set(float64(c.EventState))
	m.silent.Set(0)
	if c.EventState == workerv1.EventState_EVENT_STATE_SILENT {
		m.silent.Set(1)
	}
	for rank, s := range streams {
		st, label := s.Status().Mirror, strconv.Itoa(rank)
		m.held.WithLabelValues(label).Set(float64(st.Units))
		m.blocks.WithLabelValues(label).Set(float64(st.Blocks))
		m.orphans.WithLabelValues(label).Set(float64(st.OrphanBlocks))
		for reason, n := range map[string]uint64{
			"skipped_event": st.Skipped, "irregular_event": st.Irregular, "unplaced_extra": st.Unplaced,
			"unknown_removal": st.UnknownRemovals, "orphan_dropped": st.OrphansDropped, "trimmed": st.Trimmed,
			"too_many_adapters": st.Crowded,
		} {
			m.left.WithLabelValues(label, reason).Set(float64(n))
		}
	}
}
