package mesh

import (
	"fmt"

	"github.com/kvmesh/kvmesh/gateway"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// Config is a whole deployment in one file. A single service's binary reads the same file and takes its own section.
type Config struct {
	Log    obs.LogConfig
	Memory obs.MemoryConfig
	Trace  obs.TraceConfig
	// Bus is NATS; the url "embedded" runs it inside this process.
	Bus bus.Config
	// NATS is the embedded server.
	NATS      embed.Config
	Gateway   Hosted[gateway.Config]
	Template  Hosted[templatesvc.Config]
	Tokenizer Hosted[tokenizersvc.Config]
	Scheduler Hosted[schedulersvc.Config]
	// Mesh is what only the all-in-one process has.
	Mesh Process
}

// Hosted is a service's section: its own keys, and the servers that a binary of its own would have.
type Hosted[C any] struct {
	Server rpc.ServerConfig `yaml:"server" doc:"gRPC server; mem://name stays inside the process"`
	// Admin is used by the service's own binary alone: a mesh has one admin port for all.
	Admin obs.AdminConfig `yaml:"admin" doc:"admin server of the service's own binary"`
	Own   C               `yaml:",inline"`
}

// Process is the section "mesh".
type Process struct {
	Admin obs.AdminConfig `yaml:"admin" doc:"health, readiness, metrics and profiles of the process"`
	// Models are shared by template and tokenizer service; an entry in a service's own list wins.
	Models    []Model          `yaml:"models" doc:"models by name with their folders, for template and tokenizer service alike"`
	Workers   []Worker         `yaml:"workers" doc:"one adapter per vLLM process"`
	Simulated []Simulated      `yaml:"simulated" doc:"simulated vLLM workers, for development"`
	Client    rpc.ClientConfig `yaml:"client" doc:"gRPC connections between services"`
}

// Model is a model's name and folder.
type Model struct {
	Name string `yaml:"name" doc:"model id as the workers serve it"`
	Path string `yaml:"path" doc:"model folder in Hugging Face layout, or a cache folder"`
}

// Worker is one vLLM process with its adapter.
type Worker struct {
	workeradapter.Config `yaml:",inline"`
	// Server is the adapter's gRPC server.
	Server rpc.ServerConfig `yaml:"server" doc:"the adapter's gRPC server"`
}

// Simulated is one simulated vLLM worker. It gets an adapter unless workers names one of the same id.
type Simulated struct {
	ID              string `yaml:"id" doc:"id of the worker"`
	fakevllm.Config `yaml:",inline"`
}

// Load reads a deployment's file with the environment and overrides over it.
func Load(src conf.Source) (Config, error) {
	var cfg Config
	cfg.Bus.URL = bus.Embedded // before the section's own default, which is a server elsewhere
	src.Ignore = append(src.Ignore, "adapter", "fakevllm")
	if err := conf.LoadSections(src, cfg.Sections()...); err != nil {
		return cfg, err
	}
	cfg.SetDefaults()
	return cfg, conf.Blame(src, cfg.Validate())
}

// Sections are the top-level keys of the file. Defaults and checks run over the whole in Load, since sections depend
// on one another.
func (c *Config) Sections() []conf.Section {
	return []conf.Section{
		{Key: "log", Into: &c.Log},
		{Key: "memory", Into: &c.Memory},
		{Key: "trace", Into: &c.Trace},
		{Key: "bus", Into: &c.Bus},
		{Key: "nats", Into: &c.NATS},
		{Key: "gateway", Into: &c.Gateway},
		{Key: "template", Into: &c.Template},
		{Key: "tokenizer", Into: &c.Tokenizer},
		{Key: "scheduler", Into: &c.Scheduler},
		{Key: "mesh", Into: &c.Mesh},
	}
}

// SetDefaults fills what is empty.
func (c *Config) SetDefaults() {
	c.Log.SetDefaults()
	c.Memory.SetDefaults()
	c.Trace.SetDefaults()
	conf.Default(&c.Bus.URL, bus.Embedded)
	c.Bus.SetDefaults()
	c.NATS.SetDefaults()
	c.Mesh.Admin.SetDefaults()
	c.Mesh.Client.SetDefaults()
	c.Gateway.Own.SetDefaults()
	c.Template.Own.SetDefaults()
	c.Tokenizer.Own.SetDefaults()
	c.Scheduler.Own.SetDefaults()
	conf.Default(&c.Gateway.Server.Address, "tcp://127.0.0.1:8081")
	conf.Default(&c.Template.Server.Address, "mem://template")
	conf.Default(&c.Tokenizer.Server.Address, "mem://tokenizer")
	conf.Default(&c.Scheduler.Server.Address, "mem://scheduler")
	for _, s := range c.servers() {
		s.config.SetDefaults()
	}
	for i := range c.Mesh.Simulated {
		conf.Default(&c.Mesh.Simulated[i].ID, fmt.Sprintf("sim-%d", i))
		c.Mesh.Simulated[i].Config.SetDefaults()
	}
	c.spread()
	for i := range c.Mesh.Workers {
		c.Mesh.Workers[i].setDefaults(i)
	}
}

func (w *Worker) setDefaults(i int) {
	conf.Default(&w.ID, fmt.Sprintf("worker-%d", i))
	conf.Default(&w.Server.Address, "mem://"+w.ID)
	w.Server.SetDefaults()
	conf.Default(&w.Advertise, w.Server.Address)
	if w.URL != "" {
		w.Config.SetDefaults()
	}
}

// namedServer is a gRPC server's configuration and its section.
type namedServer struct {
	section string
	config  *rpc.ServerConfig
}

func (c *Config) servers() []namedServer {
	return []namedServer{
		{"gateway", &c.Gateway.Server},
		{"template", &c.Template.Server},
		{"tokenizer", &c.Tokenizer.Server},
		{"scheduler", &c.Scheduler.Server},
	}
}

// spread gives shared settings to those that read them: models to template and tokenizer service, an adapter to each
// simulated worker.
func (c *Config) spread() {
	for _, m := range c.Mesh.Models {
		if !contains(c.Template.Own.Models, func(t templatesvc.ModelConfig) bool { return t.Name == m.Name }) {
			t := templatesvc.ModelConfig{Name: m.Name, Path: m.Path, ContentFormat: "auto"}
			c.Template.Own.Models = append(c.Template.Own.Models, t)
		}
		if !contains(c.Tokenizer.Own.Models, func(t tokenizersvc.ModelConfig) bool { return t.Name == m.Name }) {
			t := tokenizersvc.ModelConfig{Name: m.Name, Path: m.Path}
			c.Tokenizer.Own.Models = append(c.Tokenizer.Own.Models, t)
		}
	}
	for _, s := range c.Mesh.Simulated {
		if c.worker(s.ID) == nil {
			c.Mesh.Workers = append(c.Mesh.Workers, Worker{Config: workeradapter.Config{ID: s.ID}})
		}
	}
}

func contains[T any](list []T, match func(T) bool) bool {
	for _, one := range list {
		if match(one) {
			return true
		}
	}
	return false
}

func (c *Config) worker(id string) *Worker {
	for i := range c.Mesh.Workers {
		if c.Mesh.Workers[i].ID == id {
			return &c.Mesh.Workers[i]
		}
	}
	return nil
}

// IsSimulated reports whether a worker of this id is a simulated one of this process.
func (c *Config) IsSimulated(id string) bool {
	return contains(c.Mesh.Simulated, func(s Simulated) bool { return s.ID == id })
}

// Validate reports every fault at once, each with its path.
func (c *Config) Validate() error {
	var f conf.Faults
	f.Under("log", c.Log.Validate())
	f.Under("memory", c.Memory.Validate())
	f.Under("trace", c.Trace.Validate())
	f.Under("bus", c.Bus.Validate())
	f.Under("nats", c.NATS.Validate())
	f.Under("gateway", c.Gateway.Own.Validate())
	f.Under("template", c.Template.Own.Validate())
	f.Under("tokenizer", c.Tokenizer.Own.Validate())
	f.Under("scheduler", c.Scheduler.Own.Validate())
	for _, s := range c.servers() {
		f.Under(s.section+".server", s.config.Validate())
	}
	f.Under("mesh", c.Mesh.validate(c))
	return f.Err()
}

func (p *Process) validate(c *Config) error {
	var f conf.Faults
	f.Under("admin", p.Admin.Validate())
	ids := map[string]bool{}
	for i, w := range p.Workers {
		at := fmt.Sprintf("workers[%d]", i)
		f.Require(!ids[w.ID], at+".id", "%q is there twice", w.ID)
		ids[w.ID] = true
		if w.URL == "" {
			f.Require(c.IsSimulated(w.ID), at+".url", "must name the worker's address, such as http://127.0.0.1:8000")
			continue
		}
		f.Under(at, w.Config.Validate())
	}
	for i := range p.Simulated {
		f.Under(fmt.Sprintf("simulated[%d]", i), p.Simulated[i].Config.Validate())
	}
	return f.Err()
}
