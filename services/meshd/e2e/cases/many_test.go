package cases

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/kvmesh/kvmesh/gateway"
	"github.com/kvmesh/kvmesh/gateway/casetest"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
	"github.com/kvmesh/kvmesh/services/meshd/internal/supervise"
	"github.com/kvmesh/kvmesh/services/meshd/mesh"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
)

// many plays cases at meshes of separate processes over TCP. Its lanes each have a NATS server, a template, a tokenizer
// and a scheduler process that stay; a case brings an adapter process for each of its workers and a gateway process.
type many struct {
	repo   string
	bin    string
	dir    string
	models []string
	ports  *ports
	free   chan *lane
	log    *os.File
	number struct {
		sync.Mutex
		n int
	}
	all []*lane
}

// lane is the processes that stay.
type lane struct {
	set                                *supervise.Set
	nats, template, tokenizer, schedul int
}

// startMany starts the lanes.
func startMany(ctx context.Context, m *many, lanes int) error {
	m.free = make(chan *lane, lanes)
	var err error
	if m.log, err = os.Create(filepath.Join(m.dir, "processes.log")); err != nil {
		return err
	}
	for i := range lanes {
		l, err := m.lane(ctx, i)
		if l != nil {
			m.all = append(m.all, l)
		}
		if err != nil {
			return err
		}
		m.free <- l
	}
	return nil
}

// stop ends the lanes.
func (m *many) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	var errs []error
	for _, l := range m.all {
		errs = append(errs, l.set.Stop(ctx))
	}
	return errors.Join(append(errs, m.log.Close())...)
}

// lastLines is the end of what the processes said.
func (m *many) lastLines() string {
	text, _ := os.ReadFile(m.log.Name())
	return string(text[max(0, len(text)-4000):])
}

func (m *many) lane(ctx context.Context, i int) (*lane, error) {
	p, err := m.ports.some(7)
	if err != nil {
		return nil, err
	}
	l := &lane{nats: p[0], template: p[1], tokenizer: p[2], schedul: p[3]}
	folder := filepath.Join(m.repo, "deploy", "demo-model")
	file, err := m.write(fmt.Sprintf("lane-%d", i), map[string]any{
		"bus":       map[string]string{"url": l.natsURL()},
		"template":  mesh.Hosted[templatesvc.Config]{Own: m.templates(folder), Server: on(p[1]), Admin: admin(p[4])},
		"tokenizer": mesh.Hosted[tokenizersvc.Config]{Own: m.tokenizers(folder), Server: on(p[2]), Admin: admin(p[5])},
		"scheduler": mesh.Hosted[schedulersvc.Config]{Server: on(p[3]), Admin: admin(p[6])},
	})
	if err != nil {
		return nil, err
	}
	store := filepath.Join(m.dir, fmt.Sprintf("nats-%d", i))
	l.set = supervise.New(m.bin, []supervise.Process{
		{
			Name: "nats", Ready: local(l.nats),
			Command: []string{"nats-server", "-a", "127.0.0.1", "-p", strconv.Itoa(l.nats), "-js", "-sd", store},
		},
		row("template-svc", file, p[4]), row("tokenizer-svc", file, p[5]), row("scheduler-svc", file, p[6]),
	}, m.log)
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return l, l.set.Start(ctx)
}

func (l *lane) natsURL() string { return "nats://" + local(l.nats) }

func row(binary, file string, adminPort int) supervise.Process {
	return supervise.Process{Name: binary, Command: []string{binary, "--config", file}, Ready: tcp(adminPort)}
}

func on(port int) rpc.ServerConfig { return rpc.ServerConfig{Address: tcp(port)} }

func admin(port int) obs.AdminConfig { return obs.AdminConfig{Address: tcp(port)} }

func (m *many) templates(folder string) templatesvc.Config {
	var c templatesvc.Config
	for _, name := range m.models {
		c.Models = append(c.Models, templatesvc.ModelConfig{Name: name, Path: folder, ContentFormat: "auto"})
	}
	return c
}

func (m *many) tokenizers(folder string) tokenizersvc.Config {
	var c tokenizersvc.Config
	for _, name := range m.models {
		c.Models = append(c.Models, tokenizersvc.ModelConfig{Name: name, Path: folder})
	}
	return c
}

// write makes a configuration file of sections. What stands at its zero value is left to the defaults.
func (m *many) write(name string, sections map[string]any) (string, error) {
	var n yaml.Node
	if err := n.Encode(sections); err != nil {
		return "", err
	}
	prune(&n)
	text, err := yaml.Marshal(&n)
	if err != nil {
		return "", err
	}
	path := filepath.Join(m.dir, name+".yaml")
	return path, os.WriteFile(path, text, 0o600)
}

// prune drops empty values.
func prune(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.MappingNode:
		kept := n.Content[:0]
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !prune(n.Content[i+1]) {
				kept = append(kept, n.Content[i], n.Content[i+1])
			}
		}
		n.Content = kept
		return len(kept) == 0
	case yaml.SequenceNode:
		for _, item := range n.Content {
			prune(item)
		}
		return len(n.Content) == 0
	case yaml.ScalarNode:
		return n.Value == "" || n.Value == "0" || n.Value == "0s" || n.Value == "false" || n.Value == "null"
	}
	return false
}

// door is many with or without the gateway's gRPC server in the way.
type manyDoor struct {
	*many
	grpc bool
}

