package openai

import (
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

const promptForms = "a string, a list of strings, a list of token ids or a list of such lists"

// completion reads the members of a completion that decide its prompt.
func (s *scanner) completion(name jsontext.Name) (bool, error) {
	switch {
	case name.Is("prompt"):
		return true, s.prompt()
	case name.Is("logprobs"):
		v, err := s.r.Skip()
		s.req.logprobs.plain = v.Present()
		return true, err
	}
	return s.tokens(name)
}

// tokens reads the members of chats and completions that decide what becomes of a prompt's tokens.
func (s *scanner) tokens(name jsontext.Name) (bool, error) {
	q := &s.req
	var flag *bool
	var err error
	switch {
	case name.Is("add_special_tokens"):
		flag, err = s.lenient()
		q.AddSpecialTokens = q.Shape == ShapeCompletion
		if flag != nil {
			q.AddSpecialTokens = *flag
		}
	case name.Is("truncate_prompt_tokens"):
		q.Keep, err = s.truncation()
	case name.Is("prompt_logprobs"):
		var v jsontext.Value
		v, err = s.r.Skip()
		q.logprobs.prompt = v.Present()
	case name.Is("echo"):
		flag, err = s.lenient()
		q.logprobs.echo = flag != nil && *flag
	default:
		return false, nil
	}
	return true, err
}

// truncation reads truncate_prompt_tokens, -1 for what says nothing.
func (s *scanner) truncation() (int, error) {
	if k := s.r.Peek(); k != jsontext.Number && k != jsontext.String {
		_, err := s.r.Skip()
		return -1, err
	}
	return s.integer()
}

// prompt reads the four forms of a prompt.
func (s *scanner) prompt() error {
	p := &s.req.Prompt
	*p = Prompt{}
	if s.r.Peek() != jsontext.Array {
		v, err := s.r.Skip()
		if err == nil && v.Kind != jsontext.String && v.Kind != jsontext.Null {
			err = wrongType("prompt", promptForms)
		}
		p.Value = v
		return err
	}
	kind := jsontext.None
	v, err := s.r.Array(func(int) error {
		k := s.r.Peek()
		if kind == jsontext.None {
			kind = k
		}
		if k != kind {
			return wrongType("prompt", promptForms)
		}
		item, err := s.promptItem(k)
		if err == nil && k != jsontext.Number {
			p.Items = append(p.Items, item)
		}
		return err
	})
	if err != nil {
		return err
	}
	if kind == jsontext.None {
		return wrongType("prompt", promptForms+"; it must not be empty")
	}
	p.Value, p.Many, p.IDs = v, kind != jsontext.Number, kind != jsontext.String
	return nil
}

// promptItem reads one entry of a prompt list.
func (s *scanner) promptItem(k jsontext.Kind) (jsontext.Value, error) {
	switch k {
	case jsontext.String, jsontext.Number:
		return s.r.Skip()
	case jsontext.Array:
		return s.r.Array(func(int) error {
			if s.r.Peek() != jsontext.Number {
				return wrongType("prompt", promptForms)
			}
			_, err := s.r.Skip()
			return err
		})
	default:
		return jsontext.Value{}, wrongType("prompt", promptForms)
	}
}

// TokenIDs decodes a list of ids that Scan has checked. ok is false when an entry is no 32-bit id; the worker judges.
func TokenIDs(doc []byte, v jsontext.Value) (ids []uint32, ok bool) {
	text := v.Text(doc)
	ids = make([]uint32, 0, len(text)/4)
	id, digits := uint64(0), 0
	for _, c := range text[1:] {
		switch {
		case c >= '0' && c <= '9':
			id = id*10 + uint64(c-'0')
			digits++
			if id > 1<<32-1 {
				return nil, false
			}
		case c == ',' || c == ']':
			if digits > 0 {
				ids = append(ids, uint32(id))
			}
			id, digits = 0, 0
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		default:
			return nil, false
		}
	}
	return ids, true
}
