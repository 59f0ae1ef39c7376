package load

import "time"

// rateBucket is half the window over which arrivals are counted: long enough for bursts of seconds to average out,
// short enough to follow a change of load.
const rateBucket = 15 * time.Second

// Rate measures arrivals per second over the current and the last bucket. The zero value has seen nothing. It is not
// safe for concurrent use.
type Rate struct {
	bucket       int64
	current, old int
	first        time.Duration
	any          bool
}

// Add counts one arrival. Times are offsets on the ledger's clock and do not go back.
func (r *Rate) Add(now time.Duration) {
	if !r.any {
		r.any, r.first = true, now
	}
	switch b := int64(now / rateBucket); {
	case b == r.bucket+1:
		r.bucket, r.old, r.current = b, r.current, 0
	case b > r.bucket:
		r.bucket, r.old, r.current = b, 0, 0
	}
	r.current++
}

// PerS returns the arrivals per second at now, at least the first second's worth of window.
func (r *Rate) PerS(now time.Duration) float64 {
	if !r.any {
		return 0
	}
	start := max(r.first, time.Duration(r.bucket-1)*rateBucket)
	return float64(r.current+r.old) / max(1, (now-start).Seconds())
}
