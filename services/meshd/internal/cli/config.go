package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kvmesh/kvmesh/services/kit/conf"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// demoConfig is what `kvmesh up` starts when it is told nothing.
const demoConfig = "deploy/config/demo.yaml"

// fileFlags name a deployment's file and what lies over it.
type fileFlags struct {
	Config string   `help:"YAML file of the deployment; the demo's when not given." type:"path" placeholder:"FILE" env:"KVMESH_CONFIG"`
	Set    []string `help:"Override one key: section.key=value. May be repeated." placeholder:"A.B=C" sep:"none"`
}

// load reads the file.
func (f fileFlags) load(p *Process) (mesh.Config, error) {
	path := f.Config
	if path == "" {
		path = demoConfig
		if _, err := os.Stat(path); err != nil {
			return mesh.Config{}, errors.New("there is no " + demoConfig + " here: " +
				"start in the repository's root, or give --config FILE")
		}
	}
	cfg, err := mesh.Load(conf.Source{Path: path, Environ: p.Environ, Sets: f.Set})
	if err != nil {
		return cfg, fmt.Errorf("the configuration%s is wrong:\n%w", blamed(path, err), err)
	}
	return cfg, nil
}

// blamed is the file's name, unless all that is wrong comes from elsewhere.
func blamed(path string, err error) string {
	list := conf.List(err)
	fromFile := func(f conf.Fault) bool { return f.Origin == "" }
	if list != nil && !slices.ContainsFunc(list, fromFile) {
		return ""
	}
	return " " + filepath.Base(path)
}

// configCommand is `kvmesh config`.
type configCommand struct {
	fileFlags
	Reference bool `help:"Print the reference page of all keys instead."`
}

// Run prints the configuration.
func (c *configCommand) Run(p *Process) error {
	if c.Reference {
		var cfg mesh.Config
		page, err := conf.Reference(cfg.Sections()...)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(p.Stdout, page)
		return err
	}
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	raw, err := conf.Dump(cfg.Sections()...)
	if err != nil {
		return err
	}
	_, err = p.Stdout.Write(raw)
	return err
}
