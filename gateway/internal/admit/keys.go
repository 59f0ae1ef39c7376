// Package admit decides who may send a request and when it may start: keys, rates, and bounded first-in-first-out
// queues. Nothing here knows what a request asks for.
package admit

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
)

// Key is one caller's key.
type Key struct {
	Name              string   `yaml:"name" doc:"stands for the key in logs, receipts and fairness"`
	Key               string   `yaml:"key" doc:"the secret; either it or sha256 is given" redact:"true"`
	SHA256            string   `yaml:"sha256" doc:"the secret's SHA-256 in hexadecimal, for files that others may read" redact:"true"`
	RequestsPerMinute int      `yaml:"requests_per_minute" doc:"limits the rate; 0 does not"`
	Models            []string `yaml:"models" doc:"what the key may use, empty for all"`
}

// Keys checks callers. Without keys everybody is let in.
type Keys struct {
	callers []*Caller
	clock   func() time.Time
}

// Caller is who sends a request. The zero value is a caller where no keys are configured.
type Caller struct {
	// Name is the key's name.
	Name   string
	models []string
	digest [sha256.Size]byte

	mu     sync.Mutex
	perSec float64
	burst  float64
	tokens float64
	last   time.Time
}

// NewKeys reads the configured keys. Errors name the key's position, never its value.
func NewKeys(keys []Key, clock func() time.Time) (*Keys, error) {
	out := &Keys{clock: clock}
	for i, k := range keys {
		c := &Caller{Name: k.Name, models: k.Models, perSec: float64(k.RequestsPerMinute) / 60}
		if c.Name == "" {
			c.Name = fmt.Sprintf("key-%d", i+1)
		}
		c.burst = max(1, float64(k.RequestsPerMinute))
		c.tokens = c.burst
		switch {
		case k.Key != "" && k.SHA256 == "":
			c.digest = sha256.Sum256([]byte(k.Key))
		case k.Key == "" && len(k.SHA256) == hex.EncodedLen(sha256.Size):
			if _, err := hex.Decode(c.digest[:], []byte(k.SHA256)); err != nil {
				return nil, fmt.Errorf("keys[%d].sha256 is not hexadecimal", i)
			}
		default:
			return nil, fmt.Errorf("keys[%d] needs either key or sha256 (64 hexadecimal digits)", i)
		}
		out.callers = append(out.callers, c)
	}
	return out, nil
}

// Required tells whether callers must have a key.
func (k *Keys) Required() bool { return len(k.callers) > 0 }

// Check finds the caller of an Authorization value, or of a bare key such as Anthropic's x-api-key. Every configured key
// is compared, each in constant time. Fault: UNAUTHENTICATED.
func (k *Keys) Check(authorization, bare string) (*Caller, error) {
	if !k.Required() {
		return &Caller{}, nil
	}
	secret := bare
	if scheme, rest, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "bearer") {
		secret = strings.TrimSpace(rest)
	}
	digest := sha256.Sum256([]byte(secret))
	var found *Caller
	for _, c := range k.callers {
		if subtle.ConstantTimeCompare(digest[:], c.digest[:]) == 1 {
			found = c
		}
	}
	if found == nil || secret == "" {
		return nil, fault.New(faultv1.Reason_REASON_UNAUTHENTICATED,
			"The API key is missing or wrong. Send it as 'Authorization: Bearer KEY'.")
	}
	return found, nil
}

// Allow takes one request from the caller's rate. Fault: OVERLOADED with the time until the next one.
func (c *Caller) Allow(now time.Time) error {
	if c.perSec == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.last.IsZero() {
		c.tokens = min(c.burst, c.tokens+now.Sub(c.last).Seconds()*c.perSec)
	}
	c.last = now
	if c.tokens < 1 {
		wait := time.Duration((1 - c.tokens) / c.perSec * float64(time.Second))
		return fault.New(faultv1.Reason_REASON_OVERLOADED, "The rate limit of this key is reached; try again later.").
			WithRetryAfter(wait)
	}
	c.tokens--
	return nil
}

// MayUse tells whether the caller may use a model. Fault: PERMISSION_DENIED.
func (c *Caller) MayUse(model string) error {
	if len(c.models) == 0 || slices.Contains(c.models, model) {
		return nil
	}
	return fault.New(faultv1.Reason_REASON_PERMISSION_DENIED, "This key may not use the model `%s`.", model).
		WithParam("model")
}
