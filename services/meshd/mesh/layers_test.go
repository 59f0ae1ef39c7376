package mesh

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// prefix is the path of every module of the project.
const prefix = "github.com/kvmesh/kvmesh/"

// services are the five that must not know one another.
func services() []string {
	return []string{"gateway", "tokenizer-svc", "template-svc", "scheduler-svc", "worker-adapter"}
}

// root is the checkout's folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.work"), "the test runs in the checkout")
	return dir
}

// list runs go list in a folder of the checkout.
func list(t *testing.T, dir string, env []string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = filepath.Join(root(t), dir)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go list in %s: %s", dir, stderr.String())
	return strings.Fields(string(out))
}

// TestServicesMeetInProto checks that no service imports another and that the kit imports none.
func TestServicesMeetInProto(t *testing.T) {
	t.Parallel()
	for _, from := range append(services(), "services/kit") {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			deps := list(t, from, nil, "-deps", "-test", "./...")
			for _, other := range services() {
				if other == from {
					continue
				}
				for _, dep := range deps {
					require.False(t, strings.HasPrefix(dep, prefix+other), "%s imports %s", from, dep)
				}
			}
		})
	}
}

// TestPureServicesLinkNeitherCNorServer checks what the binaries of the four pure services link: no cgo, no
// nats-server (embedding it is meshd's part), no tokenizer.
func TestPureServicesLinkNeitherCNorServer(t *testing.T) {
	t.Parallel()
	for _, service := range services() {
		if service == "tokenizer-svc" {
			continue
		}
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			// With cgo off, go list leaves out what would have to be found here.
			cgo := []string{"CGO_ENABLED=1"}
			uses := "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}"
			require.Empty(t, list(t, service, cgo, "-deps", "-f", uses, "./cmd/..."), "linked with C code")
			deps := list(t, service, cgo, "-deps", "./cmd/...")
			require.NotEmpty(t, deps)
			for _, dep := range deps {
				require.NotContains(t, dep, "nats-server")
				require.NotContains(t, dep, "daulet/tokenizers")
			}
		})
	}
}

// TestKitLinksNoServer checks that only the embedding package of the kit, and tests, reach nats-server.
func TestKitLinksNoServer(t *testing.T) {
	t.Parallel()
	for _, pkg := range list(t, "services/kit", nil, "./...") {
		if strings.HasSuffix(pkg, "/bus/embed") || strings.HasSuffix(pkg, "/kittest") {
			continue
		}
		for _, dep := range list(t, "services/kit", nil, "-deps", pkg) {
			require.NotContains(t, dep, "nats-server", "%s must not link nats-server", pkg)
		}
	}
}
