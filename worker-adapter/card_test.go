package workeradapter

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// TestServedModels: what the mesh takes a worker's list for, by id: the first name that it is another of, or the parent.
func TestServedModels(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name            string
		models          []vllm.Model
		aliases, parent map[string]string
	}{
		{"one name", []vllm.Model{{ID: "m"}}, nil, nil},
		{"several names", []vllm.Model{{ID: "m"}, {ID: "n"}, {ID: "o"}}, map[string]string{"n": "m", "o": "m"}, nil},
		{"an adapter", []vllm.Model{{ID: "m"}, {ID: "x", Parent: "m"}}, nil, map[string]string{"x": "m"}},
		{"an adapter of a further name", []vllm.Model{{ID: "m"}, {ID: "n"}, {ID: "x", Parent: "n"}}, map[string]string{"n": "m"}, map[string]string{"x": "m"}},
		{"an adapter whose base has another name in the list", []vllm.Model{{ID: "m"}, {ID: "x", Parent: "org/model"}}, nil, map[string]string{"x": "m"}},
		{"adapters first", []vllm.Model{{ID: "x", Parent: "m"}, {ID: "m"}}, nil, map[string]string{"x": "m"}},
		{"adapters alone", []vllm.Model{{ID: "x", Parent: "m"}}, nil, map[string]string{"x": "m"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			base, _ := vllm.Base(row.models)
			got := served(row.models, base.ID)
			require.Len(t, got, len(row.models))
			for i, s := range got {
				require.Equal(t, row.models[i].ID, s.GetId())
				require.Equal(t, row.aliases[s.GetId()], s.GetAliasOf(), s.GetId())
				require.Equal(t, row.parent[s.GetId()], s.GetParent(), s.GetId())
			}
		})
	}
}
