package openai

import (
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// chat reads the members of a chat request that decide its prompt.
func (s *scanner) chat(name jsontext.Name) (bool, error) {
	t := &s.req.Template
	var err error
	switch {
	case name.Is("messages"):
		err = s.messages()
	case name.Is("tools"):
		t.Tools, err = s.r.Skip()
	case name.Is("tool_choice"):
		t.ToolChoice, err = s.r.Skip()
	case name.Is("chat_template_kwargs"):
		t.Kwargs, err = s.r.Skip()
	case name.Is("documents"):
		t.Documents, err = s.r.Skip()
	case name.Is("chat_template"):
		t.ChatTemplate, err = s.optionalText()
	case name.Is("reasoning_effort"):
		t.ReasoningEffort, err = s.optionalText()
	case name.Is("add_generation_prompt"):
		t.AddGenerationPrompt, err = s.lenient()
	case name.Is("continue_final_message"):
		t.ContinueFinalMessage, err = s.lenient()
	default:
		return s.tokens(name)
	}
	return true, err
}

// messages reads one conversation, or the conversations of a batch.
func (s *scanner) messages() error {
	q := &s.req
	q.Conversation, q.Template.Batch = q.Conversation[:0], q.Template.Batch[:0]
	s.prepare()
	if s.r.Peek() != jsontext.Array {
		if _, err := s.r.Skip(); err != nil {
			return err
		}
		return wrongType("messages", "a list of messages")
	}
	var err error
	if q.Shape == ShapeChat {
		q.Template.Messages, err = s.r.Array(s.onMessage)
		return err
	}
	q.Template.Messages, err = s.r.Array(func(int) error {
		if s.r.Peek() != jsontext.Array {
			return wrongType("messages", "a list of message lists")
		}
		v, err := s.r.Array(s.onMessage)
		q.Template.Batch = append(q.Template.Batch, v)
		return err
	})
	return err
}

// prepare makes the callbacks for messages and their tool calls.
func (s *scanner) prepare() {
	if s.onMessage != nil {
		return
	}
	s.onMessage = func(int) error {
		if s.r.Peek() != jsontext.Object {
			return wrongType("messages", "a list of objects")
		}
		v, err := s.r.Object(s.onMessageMember)
		s.req.Conversation = append(s.req.Conversation, v)
		return err
	}
	s.onMessageMember = func(name jsontext.Name) error {
		if name.Is("tool_calls") && s.r.Peek() == jsontext.Array {
			_, err := s.r.Array(s.onCall)
			return err
		}
		_, err := s.r.Skip()
		return err
	}
	s.onCall = func(int) error { return s.objectOrSkip(s.onCallMember) }
	s.onCallMember = func(name jsontext.Name) error {
		if name.Is("function") {
			return s.objectOrSkip(s.onFunct)
		}
		_, err := s.r.Skip()
		return err
	}
	s.onFunct = s.functionMember
}

// functionMember turns object arguments into text that holds the object's own source: vLLM 0.32 answers objects in
// historical tool calls with 400, and clients send them.
func (s *scanner) functionMember(name jsontext.Name) error {
	v, err := s.r.Skip()
	if err == nil && v.Kind == jsontext.Object && name.Is("arguments") {
		source := v.Text(s.req.Doc)
		quoted := jsontext.AppendQuoted(make([]byte, 0, len(source)+len(source)/4+2), source)
		s.req.edits = append(s.req.edits, jsontext.Replace(v, quoted))
	}
	return err
}

func (s *scanner) objectOrSkip(member func(jsontext.Name) error) error {
	if s.r.Peek() != jsontext.Object {
		_, err := s.r.Skip()
		return err
	}
	_, err := s.r.Object(member)
	return err
}

// promptMembers is how many members make up a prompt that kvmesh does not render.
const promptMembers = 3

// parts collects the values whose bytes make up a prompt that kvmesh does not render; names are in prompt order.
// Clients write members in any order (Anthropic's sends messages before system), and the last of two equal members
// counts.
func (s *scanner) parts(name jsontext.Name, names [promptMembers]string) (bool, error) {
	for rank, n := range names {
		if !name.Is(n) {
			continue
		}
		s.ranked[rank] = s.ranked[rank][:0]
		keep := func(int) error {
			v, err := s.r.Skip()
			s.ranked[rank] = append(s.ranked[rank], v)
			return err
		}
		if s.r.Peek() != jsontext.Array {
			return true, keep(0)
		}
		_, err := s.r.Array(keep)
		return true, err
	}
	return false, nil
}

func (s *scanner) responses(name jsontext.Name) (bool, error) {
	if name.Is("previous_response_id") {
		var err error
		s.req.PreviousResponse, err = s.text()
		return true, err
	}
	return s.parts(name, [...]string{"tools", "instructions", "input"})
}
