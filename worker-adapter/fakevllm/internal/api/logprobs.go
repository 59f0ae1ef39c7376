package api

import (
	"strconv"
)

// logprob is a made-up value for a token at a place: between -0.25 and -4.25, the rank-th alternative lower.
func logprob(id uint32, place, rank int) float64 {
	mixed := (uint64(id)*0x9e3779b97f4a7c15 + uint64(place)*0xbf58476d1ce4e5b9) >> 40
	return -0.25 - float64(mixed%4096)/1024 - float64(rank)
}

// appendFloat writes a number without an exponent.
func appendFloat(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'f', -1, 64) }

// tokenText is how logprobs name a token.
func (g *generation) tokenText(id uint32) string {
	if g.common.ReturnTokensAsIDs {
		return "token_id:" + strconv.FormatUint(uint64(id), 10)
	}
	return g.h.detok.piece(id)
}

// alternative is the id that ranks behind a sampled one.
func (g *generation) alternative(id uint32, rank int) uint32 {
	return uint32((int(id) + rank) % g.h.set.Limits.VocabSize)
}

// appendChatLogprobs writes the logprobs object of a chat choice for tokens [from, to).
func (g *generation) appendChatLogprobs(dst []byte, s *sequence, from, to int) []byte {
	top := g.common.Sampling.Logprobs
	if top < 0 {
		return append(dst, "null"...)
	}
	entry := func(dst []byte, id uint32, place, rank int) []byte {
		text := g.tokenText(id)
		dst = appendString(append(dst, `{"token":`...), text)
		dst = appendFloat(append(dst, `,"logprob":`...), logprob(id, place, rank))
		dst = append(dst, `,"bytes":[`...)
		for i := range len(text) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendUint(dst, uint64(text[i]), 10)
		}
		return append(dst, ']')
	}
	dst = append(dst, `{"content":[`...)
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		id := s.plan.ids[i]
		dst = append(entry(dst, id, i, 0), `,"top_logprobs":[`...)
		for rank := range top {
			if rank > 0 {
				dst = append(dst, ',')
			}
			dst = append(entry(dst, g.alternative(id, rank), i, rank), '}')
		}
		dst = append(dst, "]}"...)
	}
	return append(dst, "]}"...)
}

// offsetToken is a token of a completion's logprobs; the first prompt token has no value.
type offsetToken struct {
	id    uint32
	place int
	first bool
}

// appendLogprobs writes the logprobs object of a completion choice; offset is that of the first token's text.
func (g *generation) appendLogprobs(dst []byte, tokens []offsetToken, offset int) []byte {
	top := g.common.Sampling.Logprobs
	if top < 0 {
		return append(dst, "null"...)
	}
	each := func(dst []byte, f func([]byte, offsetToken) []byte) []byte {
		for i, t := range tokens {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = f(dst, t)
		}
		return dst
	}
	dst = append(dst, `{"text_offset":[`...)
	dst = each(dst, func(dst []byte, t offsetToken) []byte {
		dst = strconv.AppendInt(dst, int64(offset), 10)
		offset += len([]rune(g.tokenText(t.id)))
		return dst
	})
	dst = append(dst, `],"token_logprobs":[`...)
	dst = each(dst, func(dst []byte, t offsetToken) []byte {
		if t.first {
			return append(dst, "null"...)
		}
		return appendFloat(dst, logprob(t.id, t.place, 0))
	})
	dst = append(dst, `],"tokens":[`...)
	dst = each(dst, func(dst []byte, t offsetToken) []byte { return appendString(dst, g.tokenText(t.id)) })
	dst = append(dst, `],"top_logprobs":[`...)
	dst = each(dst, func(dst []byte, t offsetToken) []byte {
		if t.first {
			return append(dst, "null"...)
		}
		dst = append(dst, '{')
		for rank := range max(1, top) {
			if rank > 0 {
				dst = append(dst, ',')
			}
			alt := g.alternative(t.id, rank)
			dst = appendFloat(append(appendString(dst, g.tokenText(alt)), ':'), logprob(alt, t.place, rank))
		}
		return append(dst, '}')
	})
	return append(dst, "]}"...)
}

// appendPromptLogprobs writes prompt_logprobs: null for the first token, one object keyed by id for each other.
func (g *generation) appendPromptLogprobs(dst []byte, prompt []uint32) []byte {
	if !g.skipsCache() {
		return append(dst, "null"...)
	}
	dst = append(dst, "[null"...)
	for i, id := range prompt[1:] {
		dst = append(dst, `,{"`...)
		dst = strconv.AppendUint(dst, uint64(id), 10)
		dst = appendFloat(append(dst, `":{"logprob":`...), logprob(id, i, 0))
		dst = appendInt(dst, `,"rank":`, int(id)%97+1)
		dst = appendString(append(dst, `,"decoded_token":`...), g.h.detok.piece(id))
		dst = append(dst, "}}"...)
	}
	return append(dst, ']')
}
