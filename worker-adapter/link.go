package workeradapter

import (
	eventv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/event/v1"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/stream"
)

// link publishes deltas under the worker's model.
type link struct{ to Publisher }

// delta publishes one rank's.
func (l link) delta(model string, _ int) stream.Publish {
	return func(d *eventv1.KvDelta) error { return l.to.PublishKV(model, d) }
}
