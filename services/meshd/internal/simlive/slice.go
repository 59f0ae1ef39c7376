// Package simlive plays a slice of a trace twice: through the policy simulator, and against a whole mesh, with the real
// gateway and scheduler and simulated workers whose step times are scaled. It compares the order of the policies.
package simlive

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
)

// unitTokens is what one hash id of Mooncake's format stands for.
const unitTokens = 512

// maxLineBytes bounds a trace's line.
const maxLineBytes = 16 << 20

// request is one line of the slice, as the simulator reads it.
type request struct {
	TimestampMS  float64  `json:"timestamp"`
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	HashIDs      []uint64 `json:"hash_ids"`
}

// Slice says what is taken of a trace.
type Slice struct {
	Requests  int
	MaxOutput int           // tokens; longer answers are cut, in both
	Spread    time.Duration // over which arrivals are delayed at random: public traces stamp them in coarse steps
	Arrivals  float64       // divides the times of arrival
	Seed      uint64
}

// cut reads the first requests of a trace in Mooncake's format and gives them their time of arrival.
func (s Slice) cut(trace io.Reader) ([]request, error) {
	scan := bufio.NewScanner(trace)
	scan.Buffer(make([]byte, 1<<16), maxLineBytes)
	rng := rand.New(rand.NewPCG(s.Seed, 0x51ce))
	var out []request
	for scan.Scan() && len(out) < s.Requests {
		var r request
		if err := json.Unmarshal(scan.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("read trace line %d: %w", len(out)+1, err)
		}
		if r.InputLength < 1 || len(r.HashIDs) > r.InputLength/unitTokens+1 {
			return nil, fmt.Errorf("read trace line %d: %d hash ids for %d tokens", len(out)+1, len(r.HashIDs), r.InputLength)
		}
		r.OutputLength = min(max(1, r.OutputLength), s.MaxOutput)
		if s.Spread > 0 {
			r.TimestampMS += rng.Float64() * float64(s.Spread) / float64(time.Millisecond)
		}
		out = append(out, r)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read trace: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read trace: no requests")
	}
	slices.SortStableFunc(out, func(a, b request) int { return cmp.Compare(a.TimestampMS, b.TimestampMS) })
	first := out[0].TimestampMS
	for i := range out {
		out[i].TimestampMS = (out[i].TimestampMS - first) / s.Arrivals
	}
	return out, nil
}

// write gives the slice back as a trace.
func write(w io.Writer, slice []request) error {
	enc := json.NewEncoder(w)
	for i := range slice {
		if err := enc.Encode(&slice[i]); err != nil {
			return fmt.Errorf("write slice: %w", err)
		}
	}
	return nil
}

// appendTokens makes a prompt of the right length: equal leading hash ids give equal leading tokens, and what no whole unit
// covers is the request's own. Ids are below vocab, past those of special tokens.
func (r *request) appendTokens(dst []uint32, own, vocab uint64) []uint32 {
	const specials = 300
	for i := range r.InputLength {
		unit := i / unitTokens
		seed := own ^ 0x9e3779b97f4a7c15
		if unit < len(r.HashIDs) && (unit+1)*unitTokens <= r.InputLength {
			seed = r.HashIDs[unit]
		}
		var key [16]byte
		for b := range 8 {
			key[b], key[8+b] = byte(seed>>(8*b)), byte(uint64(i)>>(8*b))
		}
		dst = append(dst, uint32(specials+xxh3.Hash(key[:])%(vocab-specials)))
	}
	return dst
}
