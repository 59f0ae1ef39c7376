package operation

import (
	"strconv"
	"strings"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

// ListModels is the fleet's list, adapters after their base models, aliases at the end.
func (s *Service) ListModels(_ *gatewayv1.ListModelsRequest, st gatewayv1.OpenAIService_ListModelsServer) error {
	return s.serve(st, "list_models", func(t *task) (*dispatch.Answer, error) {
		v, err := s.deps.Fleet.Fresh(t.ctx)
		if err != nil {
			return nil, err
		}
		body := []byte(`{"object":"list","data":[`)
		n := 0
		add := func(entry []byte) {
			if entry == nil {
				return
			}
			if n++; n > 1 {
				body = append(body, ',')
			}
			body = append(body, entry...)
		}
		for _, adapters := range []bool{false, true} {
			for _, m := range v.Models {
				if adapters == (m.GetParent() != "") && t.in.Caller.MayUse(m.GetId()) == nil {
					add(entryOf(m))
				}
			}
		}
		for _, name := range s.deps.Fleet.AliasNames() {
			add(s.aliasEntry(t, v, name))
		}
		return nil, reply.OK(t.w, append(body, "]}"...))
	})
}

// GetModel is one entry.
func (s *Service) GetModel(q *gatewayv1.GetModelRequest, st gatewayv1.OpenAIService_GetModelServer) error {
	return s.serve(st, "get_model", func(t *task) (*dispatch.Answer, error) {
		v, err := s.deps.Fleet.Fresh(t.ctx)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(q.GetModel(), "/") // grpc-gateway's pattern leaves one behind a single segment
		entry := s.aliasEntry(t, v, name)
		if m := v.Find(name); m != nil && t.in.Caller.MayUse(m.GetId()) == nil {
			entry = entryOf(m)
		}
		if entry == nil && len(v.Models) == 0 {
			return nil, fleet.NoWorker() // nobody can say yet what there is
		}
		if entry == nil {
			return nil, fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "The model `%.256s` does not exist.", name).
				WithParam("model")
		}
		return nil, reply.OK(t.w, entry)
	})
}

// aliasEntry is the entry of what an alias means, under the alias's name; nil when nobody serves it.
func (s *Service) aliasEntry(t *task, v *fleet.View, name string) []byte {
	id, ok := s.deps.Fleet.Alias(name)
	m := v.Find(id)
	if !ok || m == nil || t.in.Caller.MayUse(id) != nil {
		return nil
	}
	return openai.WithText(entryOf(m), "id", name)
}

// entryOf is the worker's own entry; a worker that gave none gets one in the same form.
func entryOf(m *schedulerv1.FleetModel) []byte {
	if len(m.GetEntryJson()) > 0 {
		return m.GetEntryJson()
	}
	parent := []byte("null")
	if m.GetParent() != "" {
		parent = jsontext.Quote(m.GetParent())
	}
	id := jsontext.Quote(m.GetId())
	b := append([]byte(`{"id":`), id...)
	b = append(b, `,"object":"model","created":`...)
	b = strconv.AppendInt(b, 0, 10)
	b = append(b, `,"owned_by":"vllm","root":`...)
	b = append(b, id...)
	b = append(b, `,"parent":`...)
	b = append(b, parent...)
	return append(b, `,"max_model_len":null,"permission":[]}`...)
}
