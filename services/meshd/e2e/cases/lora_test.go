package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/gateway"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

const base = "kvmesh/demo"

// loraMesh is a mesh of two simulated workers whose gateway loads adapters on demand.
func loraMesh(t *testing.T, change func(*mesh.Config)) (m *mesh.Mesh, url string) {
	t.Helper()
	repo, err := repository()
	require.NoError(t, err)
	var cfg mesh.Config
	cfg.Mesh.Models = []mesh.Model{{Name: base, Path: filepath.Join(repo, "deploy", "demo-model")}}
	for _, id := range []string{"sim-0", "sim-1"} {
		cfg.Mesh.Simulated = append(cfg.Mesh.Simulated, mesh.Simulated{ID: id, Config: fakevllm.Config{
			Model: base, VocabSize: 8000, NumGPUBlocks: 256, Speedup: 20,
		}})
		cfg.Mesh.Workers = append(cfg.Mesh.Workers, mesh.Worker{Config: workeradapter.Config{
			ID: id, Events: workeradapter.Events{Mode: workeradapter.EventsOff}, PollIdle: refresh, PollBusy: refresh,
		}})
	}
	cfg.Gateway.Own = gateway.Config{Address: "127.0.0.1:0", FleetRefresh: refresh, Quiet: true}
	cfg.Gateway.Own.LoRA = gateway.LoRAConfig{Path: "/adapters/{name}", Base: base, MaxPerWorker: 1}
	cfg.Gateway.Server.Address = "mem://gateway"
	change(&cfg)
	m, err = mesh.New(cfg, mesh.Deps{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	require.NoError(t, m.Start(ctx))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		require.NoError(t, m.Stop(ctx))
	})
	return m, m.URL(t.Context())
}

// say asks an adapter and returns the status and the answer.
func say(url, model string) (int, string) {
	body := `{"model":"` + model + `","messages":[{"role":"user","content":"Which berth?"}],"max_tokens":2}`
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}

// parents is what a server lists, by id.
func parents(t *testing.T, url string) map[string]string {
	t.Helper()
	var list struct {
		Data []struct{ ID, Parent string }
	}
	resp, err := http.Get(url + "/v1/models")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&list))
	out := map[string]string{}
	for _, m := range list.Data {
		out[m.ID] = m.Parent
	}
	return out
}

// TestAdaptersOnDemand: the first requests for an adapter load it once, at one worker; it is listed with its parent; a
// second goes to the other worker; a third finds both full; what does not exist is 404, and so is a way out of the folder.
func TestAdaptersOnDemand(t *testing.T) {
	m, url := loraMesh(t, func(*mesh.Config) {})
	var wg sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		wg.Go(func() { _, answers[i] = say(url, "harbour") })
	}
	wg.Wait()
	for _, answer := range answers {
		require.Contains(t, answer, `"model":"harbour"`)
	}
	require.Equal(t, map[string]string{base: "", "harbour": base}, parents(t, url))
	has := func(name string) (n int) {
		for _, id := range []string{"sim-0", "sim-1"} {
			if _, ok := parents(t, m.WorkerURL(id))[name]; ok {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, has("harbour"), "loaded at one worker")
	status, answer := say(url, "no-such-adapter")
	require.Equal(t, http.StatusNotFound, status, answer)
	require.Contains(t, answer, `"code":"model_not_found"`)
	for _, out := range []string{"../etc", "a/../../b", "a..b", ".hidden", "a b"} {
		status, answer = say(url, out)
		require.Equal(t, http.StatusNotFound, status, answer)
	}
	status, answer = say(url, "pilot")
	require.Equal(t, http.StatusOK, status, answer)
	require.Equal(t, 1, has("pilot"))
	status, answer = say(url, "third")
	require.Equal(t, http.StatusTooManyRequests, status, answer)
}

// TestAdaptersNeedTheWorkersLeave: the error says what to start vLLM with.
func TestAdaptersNeedTheWorkersLeave(t *testing.T) {
	_, url := loraMesh(t, func(c *mesh.Config) {
		for i := range c.Mesh.Simulated {
			c.Mesh.Simulated[i].DisableRuntimeLoRA = true
		}
	})
	status, answer := say(url, "harbour")
	require.Equal(t, http.StatusNotFound, status, answer)
	require.Contains(t, answer, "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1")
}

// TestALoadThatPointsElsewhere: a name that kvmesh loads again from another path than before has none of its old blocks in
// the first decision for it: vLLM's hashes have the path, its events only the name.
func TestALoadThatPointsElsewhere(t *testing.T) {
	names := []string{"harbour", "pilot", "quay"}
	m, url := loraMesh(t, func(c *mesh.Config) {
		sim := &c.Mesh.Simulated[0]
		sim.MaxLoRAs = len(names)
		sim.KVEvents = fakevllm.KVEvents{Enable: true, Endpoint: "tcp://*:0", ReplayEndpoint: "tcp://*:0"}
		for _, name := range names {
			sim.LoRAs = append(sim.LoRAs, fakevllm.LoRA{Name: name, Path: "/elsewhere/" + name})
		}
		c.Mesh.Simulated = c.Mesh.Simulated[:1]
		worker := workeradapter.Config{ID: sim.ID, Parity: workeradapter.Parity{Disabled: true}}
		c.Mesh.Workers = append(c.Mesh.Workers[:0], mesh.Worker{Config: worker})
		c.Gateway.Own.LoRA.MaxPerWorker = len(names)
	})
	ctx, cancel := context.WithTimeout(t.Context(), stepLimit)
	defer cancel()
	for _, name := range names {
		require.NoError(t, eventually(ctx, func() error {
			if got := converse(ctx, url, name, "harbour", false); got.predicted == 0 || got.predicted != got.cached {
				return fmt.Errorf("predicted %d, cached %d, status %d: %s", got.predicted, got.cached, got.status, got.answer)
			}
			return nil
		}))
		resp, err := http.Post(m.WorkerURL("sim-0")+"/v1/unload_lora_adapter", "application/json",
			strings.NewReader(`{"lora_name":"`+name+`"}`))
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, eventually(ctx, func() error {
			if _, listed := parents(t, url)[name]; listed {
				return fmt.Errorf("%s is still listed", name)
			}
			return nil
		}))
		first := converse(ctx, url, name, "harbour", false)
		require.Equal(t, http.StatusOK, first.status, first.answer)
		require.Zero(t, first.cached, "the worker has nothing of the new path")
		require.Zero(t, first.predicted)
	}
}
