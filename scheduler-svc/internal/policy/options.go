package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Option is one parameter by name, with its default and bounds.
type Option struct {
	Name        string
	Least, Most float64
	Value       *float64
}

// maxWeight bounds prices and weights: past it one term decides alone.
const maxWeight = 1e6

// Named lists the parameters, for configurations and command lines; docs/policies.md says what they mean. Writing a Value
// changes o.
func (o *Options) Named() []Option {
	c := &o.Cost
	return []Option{
		{"degraded_discount", 0, 1, &o.DegradedDiscount},
		{"fallback_discount", 0, 1, &o.FallbackDiscount},
		{"slower_tier_credit", 0, 1, &o.SlowerTierCredit},
		{"session_patience_s", 0, maxWeight, &o.SessionPatienceS},
		{"sticky_match", 0, 1, &o.StickyMatch},
		{"sticky_tau_tokens", 0, 1e12, &o.StickyTau},
		{"consistent_hash_load_factor", 1, maxWeight, &o.LoadFactor},
		{"blend_hit", 0, maxWeight, &o.BlendHit},
		{"blend_queue", 0, maxWeight, &o.BlendQueue},
		{"blend_kv", 0, maxWeight, &o.BlendKV},
		{"cost_delay_price", 0, maxWeight, &c.DelayPrice},
		{"cost_eviction_price", 0, maxWeight, &c.EvictionPrice},
		{"cost_full_from", 0, 1, &c.FullFrom},
		{"cost_full_at", 0, 1, &c.FullAt},
		{"cost_decode_weight", 0, maxWeight, &c.DecodeWeight},
		{"cost_room_s", 0, maxWeight, &c.RoomS},
		{"cost_admit_weight", 0, maxWeight, &c.AdmitWeight},
		{"cost_admit_half_s", 0, maxWeight, &c.AdmitHalfS},
		{"cost_lora_load_s", 0, maxWeight, &c.LoRALoadS},
	}
}

// Override replaces parameters by name. The error names every one that is unknown or out of bounds; the others are set.
func (o *Options) Override(values map[string]float64) error {
	named := o.Named()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(named, func(n Option) bool { return n.Name == name })
		switch v := values[name]; {
		case i < 0:
			names := make([]string, len(named))
			for j := range named {
				names[j] = named[j].Name
			}
			errs = append(errs, fmt.Errorf("%s: unknown, want one of %s", name, strings.Join(names, ", ")))
		case !(v >= named[i].Least && v <= named[i].Most): // NaN too
			errs = append(errs, fmt.Errorf("%s: %g is not in %g to %g", name, v, named[i].Least, named[i].Most))
		default:
			*named[i].Value = v
		}
	}
	return errors.Join(errs...)
}
