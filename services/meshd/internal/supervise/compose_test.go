package supervise

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// composeFile loads deploy/compose/compose.yaml as docker compose does, with a profile.
func composeFile(t *testing.T, profile string) *types.Project {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "deploy", "compose", "compose.yaml"))
	require.NoError(t, err)
	options, err := cli.NewProjectOptions([]string{path}, cli.WithProfiles([]string{profile}))
	require.NoError(t, err)
	project, err := options.LoadProject(t.Context())
	require.NoError(t, err)
	return project
}

// names gives the variables of an environment, without values.
func names(env []string) map[string]bool {
	out := map[string]bool{}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		out[name] = true
	}
	return out
}

// binary is the Go command that a compose service's image is built from.
func binary(s types.ServiceConfig) string {
	if s.Build == nil {
		return "nats-server"
	}
	return *s.Build.Args["SVC"]
}

// TestTableIsTheComposeFile checks that `kvmesh up --mesh` runs the processes that the compose file names, with its
// configuration file, its variables and its order of start. Values differ: there hosts, here ports of one machine.
func TestTableIsTheComposeFile(t *testing.T) {
	t.Parallel()
	project := composeFile(t, "simulated")
	rows := Table(DefaultPorts(workers), "/etc/kvmesh/mesh.yaml", "/data")
	require.Len(t, rows, len(project.Services))
	for _, row := range rows {
		service, err := project.GetService(row.Name)
		require.NoError(t, err, "the compose file has no service %q", row.Name)
		require.Equal(t, binary(service), row.Command[0], row.Name)
		if row.Name == "nats" {
			require.Contains(t, service.Command, "-js")
			continue
		}
		require.Equal(t, []string(service.Command), row.Command[1:], row.Name)
		check := append([]string{"CMD", "/usr/local/bin/service", "health"}, row.Command[1:]...)
		require.Equal(t, check, []string(service.HealthCheck.Test), "%s: its health check is its own subcommand", row.Name)
		here := names(row.Env)
		for name := range service.Environment {
			inherited := name == "MODEL_NAME" || name == "MODEL_PATH" // from the user's own environment here
			require.True(t, inherited || here[name], "%s: the compose file sets %s, the table does not", row.Name, name)
		}
		for dependency := range service.DependsOn {
			require.True(t, slices.Contains(row.Needs, dependency), "%s must need %s", row.Name, dependency)
		}
	}
}

// TestRealWorkersGetTheirFlags checks the profile with real vLLM: the flags without which kvmesh is blind, one adapter
// each, and no simulated worker beside them.
func TestRealWorkersGetTheirFlags(t *testing.T) {
	t.Parallel()
	project := composeFile(t, "vllm")
	for _, name := range []string{"gpu-0", "gpu-1"} {
		service, err := project.GetService(name)
		require.NoError(t, err)
		flags := strings.Join(service.Command, " ")
		for _, want := range []string{
			"--enable-prefix-caching", "--enable-prompt-tokens-details", `"endpoint":"tcp://*:5557"`,
			`"replay_endpoint":"tcp://*:5558"`, `"enable_kv_cache_events":true`,
		} {
			require.Contains(t, flags, want)
		}
		adapter, err := project.GetService("adapter-" + name)
		require.NoError(t, err)
		require.Equal(t, "http://"+name+":8000", *adapter.Environment["WORKER_URL"])
	}
	_, err := project.GetService("vllm-0")
	require.Error(t, err, "simulated workers do not run beside real ones")
}

// TestEveryVariableIsInTheMeshFile checks that the table sets only variables that deploy/config/mesh.yaml reads.
func TestEveryVariableIsInTheMeshFile(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "deploy", "config", "mesh.yaml"))
	require.NoError(t, err)
	for _, row := range Table(DefaultPorts(workers), "mesh.yaml", "/data") {
		for name := range names(row.Env) {
			require.Contains(t, string(raw), "${"+name+":-", "%s sets %s", row.Name, name)
		}
	}
}