// Open takes a lane and starts the case's own processes at it, all at once.
func (m manyDoor) Open(ctx context.Context, s casetest.Setup, f *casetest.Fleet) (t *casetest.Target, err error) {
	var l *lane
	select {
	case l = <-m.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var ends ends
	ends.add(func() { m.free <- l })
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; last lines of the processes:\n%s", err, m.lastLines())
			ends.run()
		}
	}()
	p, err := m.ports.some(3)
	if err != nil {
		return nil, err
	}
	gw := gatewayConfig(s)
	gw.Address = local(p[0])
	gw.Services = gateway.ServiceAddresses{Template: tcp(l.template), Tokenizer: tcp(l.tokenizer), Scheduler: tcp(l.schedul)}
	if err := m.hooks(ctx, s, l, &gw, &ends); err != nil {
		return nil, err
	}
	rows, err := m.rows(l, f, gw, p)
	if err != nil {
		return nil, err
	}
	if err := m.startAll(ctx, rows, &ends); err != nil {
		return nil, err
	}
	d := &door{rest: "http://" + gw.Address}
	if len(s.APIKeys) > 0 {
		d.key = s.APIKeys[0]
	}
	if s.RequestsPerMinute == 0 {
		if err := d.settled(ctx, present(f)); err != nil {
			return nil, err
		}
	}
	t = &casetest.Target{BaseURL: d.rest, Config: gw, Stop: ends.run}
	t.Inflight = func() int { return scraped(local(p[2]), "kvmesh_gateway_inflight_requests") + d.reserved() }
	if m.grpc {
		return casetest.Cross(ctx, t, local(p[1]))
	}
	return t, nil
}

// rows are the gateway's process and the adapters'.
func (m manyDoor) rows(l *lane, f *casetest.Fleet, gw gateway.Config, p []int) ([]supervise.Process, error) {
	m.number.Lock()
	m.number.n++
	name := fmt.Sprintf("case-%d", m.number.n)
	m.number.Unlock()
	file, err := m.write(name, map[string]any{
		"gateway": mesh.Hosted[gateway.Config]{Own: gw, Server: on(p[1]), Admin: admin(p[2])},
	})
	if err != nil {
		return nil, err
	}
	rows := []supervise.Process{row("gateway", file, p[2])}
	if len(present(f)) == 0 {
		rows[0].Ready = gw.Address // without workers it listens and is not ready
	}
	for i, w := range present(f) {
		q, err := m.ports.some(2)
		if err != nil {
			return nil, err
		}
		c := adapterConfig(w)
		c.Advertise = tcp(q[0])
		file, err := m.write(fmt.Sprintf("%s-w%d", name, i), map[string]any{
			"bus":     map[string]string{"url": l.natsURL()},
			"adapter": mesh.Hosted[workeradapter.Config]{Own: c, Server: on(q[0]), Admin: admin(q[1])},
		})
		if err != nil {
			return nil, err
		}
		r := row("worker-adapter", file, q[1])
		r.Name = "adapter-" + w.Name
		rows = append(rows, r)
	}
	return rows, nil
}

// startAll starts processes side by side and has them stopped side by side.
func (m manyDoor) startAll(ctx context.Context, rows []supervise.Process, ends *ends) error {
	set := supervise.New(m.bin, rows, m.log)
	each := func(do func(name string) error) error {
		errs := make([]error, len(rows))
		var wg sync.WaitGroup
		for i := range rows {
			wg.Go(func() { errs[i] = do(rows[i].Name) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	ends.add(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		_ = each(func(name string) error { return set.StopOne(ctx, name) })
	})
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return each(func(name string) error { return set.StartOne(ctx, name) })
}

// hooks puts a slow, dead or other service in the place of the lane's.
func (m manyDoor) hooks(ctx context.Context, s casetest.Setup, l *lane, gw *gateway.Config, ends *ends) error {
	if s.ChatTemplate != "" {
		p, err := m.ports.some(2)
		if err != nil {
			return err
		}
		folder, release, err := modelFolder(m.repo, s)
		if err != nil {
			return err
		}
		ends.add(release)
		file, err := m.write(fmt.Sprintf("template-%d", p[0]), map[string]any{
			"template": mesh.Hosted[templatesvc.Config]{Own: m.templates(folder), Server: on(p[0]), Admin: admin(p[1])},
		})
		if err != nil {
			return err
		}
		if err := m.startAll(ctx, []supervise.Process{row("template-svc", file, p[1])}, ends); err != nil {
			return err
		}
		gw.Services.Template = tcp(p[0])
	}
	delay := func(ms int, down bool, behind int, address *string) error {
		switch {
		case down:
			port, err := m.ports.take()
			*address = tcp(port)
			return err
		case ms > 0:
			front, err := startSlow(local(behind), after(time.Duration(ms)*time.Millisecond))
			if err != nil {
				return err
			}
			ends.add(front.stop)
			*address = "tcp://" + front.addr
		}
		return nil
	}
	return errors.Join(delay(s.TokenizerDelayMS, s.TokenizerDown, l.tokenizer, &gw.Services.Tokenizer),
		delay(s.TemplateDelayMS, s.TemplateDown, l.template, &gw.Services.Template))
}

// scraped is the value of a metric at an admin address; 1 when it cannot be read.
func scraped(address, name string) int {
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 1
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Bytes(); bytes.HasPrefix(line, []byte(name)) {
			fields := strings.Fields(lines.Text())
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err == nil {
				return int(v)
			}
		}
	}
	return 0
}
