package api

// appendUsage writes the usage object of a whole answer, nulls included.
func (g *generation) appendUsage(dst []byte) []byte {
	u := g.usage()
	dst = appendInt(dst, `"usage":{"prompt_tokens":`, u.prompt)
	dst = appendInt(dst, `,"total_tokens":`, u.prompt+u.completion)
	dst = appendInt(dst, `,"completion_tokens":`, u.completion)
	if g.h.set.PromptTokenDetails {
		dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.cached)
		if g.chat {
			dst = appendInt(dst, `,"created_cache_tokens":`, u.created)
		} else {
			dst = append(dst, `,"created_cache_tokens":null`...)
		}
		dst = append(dst, `,"multimodal_tokens":null}`...)
	} else {
		dst = append(dst, `,"prompt_tokens_details":null`...)
	}
	if g.chat && g.h.set.ReasoningParser {
		dst = appendInt(dst, `,"completion_tokens_details":{"reasoning_tokens":`, u.thought)
		return append(dst, "}}"...)
	}
	return append(dst, `,"completion_tokens_details":null}`...)
}

// appendFinalUsage writes the usage of a stream's last chunk, in which unset fields are absent.
func (g *generation) appendFinalUsage(dst []byte) []byte {
	u := g.usage()
	dst = appendInt(dst, `"usage":{"prompt_tokens":`, u.prompt)
	dst = appendInt(dst, `,"total_tokens":`, u.prompt+u.completion)
	dst = appendInt(dst, `,"completion_tokens":`, u.completion)
	if g.h.set.PromptTokenDetails {
		dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.cached)
		if g.chat {
			dst = appendInt(dst, `,"created_cache_tokens":`, u.created)
		}
		dst = append(dst, '}')
	}
	return append(g.appendThought(dst, u.thought), '}')
}

// appendRunningUsage writes the usage of a chunk under continuous_usage_stats: of one choice, after n tokens.
func (g *generation) appendRunningUsage(dst []byte, s *sequence, n int) []byte {
	prompt := len(s.seq.Prompt)
	dst = appendInt(dst, `,"usage":{"prompt_tokens":`, prompt)
	dst = appendInt(dst, `,"total_tokens":`, prompt+n)
	dst = appendInt(dst, `,"completion_tokens":`, n)
	return append(g.appendThought(dst, min(n, s.plan.thought)), '}')
}

// appendThought writes how many tokens were reasoning. Only chats behind a reasoning parser have that.
func (g *generation) appendThought(dst []byte, n int) []byte {
	if !g.chat || !g.h.set.ReasoningParser {
		return dst
	}
	return append(appendInt(dst, `,"completion_tokens_details":{"reasoning_tokens":`, n), '}')
}

// appendHead writes the fields with which every body and chunk begins.
func (g *generation) appendHead(dst []byte, object string) []byte {
	dst = append(appendString(append(dst, `{"id":`...), g.id), `,"object":"`...)
	dst = append(append(dst, object...), `","created":`...)
	dst = appendInt(dst, "", int(g.created))
	return appendString(append(dst, `,"model":`...), g.model)
}

// appendFingerprint writes the fingerprint, which says that the worker is simulated.
func (g *generation) appendFingerprint(dst []byte) []byte {
	return appendString(append(dst, `,"system_fingerprint":`...), g.h.set.Fingerprint)
}
