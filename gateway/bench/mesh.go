package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// binariesVariable is a folder with the project's binaries. With it two more arms run: the whole mesh as one process, and
// as one process per service over TCP with a NATS server. In both, prompts are rendered, tokenised, hashed and routed,
// and the worker's adapter and the event plane run.
const binariesVariable = "KVMESH_BIN"

// earlierVariable is a folder with binaries of an earlier state. With it that state's all-in-one process runs beside the
// present one, so that a change is judged within one run.
const earlierVariable = "KVMESH_BENCH_EARLIER"

// site is where a mesh lives: free addresses, the worker it serves, and a folder for its files.
type site struct {
	bin, dir, model string
	worker          target
	ports           map[string]string
}

// target is the mock worker: where it answers and where it publishes.
type target struct{ addr, events string }

func newSite(bin, dir string, worker target) (*site, error) {
	model, err := filepath.Abs(filepath.Join("..", "..", "deploy", "demo-model"))
	if err != nil {
		return nil, err
	}
	s := &site{bin: bin, dir: dir, model: model, worker: worker, ports: map[string]string{}}
	names := []string{"rest", "admin", "nats"}
	for _, service := range []string{"gateway", "template", "tokenizer", "scheduler", "adapter"} {
		names = append(names, service, service+".admin")
	}
	var held []net.Listener // all at once, so that no two are the same
	defer func() {
		for _, ln := range held {
			_ = ln.Close()
		}
	}()
	for _, name := range names {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		held = append(held, ln)
		s.ports[name] = ln.Addr().String()
	}
	return s, nil
}

// write stores a configuration and opens the log of the processes that read it.
func (s *site) write(config string) (path string, log *os.File, err error) {
	path = filepath.Join(s.dir, "mesh.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	log, err = os.Create(filepath.Join(s.dir, "mesh.log"))
	return path, log, err
}

// whole starts the all-in-one process.
func (s *site) whole(name string) (*arm, error) {
	path, log, err := s.write(fmt.Sprintf(`bus: {url: embedded}
gateway: {address: %q, server: {address: "mem://gateway"}}
scheduler: {worker: {max_inflight: 100000}}
mesh:
  admin: {address: "tcp://%s"}
  models: [{name: bench, path: %q}]
  workers: [{id: w0, url: "http://%s", events: {mode: connect, endpoint: "tcp://%s"}}]
`, s.ports["rest"], s.ports["admin"], s.model, s.worker.addr, s.worker.events))
	if err != nil {
		return nil, err
	}
	a := &arm{name: name, told: true, addr: s.ports["rest"], admin: s.ports["admin"]}
	return a, s.bring(a, log, []command{{ready: s.ports["admin"] + "/readyz", args: []string{"kvmesh", "up", "--config", path}}})
}

// sections is the configuration of the services as processes of their own.
func (s *site) sections() string {
	var b strings.Builder
	fmt.Fprintf(&b, "bus: {url: \"nats://%s\"}\n", s.ports["nats"])
	for _, service := range []string{"gateway", "template", "tokenizer", "scheduler", "adapter"} {
		fmt.Fprintf(&b, "%s:\n  server: {address: \"tcp://%s\"}\n  admin: {address: \"tcp://%s\"}\n",
			service, s.ports[service], s.ports[service+".admin"])
		switch service {
		case "gateway":
			fmt.Fprintf(&b, "  address: %q\n  services: {template: \"tcp://%s\", tokenizer: \"tcp://%s\", scheduler: \"tcp://%s\"}\n",
				s.ports["rest"], s.ports["template"], s.ports["tokenizer"], s.ports["scheduler"])
		case "scheduler":
			b.WriteString("  worker: {max_inflight: 100000}\n")
		case "adapter":
			fmt.Fprintf(&b, "  id: w0\n  url: \"http://%s\"\n  advertise: \"tcp://%s\"\n  events: {mode: connect, endpoint: \"tcp://%s\"}\n",
				s.worker.addr, s.ports["adapter"], s.worker.events)
		default:
			fmt.Fprintf(&b, "  models: [{name: bench, path: %q}]\n", s.model)
		}
	}
	return b.String()
}

// oracle starts a template and a tokenizer service for the mock worker and returns their addresses.
func (s *site) oracle() (*arm, string, error) {
	path, log, err := s.write(s.sections())
	if err != nil {
		return nil, "", err
	}
	a := &arm{name: "oracle"}
	return a, s.ports["template"] + " " + s.ports["tokenizer"], s.bring(a, log, []command{
		{ready: s.ports["template.admin"] + "/readyz", args: []string{"template-svc", "--config", path}},
		{ready: s.ports["tokenizer.admin"] + "/readyz", args: []string{"tokenizer-svc", "--config", path}},
	})
}

// apart starts one process per service.
func (s *site) apart() (*arm, error) {
	path, log, err := s.write(s.sections())
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(s.ports["nats"])
	commands := []command{{args: []string{"nats-server", "-a", host, "-p", port, "-js", "-sd", s.dir}}}
	for _, c := range [][2]string{
		{"template-svc", "template"},
		{"tokenizer-svc", "tokenizer"},
		{"scheduler-svc", "scheduler"},
		{"worker-adapter", "adapter"},
		{"gateway", "gateway"},
	} {
		commands = append(commands, command{ready: s.ports[c[1]+".admin"] + "/readyz", args: []string{c[0], "--config", path}})
	}
	a := &arm{name: "processes", told: true, addr: s.ports["rest"]}
	return a, s.bring(a, log, commands)
}

// command is one process of a mesh and where it says that it is ready.
type command struct {
	args  []string
	ready string
}

// bring starts the commands and waits until each is ready.
func (s *site) bring(a *arm, log *os.File, commands []command) error {
	defer log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range commands {
		p, err := launch(log, filepath.Join(s.bin, c.args[0]), c.args[1:]...)
		if err != nil {
			return fmt.Errorf("start %s: %w", c.args[0], err)
		}
		a.procs = append(a.procs, p)
	}
	for _, c := range commands {
		if c.ready == "" {
			continue
		}
		if err := waitReady(ctx, "http://"+c.ready); err != nil {
			a.stop()
			said, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%w: %s", err, said)
		}
	}
	return nil
}
