package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/obs"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Process is a binary's surroundings, so that tests can be one.
type Process struct {
	Args, Environ  []string
	Stdout, Stderr io.Writer
	// Signals ask for a stop: the first in an orderly way, the second at once.
	Signals <-chan os.Signal
	// OnLogger is told the logger once it exists; nil ignores it.
	OnLogger func(*slog.Logger)
	// OnMemory is told the memory settings before anything is made; nil ignores them.
	OnMemory func(obs.MemoryConfig)
	// OnServing is told the addresses once the service is ready; nil ignores it.
	OnServing func(server, admin string)
}

// cli is the command line.
type cli struct {
	Config string   `help:"YAML file of the deployment." type:"path" placeholder:"FILE" env:"KVMESH_CONFIG"`
	Set    []string `help:"Override one key: section.key=value. May be repeated." placeholder:"A.B=C" sep:"none"`

	Serve   struct{} `cmd:"" default:"1" help:"Serve until SIGTERM or SIGINT; a second signal stops at once."`
	Health  struct{} `cmd:"" help:"Ask the running service for its readiness; exit code 1 when it is not ready."`
	Version struct{} `cmd:"" help:"Print the version."`
	Print   struct{} `cmd:"" name:"config" help:"Print the effective configuration without secrets."`
}

// section is the service's section of the file.
type section[C any] struct {
	Server rpc.ServerConfig `yaml:"server"`
	Admin  obs.AdminConfig  `yaml:"admin"`
	Own    C                `yaml:",inline"`

	serverAddress, adminAddress string
}

// SetDefaults fills what is zero, with the binary's own addresses.
func (s *section[C]) SetDefaults() {
	if s.Server.Address == "" {
		s.Server.Address = s.serverAddress
	}
	if s.Admin.Address == "" {
		s.Admin.Address = s.adminAddress
	}
	s.Server.SetDefaults()
	s.Admin.SetDefaults()
	if d, ok := any(&s.Own).(interface{ SetDefaults() }); ok {
		d.SetDefaults()
	}
}

// Validate reports everything that is wrong.
func (s *section[C]) Validate() error {
	var f conf.Faults
	f.Under("server", s.Server.Validate())
	f.Under("admin", s.Admin.Validate())
	if v, ok := any(&s.Own).(interface{ Validate() error }); ok {
		f.Merge(v.Validate())
	}
	return f.Err()
}

// config is everything that the binary reads.
type config[C any] struct {
	log    obs.LogConfig
	memory obs.MemoryConfig
	trace  obs.TraceConfig
	bus    bus.Config
	own    section[C]
}

// sections lists what is read, in the order in which it is printed.
func (c *config[C]) sections(spec Spec[C]) []conf.Section {
	list := []conf.Section{{Key: "log", Into: &c.log}, {Key: "memory", Into: &c.memory}, {Key: "trace", Into: &c.trace}}
	if spec.UsesBus {
		list = append(list, conf.Section{Key: "bus", Into: &c.bus})
	}
	return append(list, conf.Section{Key: spec.Name, Into: &c.own})
}

// healthTimeout bounds the health subcommand.
const healthTimeout = 5 * time.Second

// exitCode carries kong's wish to exit out of Parse.
type exitCode int

// Run is Main with everything passed in.
func Run[C any](ctx context.Context, spec Spec[C], p Process) (code int) {
	defer func() {
		if r := recover(); r != nil {
			wish, ok := r.(exitCode)
			if !ok {
				panic(r)
			}
			code = int(wish)
		}
	}()
	var flags cli
	parser, err := kong.New(&flags, kong.Name(spec.Name), kong.Description(spec.Title),
		kong.Writers(p.Stdout, p.Stderr), kong.Exit(func(c int) { panic(exitCode(c)) }))
	if err != nil {
		return fail(p, spec.Name, err)
	}
	parsed, err := parser.Parse(p.Args)
	if err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v; see --help\n", spec.Name, err)
		return exitUsage
	}
	if parsed.Command() == "version" {
		fmt.Fprintln(p.Stdout, Version())
		return exitOK
	}
	cfg := config[C]{own: section[C]{serverAddress: spec.ServerAddress, adminAddress: spec.AdminAddress}}
	sections := cfg.sections(spec)
	if err := conf.LoadSections(source(spec, flags, p), sections...); err != nil {
		fmt.Fprintf(p.Stderr, "%s: the configuration is wrong:\n%v\n", spec.Name, err)
		return exitUsage
	}
	switch parsed.Command() {
	case "health":
		return health(ctx, p, cfg.own.Admin.Address)
	case "config":
		raw, err := conf.Dump(sections...)
		if err != nil {
			return fail(p, spec.Name, err)
		}
		_, _ = p.Stdout.Write(raw)
		return exitOK
	}
	if err := serve(ctx, spec, cfg, p); err != nil {
		return fail(p, spec.Name, err)
	}
	return exitOK
}

// source ignores the sections of other binaries, among them the bus if this one has none.
func source[C any](spec Spec[C], flags cli, p Process) conf.Source {
	src := conf.Source{Path: flags.Config, Environ: p.Environ, Sets: flags.Set}
	src.Ignore = slices.DeleteFunc(append(Sections(), spec.Ignore...), func(name string) bool { return name == spec.Name })
	if !spec.UsesBus {
		src.Ignore = append(src.Ignore, "bus")
	}
	return src
}

// fail prints why the binary ends. A fault is shown by its sentence alone: its cause repeats it in the system's words.
func fail(p Process, name string, err error) int {
	text := err.Error()
	var f *fault.Error
	if errors.As(err, &f) {
		text = strings.Replace(text, f.Error(), f.Message, 1)
	}
	fmt.Fprintf(p.Stderr, "%s: %s\n", name, strings.TrimPrefix(text, name+": "))
	return exitFailed
}

// health is the subcommand that containers run as their check: one line and an exit code.
func health(ctx context.Context, p Process, address string) int {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	if err := obs.CheckReady(ctx, address); err != nil {
		fmt.Fprintln(p.Stderr, err)
		return exitFailed
	}
	fmt.Fprintln(p.Stdout, "ready")
	return exitOK
}

// Version is the main module's version or, between releases, the commit it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value
		}
	}
	return "devel"
}
