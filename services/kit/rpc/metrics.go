package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// serverMetrics counts a server's calls. Children are bound to their labels when services are registered; a call costs
// a map look-up and a few atomic additions.
type serverMetrics struct {
	handled *prometheus.CounterVec   // method, reason
	seconds *prometheus.HistogramVec // method
	running *prometheus.GaugeVec     // method
	refused *prometheus.CounterVec   // method

	methods map[string]*methodMetrics // by full name; read only once serving
	unknown *methodMetrics
}

// methodMetrics are one method's bound children. Counters by reason are bound at first use: most reasons never occur.
type methodMetrics struct {
	method   string
	seconds  prometheus.Observer
	running  prometheus.Gauge
	byReason []atomic.Pointer[boundCounter] // index = reason; UNSPECIFIED stands for OK
}

// boundCounter is a named struct because atomic.Pointer cannot hold an interface.
type boundCounter struct{ prometheus.Counter }

// unknownMethod is the label of calls to methods that are not registered; their names come from outside and are not
// bounded.
const unknownMethod = "unknown"

// durationBuckets spread from calls in memory (tens of µs) to streams of minutes.
func durationBuckets() []float64 {
	return []float64{25e-6, 1e-4, 25e-5, 1e-3, 25e-4, 1e-2, 25e-3, 0.1, 0.25, 1, 2.5, 10, 30, 120}
}

// newServerMetrics registers the vectors; servers of one process that share a registerer share them.
func newServerMetrics(reg prometheus.Registerer) (*serverMetrics, error) {
	m := &serverMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvmesh_rpc_server_calls_total", Help: "Finished calls by method and reason (OK without a fault).",
		}, []string{"method", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kvmesh_rpc_server_seconds", Help: "Time of calls, streams from open to end.",
			Buckets: durationBuckets(),
		}, []string{"method"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kvmesh_rpc_server_running", Help: "Calls that run now.",
		}, []string{"method"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvmesh_rpc_server_deadline_refused_total",
			Help: "Calls refused because too little of their deadline was left.",
		}, []string{"method"}),
		methods: map[string]*methodMetrics{},
	}
	err := errors.Join(adopt(reg, &m.handled), adopt(reg, &m.seconds), adopt(reg, &m.running), adopt(reg, &m.refused))
	if err != nil {
		return nil, fmt.Errorf("register rpc metrics: %w", err)
	}
	m.unknown = m.bind(unknownMethod)
	return m, nil
}

// adopt registers a collector. When another server of the process has registered the same one, it is shared.
func adopt[C prometheus.Collector](reg prometheus.Registerer, c *C) error {
	if reg == nil {
		return nil
	}
	err := reg.Register(*c)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			*c = existing
			return nil
		}
	}
	return err
}

// register binds the children of a service's methods.
func (m *serverMetrics) register(desc *grpc.ServiceDesc) {
	for _, d := range desc.Methods {
		m.methods["/"+desc.ServiceName+"/"+d.MethodName] = m.bind("/" + desc.ServiceName + "/" + d.MethodName)
	}
	for _, d := range desc.Streams {
		m.methods["/"+desc.ServiceName+"/"+d.StreamName] = m.bind("/" + desc.ServiceName + "/" + d.StreamName)
	}
}

// bind costs a look-up per vector, once per method and server.
func (m *serverMetrics) bind(method string) *methodMetrics {
	return &methodMetrics{
		method:   method,
		seconds:  m.seconds.WithLabelValues(method),
		running:  m.running.WithLabelValues(method),
		byReason: make([]atomic.Pointer[boundCounter], len(faultv1.Reason_name)),
	}
}

// of never makes a label from a caller's text.
func (m *serverMetrics) of(method string) *methodMetrics {
	if mm, ok := m.methods[method]; ok {
		return mm
	}
	return m.unknown
}

// count adds one finished call.
func (m *serverMetrics) count(mm *methodMetrics, err error) {
	slot := 0
	if err != nil {
		slot = int(fault.ReasonOf(err))
	}
	if slot < 0 || slot >= len(mm.byReason) {
		slot = int(faultv1.Reason_REASON_INTERNAL)
	}
	c := mm.byReason[slot].Load()
	if c == nil { // two first calls may both bind; the vector gives them the same child
		c = &boundCounter{m.handled.WithLabelValues(mm.method, outcome(err))}
		mm.byReason[slot].Store(c)
	}
	c.Inc()
}

func (m *serverMetrics) refuse(method string) { m.refused.WithLabelValues(m.of(method).method).Inc() }

// step counts and times calls. A panic passes through and is counted as INTERNAL.
func (m *serverMetrics) step() around {
	return func(ctx context.Context, c *call) (err error) {
		mm := m.of(c.method)
		mm.running.Inc()
		start := time.Now()
		returned := false
		defer func() {
			mm.seconds.Observe(time.Since(start).Seconds())
			mm.running.Dec()
			if !returned {
				err = fault.New(faultv1.Reason_REASON_INTERNAL, "panic in %s", c.method)
			}
			m.count(mm, err)
		}()
		err = c.next(ctx)
		returned = true
		return err
	}
}
