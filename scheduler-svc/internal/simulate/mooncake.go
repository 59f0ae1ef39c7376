package simulate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Limits of a trace line, far above any real request, so that a hostile file cannot exhaust memory.
const (
	maxLineBytes   = 16 << 20
	maxTokens      = 16 << 20
	mooncakeTokens = 512
)

// line is one record in Mooncake's format, or of the log a gateway writes: the same with ids of any spelling, an
// explicit unit size and timestamp_ms for timestamp.
type line struct {
	Timestamp   *float64          `json:"timestamp"`
	TimestampMS *float64          `json:"timestamp_ms"`
	Input       int               `json:"input_length"`
	Output      int               `json:"output_length"`
	IDs         []json.RawMessage `json:"hash_ids"`
	BlockTokens int               `json:"block_tokens"`
	Model       string            `json:"model"`
}

// Source says what a trace is called and which of its requests are wanted.
type Source struct {
	Name string
	// Model wants the requests of one model, and those that name none. A trace of several models needs it: their prefixes
	// are not each other's, and a pool serves one.
	Model string
}

// ReadTrace reads newline-delimited records. Only the first floor(input_length/unit) ids are full units that a worker
// can cache; the rest is dropped. Errors name the line.
func ReadTrace(src Source, r io.Reader) (*Workload, error) {
	name, models := src.Name, map[string]struct{}{}
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 1<<16), maxLineBytes)
	w := &Workload{Name: name}
	intern := make(map[string]uint32)
	var arrivals []Arrival
	var at []float64 // ms
	for number := 1; scan.Scan(); number++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		var l line
		err := json.Unmarshal(scan.Bytes(), &l)
		if err == nil && l.Model != "" {
			models[l.Model] = struct{}{}
			if src.Model != "" && src.Model != l.Model {
				continue
			}
		}
		var a Arrival
		var ms float64
		if err == nil {
			a, ms, err = w.arrival(&l, intern)
		}
		if err != nil {
			return nil, fmt.Errorf("read trace %s line %d: %w", name, number, err)
		}
		arrivals, at = append(arrivals, a), append(at, ms)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read trace %s: %w", name, err)
	}
	names := slices.Sorted(maps.Keys(models))
	switch {
	case len(arrivals) == 0 && len(names) > 0:
		return nil, fmt.Errorf("read trace %s: no requests for the model %q, only for %s", name, src.Model, strings.Join(names, ", "))
	case len(arrivals) == 0:
		return nil, fmt.Errorf("read trace %s: no requests", name)
	case src.Model == "" && len(names) > 1:
		return nil, fmt.Errorf("read trace %s: choose one of its models: %s", name, strings.Join(names, ", "))
	}
	w.Distinct = len(intern)
	start := slices.Min(at) // subtracted in ms: a wall-clock time has no room for microseconds once it is in nanoseconds
	for i := range arrivals {
		arrivals[i].At = time.Duration(math.Round((at[i] - start) * 1e6))
	}
	w.Stages = []Stage{{Arrivals: arrivals}}
	return w.mapTimes(func(at time.Duration) time.Duration { return at }), nil
}

// maxTimestampMS is the year 2096: any two times below it are apart by less than a Duration holds.
const maxTimestampMS = 4e12

// arrival returns the request and its time in ms.
func (w *Workload) arrival(l *line, intern map[string]uint32) (Arrival, float64, error) {
	unit := l.BlockTokens
	if unit == 0 {
		unit = mooncakeTokens
	}
	if w.UnitTokens == 0 {
		w.UnitTokens = unit
	}
	at := l.Timestamp
	if at == nil {
		at = l.TimestampMS
	}
	switch {
	case at == nil:
		return Arrival{}, 0, errors.New("timestamp is missing")
	case math.IsNaN(*at) || *at < 0 || *at > maxTimestampMS:
		return Arrival{}, 0, fmt.Errorf("timestamp %g is out of range", *at)
	case l.Input < 1 || l.Input > maxTokens || l.Output < 0 || l.Output > maxTokens:
		return Arrival{}, 0, fmt.Errorf("lengths %d and %d are out of range", l.Input, l.Output)
	case unit < 1 || unit > maxTokens:
		return Arrival{}, 0, fmt.Errorf("block_tokens %d is out of range", unit)
	case unit != w.UnitTokens:
		return Arrival{}, 0, fmt.Errorf("block_tokens changes from %d to %d", w.UnitTokens, unit)
	}
	full := min(len(l.IDs), l.Input/unit)
	units := make([]uint32, full)
	for i, id := range l.IDs[:full] {
		n, ok := intern[string(id)]
		if !ok {
			n = uint32(len(intern))
			intern[string(id)] = n
		}
		units[i] = n
	}
	return Arrival{Prompt: l.Input, Output: max(1, l.Output), Units: units}, *at, nil
}
