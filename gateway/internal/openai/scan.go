package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// scanner fills a Request in one pass.
type scanner struct {
	r        jsontext.Reader
	req      Request
	maxDepth int

	// ranked is the prompt's members of a shape that kvmesh does not render, in prompt order whatever the client's.
	ranked [promptMembers][]jsontext.Value

	// The callbacks are made once per request, not once per message.
	onMessage, onCall                      func(int) error
	onMessageMember, onCallMember, onFunct func(jsontext.Name) error
}

// scan walks the whole body.
func (s *scanner) scan() error {
	if err := s.r.Reset(s.req.Doc, s.maxDepth); err != nil {
		return err
	}
	s.r.SkipMark() // Python's reader, and with it vLLM, takes it
	if len(s.req.Doc) == s.r.Pos() {
		return wrongType("body", "a JSON object; it is empty")
	}
	if s.r.Peek() != jsontext.Object {
		if _, err := s.r.Skip(); err != nil {
			return err
		}
		return wrongType("body", "a JSON object")
	}
	root, err := s.r.Object(s.member)
	if err != nil {
		return err
	}
	s.req.root = root
	if err := s.r.End(); err != nil {
		return err
	}
	return s.finish()
}

// finish checks what can only be known at the end.
func (s *scanner) finish() error {
	q := &s.req
	switch q.Shape {
	case ShapeChat:
		if q.Template.Messages.Kind == jsontext.None {
			return wrongType("messages", "given")
		}
		if len(q.Conversation) == 0 {
			return wrongType("messages", "a list with at least one message")
		}
	case ShapeChatBatch:
		if len(q.Template.Batch) == 0 {
			return wrongType("messages", "a list of message lists with at least one entry")
		}
	case ShapeMessages, ShapeResponses:
		for _, values := range s.ranked {
			q.Conversation = append(q.Conversation, values...)
		}
	case ShapeOther, ShapeCompletion:
	}
	return nil
}

// member reads one top-level member.
func (s *scanner) member(name jsontext.Name) error {
	s.req.empty = false
	handled, err := s.common(name)
	if handled || err != nil {
		return err
	}
	switch s.req.Shape {
	case ShapeChat, ShapeChatBatch:
		handled, err = s.chat(name)
	case ShapeCompletion:
		handled, err = s.completion(name)
	case ShapeMessages:
		handled, err = s.parts(name, [...]string{"tools", "system", "messages"})
	case ShapeResponses:
		handled, err = s.responses(name)
	case ShapeOther:
	}
	if handled || err != nil {
		return err
	}
	_, err = s.r.Skip()
	return err
}

// common reads the members that all operations share.
func (s *scanner) common(name jsontext.Name) (bool, error) {
	q := &s.req
	var err error
	switch {
	case name.Is("model"):
		q.ModelValue, err = s.r.Skip()
		if err == nil && q.ModelValue.Kind != jsontext.String && q.ModelValue.Kind != jsontext.Null {
			err = wrongType("model", "a string")
		}
		q.Model = jsontext.StringOf(q.Doc, q.ModelValue)
	case name.Is("stream"):
		var v *bool
		v, err = s.boolean("stream")
		q.Stream = v != nil && *v
	case name.Is("stream_options"):
		err = s.streamOptions()
	case name.Is("n"):
		q.N, err = s.count(1)
	case name.Is("max_tokens"), name.Is("max_completion_tokens"), name.Is("max_output_tokens"):
		q.MaxTokens, err = s.count(0)
	case name.Is("priority"):
		var n int
		n, err = s.integer()
		q.Priority = int32(max(math.MinInt32, min(n, math.MaxInt32)))
	case name.Is("cache_salt"):
		q.CacheSalt, err = s.text()
	case name.Is("session_id"):
		q.Session, err = s.text()
		q.Session = SessionName(q.Session)
	case name.Is("kv_transfer_params"):
		err = s.kvTransfer()
	default:
		return false, nil
	}
	return true, err
}

