package workeradapter

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// TestRepointedAdapters: a name is told when it stands for another path, and when what it stood for is forgotten.
func TestRepointedAdapters(t *testing.T) {
	t.Parallel()
	adapter := func(name, root string) vllm.Model { return vllm.Model{ID: name, Parent: "m", Root: root} }
	base := vllm.Model{ID: "m", Root: "m"}
	f := &follower{}
	require.Empty(t, f.repointed([]vllm.Model{base, adapter("a", "/1")}))
	require.Empty(t, f.repointed([]vllm.Model{base}), "unloaded")
	require.Empty(t, f.repointed([]vllm.Model{base, adapter("a", "/1")}), "back from where it was")
	require.Equal(t, []string{"a"}, f.repointed([]vllm.Model{adapter("a", "/2")}))
	require.Empty(t, f.repointed([]vllm.Model{adapter("a", "/2")}))

	var many []vllm.Model
	for i := range maxRoots {
		many = append(many, adapter(fmt.Sprint("b", i), "/b"))
	}
	want := []string{"a"}
	for _, m := range many {
		want = append(want, m.ID)
	}
	require.Empty(t, f.repointed(many[1:]))
	require.Empty(t, f.repointed(many[1:]), "as many as may be")
	got := f.repointed([]vllm.Model{many[0], adapter("c", "/c")})
	slices.Sort(got)
	want = slices.Delete(want, 1, 2)
	slices.Sort(want)
	require.Equal(t, want, got, "all that are not loaded")
	require.Len(t, f.roots, 2)
}
