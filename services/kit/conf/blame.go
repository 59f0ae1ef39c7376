package conf

import "strings"

// fromSet is the origin of what --set has set.
const fromSet = "--set"

// Blame tells for each fault of an error what set its key over the file, so that nobody looks for it there. Load and
// LoadSections have done so; it is for checks that run over several sections afterwards. Other errors pass as they are.
func Blame(src Source, err error) error {
	list := List(err)
	if list == nil || len(src.Sets)+len(src.Environ) == 0 {
		return err
	}
	sets := map[string]bool{}
	for _, set := range src.Sets {
		path, _, _ := strings.Cut(set, "=")
		sets[path] = true
	}
	env := environ(src.Environ)
	blamed := make(faultList, len(list))
	for i, f := range list {
		if f.Origin == "" {
			f.Origin = origin(f.Path, sets, env)
		}
		blamed[i] = f
	}
	return blamed
}

// origin is what set the key at path, or the nearest one around it, over the file.
func origin(path string, sets map[string]bool, env map[string]string) string {
	for path != "" {
		if sets[path] {
			return fromSet
		}
		if name := EnvName(path); env[name] != "" {
			return name
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}
