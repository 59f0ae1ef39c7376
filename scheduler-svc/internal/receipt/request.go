package receipt

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Request is one answered request of the request log: its time, lengths and hashes, and no text. The log is a trace that
// the policy simulator replays. A line is
//
//	{"timestamp_ms":1764547200123.456,"model":"m","input_length":8200,"output_length":310,
//	 "block_tokens":16,"cached_tokens":4096,"ttft_ms":212.5,"hash_ids":["89abcdef01234567",…]}
//
// with a hash per full unit of block_tokens tokens, sixteen hexadecimal digits each. A hash stands for its unit and all
// before it, so equal hashes mean equal prefixes. cached_tokens and ttft_ms, what the worker did, are for comparison and
// may be missing.
type Request struct {
	Time         time.Time // of arrival
	Model        string
	InputTokens  int
	OutputTokens int
	UnitTokens   int
	CachedTokens int // by the worker's own count, negative when it did not say
	TTFT         time.Duration
	Units        []uint64
}

// JSON returns the line without its end.
func (r *Request) JSON() ([]byte, error) {
	model, err := json.Marshal(r.Model)
	if err != nil {
		return nil, fmt.Errorf("marshal model name: %w", err)
	}
	out := make([]byte, 0, 256+len(r.Units)*len(`"0123456789abcdef",`))
	out = append(out, `{"timestamp_ms":`...)
	out = strconv.AppendFloat(out, float64(r.Time.UnixMicro())/1e3, 'f', 3, 64)
	out = append(append(out, `,"model":`...), model...)
	out = strconv.AppendInt(append(out, `,"input_length":`...), int64(r.InputTokens), 10)
	out = strconv.AppendInt(append(out, `,"output_length":`...), int64(r.OutputTokens), 10)
	out = strconv.AppendInt(append(out, `,"block_tokens":`...), int64(r.UnitTokens), 10)
	if r.CachedTokens >= 0 {
		out = strconv.AppendInt(append(out, `,"cached_tokens":`...), int64(r.CachedTokens), 10)
	}
	if r.TTFT > 0 {
		out = strconv.AppendFloat(append(out, `,"ttft_ms":`...), float64(r.TTFT.Microseconds())/1e3, 'f', 3, 64)
	}
	out = append(out, `,"hash_ids":[`...)
	for i, u := range r.Units {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		for shift := 60; shift >= 0; shift -= 4 {
			out = append(out, "0123456789abcdef"[u>>shift&15])
		}
		out = append(out, '"')
	}
	return append(out, ']', '}'), nil
}
