package obs

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

// MemoryConfig trades memory for CPU in the Go runtime. A request makes tens of KB of garbage and the heap that stays is
// small, so that the runtime's own default would collect hundreds of times a second under load.
type MemoryConfig struct {
	// GCPercent is how much the heap may grow, in percent of what was in use, before garbage is collected.
	GCPercent int `yaml:"gc_percent" doc:"growth of the heap, in percent of what is in use, before garbage is collected; GOGC wins"`
	// Limit is the size from which garbage is collected sooner.
	Limit conf.Bytes `yaml:"limit" doc:"memory from which garbage is collected sooner; 0 is half of the machine's or container's; GOMEMLIMIT wins"`
}

// SetDefaults fills what is zero.
func (c *MemoryConfig) SetDefaults() { conf.Default(&c.GCPercent, 400) }

// Validate reports everything that is wrong.
func (c *MemoryConfig) Validate() error {
	var f conf.Faults
	f.Require(c.GCPercent > 0, "gc_percent", "must be positive")
	f.Require(c.Limit >= 0, "limit", "must not be negative")
	return f.Err()
}

// Apply sets the process up; only a main calls it. GOGC and GOMEMLIMIT in the environment win, as operators know them.
func (c *MemoryConfig) Apply(environ []string) {
	if !named(environ, "GOGC") {
		debug.SetGCPercent(c.GCPercent)
	}
	if limit := c.limit(os.ReadFile); limit > 0 && !named(environ, "GOMEMLIMIT") {
		debug.SetMemoryLimit(limit)
	}
}

func named(environ []string, name string) bool {
	for _, e := range environ {
		if strings.HasPrefix(e, name+"=") {
			return true
		}
	}
	return false
}

// limit is the configured size, else half of what the container or the machine has; 0 when that is not known.
func (c *MemoryConfig) limit(read func(string) ([]byte, error)) int64 {
	if c.Limit > 0 {
		return int64(c.Limit)
	}
	least := int64(0)
	for _, size := range []int64{machineBytes(read), containerBytes(read)} {
		if size > 0 && (least == 0 || size < least) {
			least = size
		}
	}
	return least / 2
}

// containerBytes is the limit of control group v2, 0 for none.
func containerBytes(read func(string) ([]byte, error)) int64 {
	raw, err := read("/sys/fs/cgroup/memory.max")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return n
}

// machineBytes is the machine's memory on Linux, 0 elsewhere.
func machineBytes(read func(string) ([]byte, error)) int64 {
	raw, err := read("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
