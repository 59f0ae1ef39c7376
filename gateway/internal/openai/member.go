package openai

import (
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
	"github.com/kvmesh/kvmesh/gateway/internal/sse"
)

// find is the place of a top-level member, the last one of several; kind None when there is none.
func find(doc []byte, name string) jsontext.Value {
	var out jsontext.Value
	r, err := jsontext.NewReader(doc, maxAnswerDepth)
	if err != nil || r.Peek() != jsontext.Object {
		return out
	}
	_, err = r.Object(func(n jsontext.Name) error {
		v, err := r.Skip()
		if n.Is(name) {
			out = v
		}
		return err
	})
	if err != nil {
		return jsontext.Value{}
	}
	return out
}

// HasMember tells whether a JSON object has a top-level member.
func HasMember(doc []byte, name string) bool { return find(doc, name).Kind != jsontext.None }

// TextMember is a top-level string, empty when there is none.
func TextMember(doc []byte, name string) string { return jsontext.StringOf(doc, find(doc, name)) }

// WithText is the document with a top-level member replaced by a string.
func WithText(doc []byte, name, value string) []byte {
	v := find(doc, name)
	if v.Kind == jsontext.None {
		return doc
	}
	return jsontext.Join(jsontext.Splice(doc, []jsontext.Edit{jsontext.Replace(v, jsontext.Quote(value))}))
}

// FirstResponseID is the id of the response that the first event of a responses stream announces.
func FirstResponseID(events []byte) string {
	s := sse.NewSplitter()
	end := s.Next(events, 0)
	if end < 0 {
		return ""
	}
	data := sse.Parse(events[:end]).Data
	v := find(data, "response")
	if v.Kind != jsontext.Object {
		return ""
	}
	return TextMember(v.Text(data), "id")
}
