package simulate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Cell is one row of the comparison: workloads that differ by seed only, on one pool.
type Cell struct {
	Name      string
	Note      string
	Workloads []*Workload
	KVTokens  int // of one worker; 0 is the profile's
	Speedup   float64
	Spread    time.Duration
	Overload  bool // arrivals exceed what the pool can serve without the hits; judged apart
	Apart     bool // a special case that takes no part in regret
}

// hbmTokens is a worker's cache in the cells without a second tier, a multiple of the traces' units.
const hbmTokens = 307_200

// spreadWidth is the step of the public traces' timestamps.
const spreadWidth = 3 * time.Second

// repeats is how many seeds a spread or generated cell averages; short traces take more.
const (
	repeats      = 3
	shortRepeats = 10
	b2bRepeats   = 5
)

// TracePath returns where the corpus keeps one of the public traces.
func TracePath(corpus, file string) string { return filepath.Join(corpus, "traces", "mooncake", file) }

// Load reads a trace file, of several models the requests of one; see Source.
func Load(path, model string) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open trace (is KVMESH_CORPUS set?): %w", err)
	}
	defer func() { _ = f.Close() }()
	return ReadTrace(Source{Name: filepath.Base(path), Model: model}, f)
}

// Cells builds the cells of the published tables from the corpus: B2B; conversation raw at 1x with 1.1M tokens of cache
// (A), 2x with HBM only (B), 3x with a tier of 3M (C), 4x with the same, overload (D); the first 1,000 requests of the
// older trace (F); all of them again with arrivals spread (primed); one hot group; and B without any shared prefix.
// With names, only those are built; the error of an unknown one lists all.
func Cells(corpus string, seed uint64, only ...string) ([]Cell, error) {
	all := append(append([]Cell{{Name: "B2B", Note: "ladder to 60 requests/s", Speedup: 1}}, rawCells()...), primedCells()...)
	all = append(all, Cell{Name: "H", Note: "one hot group", Speedup: 1, Apart: true})
	kept := slices.DeleteFunc(slices.Clone(all), func(c Cell) bool { return len(only) > 0 && !slices.Contains(only, c.Name) })
	if len(only) > 0 && len(kept) < len(only) {
		names := make([]string, len(all))
		for i := range all {
			names[i] = all[i].Name
		}
		return nil, fmt.Errorf("cells %s: the cells are %s", strings.Join(only, ","), strings.Join(names, ","))
	}
	t := traces{corpus: corpus}
	for i := range kept {
		if err := t.fill(&kept[i], seed); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

func rawCells() []Cell {
	return []Cell{
		{Name: "A", Note: "conversation x1, a cache of 1.1M", Speedup: 1, KVTokens: 1_099_776},
		{Name: "B", Note: "conversation x2, HBM", Speedup: 2, KVTokens: hbmTokens},
		{Name: "C", Note: "conversation x3, a tier of 3M", Speedup: 3, KVTokens: 3_072_000},
		{Name: "F", Note: "first-1000 x1, HBM", Speedup: 1, KVTokens: hbmTokens},
		{Name: "D", Note: "conversation x4, a tier of 3M, overload", Speedup: 4, KVTokens: 3_072_000, Overload: true},
		{Name: "N", Note: "B without shared prefixes", Speedup: 2, KVTokens: hbmTokens, Apart: true},
	}
}

func primedCells() []Cell {
	cells := rawCells()
	for i := range cells {
		c := &cells[i]
		c.Name, c.Note, c.Spread = c.Name+"'", c.Note+", arrivals spread", spreadWidth
	}
	return cells
}

// traces reads each file once, when a cell needs it.
type traces struct {
	corpus              string
	conversation, first *Workload
}

// fill gives a cell its workloads.
func (t *traces) fill(c *Cell, seed uint64) error {
	switch c.Name {
	case "B2B":
		for s := range uint64(b2bRepeats) {
			c.Workloads = append(c.Workloads, B2B(seed+s))
		}
		return nil
	case "H":
		for s := range uint64(repeats) {
			c.Workloads = append(c.Workloads, HotGroup(seed+s, hotRequests))
		}
		return nil
	}
	source, err := t.source(c.Name[:1])
	if err != nil {
		return err
	}
	if c.Spread == 0 {
		c.Workloads = []*Workload{source.Speedup(c.Speedup)}
		return nil
	}
	n := uint64(repeats)
	if c.Name == "F'" {
		n = shortRepeats
	}
	for s := range n {
		c.Workloads = append(c.Workloads, source.Spread(c.Spread, seed+s).Speedup(c.Speedup))
	}
	return nil
}

func (t *traces) source(cell string) (w *Workload, err error) {
	file, at := "conversation_trace.jsonl", &t.conversation
	if cell == "F" {
		file, at = "mooncake_trace_first1000_from_dynamo.jsonl", &t.first
	}
	if *at == nil {
		if *at, err = Load(TracePath(t.corpus, file), ""); err != nil {
			return nil, err
		}
	}
	if cell == "N" {
		return NoPrefix(*at), nil
	}
	return *at, nil
}
