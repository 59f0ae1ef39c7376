package mesh

import (
	"fmt"
	"strings"

	"github.com/kvmesh/kvmesh/gateway"
	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/bus/embed"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// Config is a whole deployment in one file. A single service's binary reads the same file and takes its own section
// and the shared ones.
type Config struct {
	// Models are shared by the template and the tokenizer service; an entry in a service's own list wins.
	Models []Model `yaml:"models" doc:"models by name, with their folders; for template and tokenizer service alike"`
	// Servers are the gRPC addresses of the services.
	Servers Servers `yaml:"servers" doc:"gRPC servers of the services"`
	// Bus is NATS; the url "embedded" runs it inside this process.
	Bus bus.Config `yaml:"bus" doc:"NATS"`
	// NATS is the embedded server.
	NATS embed.Config `yaml:"nats" doc:"the embedded NATS server"`

	Gateway   gateway.Config      `yaml:"gateway" doc:"the REST and gRPC edge"`
	Template  templatesvc.Config  `yaml:"template" doc:"chat templates"`
	Tokenizer tokenizersvc.Config `yaml:"tokenizer" doc:"tokenizers"`
	Scheduler schedulersvc.Config `yaml:"scheduler" doc:"index, load and policy"`
	Workers   []Worker            `yaml:"workers" doc:"one adapter per vLLM process"`
	Simulated []Simulated         `yaml:"simulated" doc:"simulated vLLM workers, for development"`
	Client    rpc.ClientConfig    `yaml:"client" doc:"gRPC connections between services"`
}

// Model is a model's name and folder.
type Model struct {
	Name string `yaml:"name" doc:"model id as the workers serve it"`
	Path string `yaml:"path" doc:"model folder in Hugging Face layout, or a cache folder"`
}

// Servers are the gRPC servers; mem://name stays inside the process.
type Servers struct {
	Gateway   rpc.ServerConfig `yaml:"gateway" doc:"typed operations for gRPC callers"`
	Template  rpc.ServerConfig `yaml:"template" doc:"template service"`
	Tokenizer rpc.ServerConfig `yaml:"tokenizer" doc:"tokenizer service"`
	Scheduler rpc.ServerConfig `yaml:"scheduler" doc:"scheduler service"`
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

// SetDefaults fills what is empty.
func (c *Config) SetDefaults() {
	def(&c.Bus.URL, bus.Embedded)
	c.Bus.SetDefaults()
	c.NATS.SetDefaults()
	c.Client.SetDefaults()
	c.Gateway.SetDefaults()
	c.Template.SetDefaults()
	c.Tokenizer.SetDefaults()
	c.Scheduler.SetDefaults()
	def(&c.Servers.Gateway.Address, "tcp://127.0.0.1:8081")
	def(&c.Servers.Template.Address, "mem://template")
	def(&c.Servers.Tokenizer.Address, "mem://tokenizer")
	def(&c.Servers.Scheduler.Address, "mem://scheduler")
	for _, s := range c.Servers.all() {
		s.SetDefaults()
	}
	for i := range c.Simulated {
		def(&c.Simulated[i].ID, fmt.Sprintf("sim-%d", i))
		c.Simulated[i].Config.SetDefaults()
	}
	c.spread()
	for i := range c.Workers {
		c.Workers[i].setDefaults(i)
	}
}

func (w *Worker) setDefaults(i int) {
	def(&w.ID, fmt.Sprintf("worker-%d", i))
	def(&w.Server.Address, "mem://"+w.ID)
	w.Server.SetDefaults()
	def(&w.Advertise, w.Server.Address)
	if w.URL != "" {
		w.Config.SetDefaults()
	}
}

func (s *Servers) all() []*rpc.ServerConfig {
	return []*rpc.ServerConfig{&s.Gateway, &s.Template, &s.Tokenizer, &s.Scheduler}
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// spread gives shared settings to those that read them: models to template and tokenizer service, an adapter to each
// simulated worker.
func (c *Config) spread() {
	for _, m := range c.Models {
		if !c.hasTemplate(m.Name) {
			t := templatesvc.ModelConfig{Name: m.Name, Path: m.Path, ContentFormat: "auto"}
			c.Template.Models = append(c.Template.Models, t)
		}
		if !c.hasTokenizer(m.Name) {
			c.Tokenizer.Models = append(c.Tokenizer.Models, tokenizersvc.ModelConfig{Name: m.Name, Path: m.Path})
		}
	}
	for _, s := range c.Simulated {
		if c.worker(s.ID) == nil {
			c.Workers = append(c.Workers, Worker{Config: workeradapter.Config{ID: s.ID}})
		}
	}
}

func (c *Config) hasTemplate(name string) bool {
	for _, m := range c.Template.Models {
		if m.Name == name {
			return true
		}
	}
	return false
}

func (c *Config) hasTokenizer(name string) bool {
	for _, m := range c.Tokenizer.Models {
		if m.Name == name {
			return true
		}
	}
	return false
}

func (c *Config) worker(id string) *Worker {
	for i := range c.Workers {
		if c.Workers[i].ID == id {
			return &c.Workers[i]
		}
	}
	return nil
}

func (c *Config) simulated(id string) *Simulated {
	for i := range c.Simulated {
		if c.Simulated[i].ID == id {
			return &c.Simulated[i]
		}
	}
	return nil
}

// Validate reports every fault at once, each with its path.
func (c *Config) Validate() error {
	var f conf.Faults
	f.Under("bus", c.Bus.Validate())
	f.Under("nats", c.NATS.Validate())
	f.Under("gateway", c.Gateway.Validate())
	f.Under("template", c.Template.Validate())
	f.Under("tokenizer", c.Tokenizer.Validate())
	f.Under("scheduler", c.Scheduler.Validate())
	for i, s := range c.Servers.all() {
		f.Under("servers."+[...]string{"gateway", "template", "tokenizer", "scheduler"}[i], s.Validate())
	}
	ids := map[string]bool{}
	for i, w := range c.Workers {
		at := fmt.Sprintf("workers[%d]", i)
		f.Require(!ids[w.ID], at+".id", "%q is there twice", w.ID)
		ids[w.ID] = true
		if w.URL == "" {
			f.Require(c.simulated(w.ID) != nil, at+".url", "must name the worker's address")
			continue
		}
		f.Under(at, w.Config.Validate())
	}
	for i := range c.Simulated {
		f.Under(fmt.Sprintf("simulated[%d]", i), c.Simulated[i].Config.Validate())
	}
	f.Require(len(c.Workers) > 0, "workers", "must name at least one worker, or simulated one")
	return f.Err()
}

// modelNames lists the names for the greeting.
func (c *Config) modelNames() string {
	var names []string
	for _, m := range c.Template.Models {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}
