package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/kvmesh/kvmesh/gateway"
	"github.com/kvmesh/kvmesh/gateway/casetest"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
)

// repository is the checkout's root as seen from this package's folder.
func repository() (string, error) {
	dir, err := filepath.Abs(filepath.Join("..", "..", "..", ".."))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "go.work")); err != nil {
		return "", fmt.Errorf("the suite runs in the checkout: %w", err)
	}
	return dir, nil
}

// ports hands out addresses of this machine below the range from which the kernel takes those of ":0", so that no
// listener of a case can take one between its choice and its use.
type ports struct{ next atomic.Int32 }

const firstPort, lastPort = 21000, 31000

// take is a free port.
func (p *ports) take() (int, error) {
	for range lastPort - firstPort {
		port := firstPort + int(p.next.Add(1))%(lastPort-firstPort)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue
		}
		l.Close()
		return port, nil
	}
	return 0, fmt.Errorf("no port between %d and %d is free", firstPort, lastPort)
}

// some is n free ports.
func (p *ports) some(n int) ([]int, error) {
	out := make([]int, n)
	for i := range out {
		var err error
		if out[i], err = p.take(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func tcp(port int) string { return "tcp://" + local(port) }

// refresh is the gateway's look at the fleet: cases begin as soon as their workers are known.
const refresh = 20 * time.Millisecond

// lease and connect are what a busy machine may take for a worker's sign of life and for a connection: no case is about
// them.
const lease, connect = 30 * time.Second, 20 * time.Second

// gatewayConfig is a case's gateway.
func gatewayConfig(s casetest.Setup) gateway.Config {
	c := s.Config()
	c.FleetRefresh, c.Quiet, c.Worker.ConnectTimeout = refresh, true, connect
	return c
}

// adapterConfig is the adapter of a scripted worker, which sends no events and renders nothing that could be compared.
func adapterConfig(w *casetest.Worker) workeradapter.Config {
	c := workeradapter.Config{
		ID: w.Name, URL: w.URL, Events: workeradapter.Events{Mode: workeradapter.EventsOff}, DrainTimeout: refresh,
		Parity: workeradapter.Parity{Disabled: true},
	}
	c.SetDefaults()
	return c
}

// present are the workers that the mesh knows at the start of a case.
func present(f *casetest.Fleet) []*casetest.Worker {
	var out []*casetest.Worker
	for _, w := range f.Workers {
		if w.State != "gone" {
			out = append(out, w)
		}
	}
	return out
}

// models are the base models of a fleet.
func models(f *casetest.Fleet) []string {
	seen := map[string]bool{}
	var out []string
	for _, w := range f.Workers {
		for _, m := range w.Models {
			if !seen[m] {
				seen[m] = true
				out = append(out, m)
			}
		}
	}
	return out
}

// modelFolder is the demo model's folder, or a copy with the case's own chat template.
func modelFolder(repo string, s casetest.Setup) (dir string, release func(), err error) {
	demo := filepath.Join(repo, "deploy", "demo-model")
	if s.ChatTemplate == "" {
		return demo, func() {}, nil
	}
	dir, err = os.MkdirTemp("", "kvmesh-cases-")
	if err != nil {
		return "", nil, err
	}
	release = func() { os.RemoveAll(dir) }
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
		raw, err := os.ReadFile(filepath.Join(demo, name))
		if err != nil {
			release()
			return "", nil, err
		}
		if name == "tokenizer_config.json" {
			if raw, err = withTemplate(raw, s.ChatTemplate); err != nil {
				release()
				return "", nil, err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			release()
			return "", nil, err
		}
	}
	return dir, release, nil
}

// withTemplate puts a chat template into a tokenizer's configuration.
func withTemplate(raw []byte, template string) ([]byte, error) {
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		return nil, err
	}
	text, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	config["chat_template"] = text
	return json.Marshal(config)
}

// view is what a case's door reads of the mesh's list of workers.
type view struct {
	Workers []struct {
		Card struct {
			ID    string `json:"worker_id"`
			URL   string `json:"http_url"`
			State string `json:"state"`
		} `json:"card"`
		Inflight int `json:"inflight"`
	} `json:"workers"`
}

// door asks a running mesh what it knows.
type door struct {
	rest string
	key  string
}

func (d *door) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, d.rest+path, nil)
	if err != nil {
		return err
	}
	q.Close = true
	if d.key != "" {
		q.Header.Set("Authorization", "Bearer "+d.key)
	}
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", path, resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// settled waits until the mesh knows exactly the case's workers, all ready.
func (d *door) settled(ctx context.Context, want []*casetest.Worker) error {
	return eventually(ctx, func() error {
		var v view
		if err := d.get(ctx, "/kvmesh/v1/workers", &v); err != nil {
			return err
		}
		if len(v.Workers) != len(want) {
			return fmt.Errorf("the mesh knows %d workers, the case has %d", len(v.Workers), len(want))
		}
		urls := map[string]bool{}
		for _, w := range v.Workers {
			urls[w.Card.URL] = w.Card.State == "WORKER_STATE_READY"
		}
		for _, w := range want {
			if !urls[w.URL] {
				return fmt.Errorf("worker %s is not ready: %+v", w.Name, v.Workers)
			}
		}
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		if err := d.get(ctx, "/v1/models", &list); err != nil {
			return err
		}
		if len(want) > 0 && len(list.Data) == 0 {
			return fmt.Errorf("the gateway has no models yet")
		}
		listed := map[string]bool{}
		for _, m := range list.Data {
			listed[m.ID] = true
		}
		for _, w := range want {
			for _, m := range w.Models {
				if d.key == "" && !listed[m] { // a key may hide some
					return fmt.Errorf("the gateway has no model %s yet", m)
				}
			}
		}
		return nil
	})
}

// reserved is how many reservations are open.
func (d *door) reserved() int {
	var v view
	if err := d.get(context.Background(), "/kvmesh/v1/workers", &v); err != nil {
		return 1
	}
	n := 0
	for _, w := range v.Workers {
		n += w.Inflight
	}
	return n
}

// eventually polls until check is content, for at most ten seconds.
func eventually(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