// boolean reads a flag; null counts as absent.
func (s *scanner) boolean(param string) (*bool, error) {
	v, err := s.r.Skip()
	if err != nil {
		return nil, err
	}
	switch v.Kind {
	case jsontext.True, jsontext.False:
		b := v.Kind == jsontext.True
		return &b, nil
	case jsontext.Null:
		return nil, nil
	default:
		return nil, wrongType(param, "a boolean")
	}
}

// lenient reads a flag that only decides the prediction as vLLM's request model does, which takes 0, 1 and some words
// for booleans too. What is none of these counts as absent, the worker judges it.
func (s *scanner) lenient() (*bool, error) {
	v, err := s.r.Skip()
	if err != nil {
		return nil, err
	}
	yes := v.Kind == jsontext.True
	switch v.Kind {
	case jsontext.True, jsontext.False:
	case jsontext.Number:
		n, ok := jsontext.IntOf(s.req.Doc, v)
		if !ok || n != 0 && n != 1 {
			return nil, nil
		}
		yes = n == 1
	case jsontext.String:
		switch strings.ToLower(jsontext.StringOf(s.req.Doc, v)) {
		case "1", "on", "t", "true", "y", "yes":
			yes = true
		case "0", "off", "f", "false", "n", "no":
		default:
			return nil, nil
		}
	default:
		return nil, nil
	}
	return &yes, nil
}

// integer reads a number that kvmesh only uses as a hint, also one in text, which vLLM takes; anything else is 0.
func (s *scanner) integer() (int, error) {
	v, err := s.r.Skip()
	if err != nil {
		return 0, err
	}
	if v.Kind == jsontext.String {
		n, err := strconv.Atoi(strings.TrimSpace(jsontext.StringOf(s.req.Doc, v)))
		if err != nil {
			n = 0
		}
		return n, nil
	}
	n, _ := jsontext.IntOf(s.req.Doc, v)
	return int(n), nil
}

// count is integer for numbers that must not be below least.
func (s *scanner) count(least int) (int, error) {
	n, err := s.integer()
	return min(max(n, least), math.MaxInt32), err
}

// text reads a string; anything else is empty.
func (s *scanner) text() (string, error) {
	v, err := s.r.Skip()
	return jsontext.StringOf(s.req.Doc, v), err
}

// maxSession bounds a session's name at the scheduler, in bytes; a longer one goes by its digest.
const maxSession = 1024

// SessionName is a session's name as the scheduler takes it.
func SessionName(name string) string {
	if len(name) <= maxSession {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// optionalText reads a string; anything else is absent.
func (s *scanner) optionalText() (*string, error) {
	v, err := s.r.Skip()
	if err != nil || v.Kind != jsontext.String {
		return nil, err
	}
	t := jsontext.StringOf(s.req.Doc, v)
	return &t, nil
}

// streamOptions reads include_usage.
func (s *scanner) streamOptions() error {
	q := &s.req
	q.IncludeUsage = false
	var err error
	if s.r.Peek() != jsontext.Object {
		q.StreamOptions, err = s.r.Skip()
		return err
	}
	q.StreamOptions, err = s.r.Object(func(name jsontext.Name) error {
		if !name.Is("include_usage") {
			_, err := s.r.Skip()
			return err
		}
		v, err := s.lenient()
		q.IncludeUsage = v != nil && *v
		return err
	})
	return err
}

// kvTransfer removes prompt_token_ids: it would replace the prompt behind the template's back, and it is the gateway's
// own way to send ids.
func (s *scanner) kvTransfer() error {
	q := &s.req
	var err error
	if s.r.Peek() != jsontext.Object {
		q.KVTransfer, err = s.r.Skip()
		return err
	}
	var kept [][]byte
	found := false
	q.KVTransfer, err = s.r.Object(func(name jsontext.Name) error {
		v, err := s.r.Skip()
		switch {
		case err != nil:
			return err
		case name.Is("prompt_token_ids"):
			found = true
		default:
			kept = append(kept, q.Doc[name.Start:v.End])
		}
		return nil
	})
	if err == nil && found {
		text := []byte{'{'}
		for i, m := range kept {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(text, m...)
		}
		q.edits = append(q.edits, jsontext.Replace(q.KVTransfer, append(text, '}')))
	}
	return err
}
