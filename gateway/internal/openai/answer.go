package openai

import (
	"bytes"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// maxAnswerDepth bounds the nesting of answers; vLLM's own are below 10, tool schemas echoed back may be deeper.
const maxAnswerDepth = 10000

// Usage is what kvmesh reads of a worker's usage object.
type Usage struct {
	// PromptTokens and OutputTokens are the worker's counts.
	PromptTokens, OutputTokens int64
	// CachedTokens is prompt_tokens_details.cached_tokens, input_tokens_details' in /v1/responses and
	// cache_read_input_tokens in /v1/messages; it means something for one prompt and n = 1.
	CachedTokens int64
	// HasCached tells whether the worker wrote it.
	HasCached bool
}

// Chunk is what kvmesh reads of one event's data, or of a whole plain answer.
type Chunk struct {
	// ID, Choices and Usage are places, kind None when absent.
	ID, Choices, UsageValue jsontext.Value
	// Count is the number of choices.
	Count int
	// Indices is the place of each choice's index.
	Indices []jsontext.Value
	// Finished counts choices with a finish_reason that is not null.
	Finished int
	// Aborted tells that a finish_reason is "abort": vLLM gave the request up.
	Aborted bool
	// Error tells that the event is an error object; ErrorCode is its code when it is a number, ErrorType its type.
	Error     bool
	ErrorCode int
	ErrorType string
	// Usage is nil when absent or null.
	Usage *Usage
	// Fingerprint is the place of system_fingerprint.
	Fingerprint jsontext.Value
}

// UsageOnly tells whether this is the chunk that carries the usage and nothing else.
func (c *Chunk) UsageOnly() bool {
	return c.Choices.Kind == jsontext.Array && c.Count == 0 && c.Usage != nil
}

// ReadChunk reads an event's data or a plain answer. ok is false when it is no JSON object.
func ReadChunk(doc []byte) (c Chunk, ok bool) {
	r, err := jsontext.NewReader(doc, maxAnswerDepth)
	if err != nil || r.Peek() != jsontext.Object {
		return c, false
	}
	p := chunkReader{r: r, doc: doc, c: &c}
	_, err = r.Object(p.member)
	return c, err == nil
}

type chunkReader struct {
	r   *jsontext.Reader
	doc []byte
	c   *Chunk
}

func (p *chunkReader) member(name jsontext.Name) error {
	var err error
	switch {
	case name.Is("id"):
		p.c.ID, err = p.r.Skip()
	case name.Is("system_fingerprint"):
		p.c.Fingerprint, err = p.r.Skip()
	case name.Is("choices") && p.r.Peek() == jsontext.Array:
		p.c.Count = 0
		p.c.Choices, err = p.r.Array(p.choice)
	case name.Is("usage") && p.r.Peek() == jsontext.Object:
		p.c.Usage = &Usage{}
		p.c.UsageValue, err = readUsage(p.r, p.doc, p.c.Usage)
	case name.Is("response") && p.r.Peek() == jsontext.Object: // response.completed of /v1/responses
		_, err = p.r.Object(func(name jsontext.Name) error {
			if name.Is("usage") && p.r.Peek() == jsontext.Object {
				p.c.Usage = &Usage{}
				_, err := readUsage(p.r, p.doc, p.c.Usage)
				return err
			}
			_, err := p.r.Skip()
			return err
		})
	case name.Is("error") && p.r.Peek() == jsontext.Object:
		p.c.Error = true
		_, err = p.r.Object(func(name jsontext.Name) error {
			v, err := p.r.Skip()
			switch {
			case err != nil:
			case name.Is("code"):
				n, _ := jsontext.IntOf(p.doc, v)
				p.c.ErrorCode = int(n)
			case name.Is("type"):
				p.c.ErrorType = jsontext.StringOf(p.doc, v)
			}
			return err
		})
	default:
		_, err = p.r.Skip()
	}
	return err
}

func (p *chunkReader) choice(int) error {
	p.c.Count++
	if p.r.Peek() != jsontext.Object {
		_, err := p.r.Skip()
		return err
	}
	_, err := p.r.Object(func(name jsontext.Name) error {
		v, err := p.r.Skip()
		switch {
		case name.Is("index"):
			p.c.Indices = append(p.c.Indices, v)
		case name.Is("finish_reason") && v.Present():
			p.c.Finished++
			p.c.Aborted = p.c.Aborted || string(v.Text(p.doc)) == `"abort"`
		}
		return err
	})
	return err
}

// readUsage reads a usage object.
func readUsage(r *jsontext.Reader, doc []byte, u *Usage) (jsontext.Value, error) {
	return r.Object(func(name jsontext.Name) error {
		if (name.Is("prompt_tokens_details") || name.Is("input_tokens_details")) && r.Peek() == jsontext.Object {
			_, err := r.Object(func(name jsontext.Name) error {
				v, err := r.Skip()
				if name.Is("cached_tokens") {
					u.CachedTokens, u.HasCached = jsontext.IntOf(doc, v)
				}
				return err
			})
			return err
		}
		v, err := r.Skip()
		switch {
		case name.Is("prompt_tokens"), name.Is("input_tokens"):
			u.PromptTokens, _ = jsontext.IntOf(doc, v)
		case name.Is("completion_tokens"), name.Is("output_tokens"):
			u.OutputTokens, _ = jsontext.IntOf(doc, v)
		case name.Is("cache_read_input_tokens"):
			// 0 may also say that the worker does not tell (without --enable-prompt-tokens-details).
			n, ok := jsontext.IntOf(doc, v)
			u.CachedTokens, u.HasCached = n, ok && n > 0
		}
		return err
	})
}

// FindUsage reads the usage object of a plain answer without walking the rest. A quote inside a JSON string is always
// escaped, so the member's name as it is searched for cannot be part of a text.
func FindUsage(doc []byte) (Usage, bool) {
	at := bytes.LastIndex(doc, []byte(`"usage":`))
	if at < 0 {
		return Usage{}, false
	}
	r := jsontext.Reader{}
	if err := r.Reset(doc[at+len(`"usage":`):], maxAnswerDepth); err != nil || r.Peek() != jsontext.Object {
		return Usage{}, false
	}
	u := Usage{}
	if _, err := readUsage(&r, doc[at+len(`"usage":`):], &u); err != nil {
		return Usage{}, false
	}
	return u, true
}

// MayAbort tells cheaply whether a finish_reason "abort" is possible in doc.
func MayAbort(doc []byte) bool { return bytes.Contains(doc, []byte(`"abort"`)) }
