package bus

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count what crosses the bus. Labels are the families of subjects ("kv", "inflight"), never names from outside.
type metrics struct {
	published *prometheus.CounterVec
	malformed *prometheus.CounterVec
	gaps      *prometheus.CounterVec
}

// newMetrics registers the counters, or takes over those of another bus in this process.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kvmesh_bus_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		published: counter("published_total", "Messages published by kind of subject.", "kind"),
		malformed: counter("malformed_total", "Messages that could not be decoded by kind of subject.", "kind"),
		gaps:      counter("gaps_total", "Notices to subscriptions that messages may be missing, by cause.", "cause"),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []**prometheus.CounterVec{&m.published, &m.malformed, &m.gaps} {
		err := reg.Register(*c)
		var already prometheus.AlreadyRegisteredError
		if errors.As(err, &already) { // another bus of this process
			if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
				*c, err = existing, nil
			}
		}
		if err != nil {
			return nil, fmt.Errorf("register bus metrics: %w", err)
		}
	}
	return m, nil
}
