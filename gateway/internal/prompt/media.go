package prompt

import (
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"

	"github.com/kvmesh/kvmesh/gateway/internal/fleet"
	"github.com/kvmesh/kvmesh/gateway/internal/openai"
)

// mediaTokens is what one media item counts for: about a small picture. The worker alone knows its true length.
const mediaTokens = 256

// tailBytes of the exact text enter the guess, so that what stands in a unit that is not full counts too.
const tailBytes = 1024

// withMedia makes the prompt of a conversation with images, audio or video. Units before the first item are exact, but
// the last token, which what follows may change. After them comes a chain over the rest's bytes and the items' keys in
// a namespace of its own: no worker announces it, but the next turn of the conversation finds it again.
func withMedia(q *openai.Request, m fleet.Model, r *templatev1.RenderResponse, head *tokenizerv1.EncodeResponse) *Prompt {
	unit := int(max(head.GetUnitTokens(), 1))
	tokens := int(head.GetTokenCount())
	units := head.GetUnitHashes()
	units = units[:min(len(units), max(tokens-1, 0)/unit)]

	c := byteChain{root: bytesRoot(m), hashes: units[:len(units):len(units)], salt: kvblock.SaltExtra(q.CacheSalt)}
	c.prev = c.root
	if len(units) > 0 {
		c.prev = units[len(units)-1]
	}
	exact := r.GetText()[:min(int(r.GetExactBytes()), len(r.GetText()))]
	c.salt = append(c.salt, exact[max(0, len(exact)-tailBytes):]...)
	for _, p := range r.GetRest() {
		if key := p.GetMediaKey(); key != "" {
			tokens += mediaTokens
			for range mediaTokens / kvblock.UnitTokens {
				c.write(keyUnit(key))
			}
			continue
		}
		tokens += len(p.GetText()) / bytesPerToken
		c.write(p.GetText())
	}
	return &Prompt{
		Hashes: c.hashes, UnitTokens: head.GetUnitTokens(), Tokens: uint32(tokens) + 1,
		Certainty: schedulerv1.Certainty_CERTAINTY_DEGRADED, Reason: ReasonMedia,
	}
}

// keyUnit fills a unit with a key.
func keyUnit(key string) []byte {
	unit := make([]byte, unitBytes)
	for at := 0; at < len(unit); at += len(key) {
		copy(unit[at:], key)
	}
	return unit
}
