package fakevllm

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/remote"
)

// section is this worker's key in a deployment's file.
const section = "fakevllm"

// readConfig reads a file that holds the configuration alone, or a deployment's file with a section for it. Empty
// reads nothing.
func readConfig(path string) (Config, error) {
	var cfg Config
	if path == "" {
		return cfg, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return cfg, fmt.Errorf("open configuration: %w", err)
	}
	var top map[string]yaml.Node
	if err := yaml.Unmarshal(raw, &top); err != nil {
		return cfg, fmt.Errorf("read configuration %q: %w", path, err)
	}
	src := conf.Source{Path: path, Environ: os.Environ()}
	if _, whole := top[section]; !whole {
		err = conf.Load(src, &cfg)
	} else {
		others := slices.DeleteFunc(boot.Sections(), func(name string) bool { return name == section })
		src.Ignore = append(others, "log", "memory", "trace", "bus")
		err = conf.LoadSections(src, conf.Section{Key: section, Into: &cfg})
	}
	if err != nil {
		return cfg, fmt.Errorf("read configuration %q: %w", path, err)
	}
	return cfg, nil
}

// connect gives the worker the mesh's tokenizer and templates, if the configuration names them.
func (c *Config) connect(deps *Deps) (closeConns func(), err error) {
	nothing := func() {}
	if c.Services == (Services{}) {
		return nothing, nil
	}
	if c.Services.Template == "" || c.Services.Tokenizer == "" {
		return nothing, errors.New("services: give both template and tokenizer, or neither")
	}
	template, err := rpc.Dial(c.Services.Template, rpc.ClientConfig{WaitForReady: true}, rpc.ClientDeps{Log: deps.Log})
	if err != nil {
		return nothing, err
	}
	tokenizer, err := rpc.Dial(c.Services.Tokenizer, rpc.ClientConfig{WaitForReady: true}, rpc.ClientDeps{Log: deps.Log})
	if err != nil {
		_ = template.Close()
		return nothing, err
	}
	deps.Tokenizer = remote.Tokenizer{Client: tokenizerv1.NewTokenizerServiceClient(tokenizer), Model: c.Model}
	deps.Renderer = remote.Renderer{
		Client: templatev1.NewTemplateServiceClient(template), Model: c.Model, Version: c.Version,
	}
	return func() {
		_ = tokenizer.Close()
		_ = template.Close()
	}, nil
}
