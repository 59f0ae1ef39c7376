package kit_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/kvmesh/kvmesh/services/kit"

// goList returns the lines of go list with the given arguments.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	require.NoError(t, err, "go list %s", strings.Join(args, " "))
	return strings.Fields(string(out))
}

// TestLayering: what services link stays free of the NATS server, of test helpers and of other modules of kvmesh.
func TestLayering(t *testing.T) {
	t.Parallel()
	for _, pkg := range goList(t, "./...") {
		if pkg == module+"/kittest" || pkg == module+"/bus/embed" {
			continue
		}
		t.Run(strings.TrimPrefix(pkg, module), func(t *testing.T) {
			t.Parallel()
			for _, dep := range goList(t, "-deps", pkg) {
				require.NotContains(t, dep, "nats-server")
				require.NotContains(t, dep, "stretchr/testify")
				require.NotEqual(t, "testing", dep)
				if rest, ours := strings.CutPrefix(dep, "github.com/kvmesh/kvmesh/"); ours {
					require.Regexp(t, `^(proto|services/kit)(/|$)`, rest)
					require.NotEqual(t, module+"/kittest", dep)
				}
			}
		})
	}
}

// TestNoCgo: pure services build without a C compiler, so the kit must.
func TestNoCgo(t *testing.T) {
	t.Parallel()
	for _, line := range goList(t, "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}", "./...") {
		require.Empty(t, line, "uses cgo")
	}
}
