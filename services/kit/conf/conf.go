// Package conf reads configuration: defaults in code, one strict YAML file, environment variables, and --set a.b=c,
// each over the one before.
//
// A section is a struct with yaml tags. Its pointer may have SetDefaults(), which fills what is zero after reading,
// and Validate() error, which reports everything that is wrong at once (see Faults). Other tags: doc:"…" is the key's
// line in the reference page; redact:"true" keeps a value out of dumps and errors, redact:"url" keeps only a URL's
// user out.
//
// Keys that no field has are errors with the path and the nearest right name. "${NAME}" in a value is the environment
// variable NAME, "${NAME:-x}" with x when it is not set, "$$" a dollar sign. Keys are also set by environment
// variables: the prefix and the path in capitals with "_" between, KVMESH_BUS_CARD_TTL for bus.card_ttl.
package conf

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EnvPrefix is in front of kvmesh's environment variables.
const EnvPrefix = "KVMESH_"

// Source is where values come from.
type Source struct {
	// Path is the YAML file; empty reads none.
	Path string
	// Environ has NAME=value entries, as os.Environ returns; nil means none.
	Environ []string
	// Sets are a.b=c overrides in order; the value is YAML.
	Sets []string
	// Ignore names top-level sections that belong to other processes.
	Ignore []string
}

// Section is a top-level key and the struct that it is read into.
type Section struct {
	// Key is the section's name.
	Key string
	// Into points to a struct.
	Into any
}

// Load reads a whole file into one struct.
func Load(src Source, into any) error {
	root, err := structTarget(into)
	if err != nil {
		return err
	}
	return load(src, root)
}

// LoadSections reads a file that several structs share by top-level section.
func LoadSections(src Source, sections ...Section) error {
	var root target
	for _, s := range sections {
		t, err := structTarget(s.Into)
		if err != nil {
			return fmt.Errorf("section %s: %w", s.Key, err)
		}
		root.fields = append(root.fields, field{key: s.Key, value: t.value, inner: true})
	}
	return load(src, root)
}

// load lays the layers over one another as YAML nodes and decodes once, so that defaults, types and unknown keys are
// judged in one place wherever a value came from.
func load(src Source, root target) error {
	if key, twice := root.duplicate(); twice {
		return fmt.Errorf("two configuration fields have the key %q", key)
	}
	node, err := readFile(src.Path)
	if err != nil {
		return err
	}
	l := &loader{env: environ(src.Environ), ignore: map[string]bool{}}
	for _, key := range src.Ignore {
		l.ignore[key] = true
	}
	l.expand("", node)
	l.overlayEnv(node, root)
	l.overlaySets(node, root, src.Sets)
	l.decode("", node, root)
	var judged Faults
	finish(&judged, root)
	l.add(judged)
	return Blame(src, l.faults.Err())
}

// loader collects faults while the layers are laid over one another.
type loader struct {
	env    map[string]string
	ignore map[string]bool
	faults Faults
	// meant are the paths that unknown keys seem to mean.
	meant []string
}

// add takes over what validation found, but for what is only wrong because a value could not be read or stands under a
// misspelled key: one run reports all that is to mend, and nothing twice.
func (l *loader) add(judged Faults) {
	unread := l.meant
	for _, f := range l.faults.list {
		unread = append(unread, f.Path)
	}
	for _, f := range judged.list {
		if !slices.ContainsFunc(unread, func(path string) bool { return within(f.Path, path) }) {
			l.faults.list = append(l.faults.list, f)
		}
	}
}

// within reports whether a path is another or lies under it; the empty one holds all.
func within(path, around string) bool {
	rest, ok := strings.CutPrefix(path, around)
	return ok && (rest == "" || around == "" || rest[0] == '.' || rest[0] == '[')
}

// readFile returns the file's top mapping, an empty one for no file or an empty file.
func readFile(path string) (*yaml.Node, error) {
	empty := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if path == "" {
		return empty, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return empty, nil
	}
	return doc.Content[0], nil
}

// environ keeps the last of equal names, as getenv on most systems finds it.
func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

// finish fills defaults and validates, section by section for sections and in one step for one struct.
func finish(f *Faults, root target) {
	for _, t := range root.parts() {
		if d, ok := t.value.Addr().Interface().(interface{ SetDefaults() }); ok {
			d.SetDefaults()
		}
		v, ok := t.value.Addr().Interface().(interface{ Validate() error })
		if !ok {
			continue
		}
		if t.key == "" {
			f.Merge(v.Validate())
			continue
		}
		f.Under(t.key, v.Validate())
	}
}
