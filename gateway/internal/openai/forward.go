package openai

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// Forward says what differs between the client's body and the worker's.
type Forward struct {
	// Model replaces the model name, empty leaves it. It is also inserted where the client sent none.
	Model string
	// AskUsage adds stream_options.include_usage to a stream whose client sent no stream_options.
	AskUsage bool
	// TokenIDs, if any, go along in kv_transfer_params.prompt_token_ids.
	TokenIDs []uint32
	// Item replaces the prompt list, or the batch of conversations, by the one entry at this index; -1 leaves it.
	Item int
}

// Body is the worker's body as segments that share the client's bytes.
func (q *Request) Body(f Forward) [][]byte {
	var edits []jsontext.Edit
	if f.Item >= 0 {
		edits = q.itemEdits(f.Item)
	} else {
		edits = append(make([]jsontext.Edit, 0, len(q.edits)+4), q.edits...)
	}
	empty := q.empty
	add := func(source []byte) {
		edits = append(edits, jsontext.AddMember(q.root, empty, source))
		empty = false
	}
	switch {
	case f.Model == "":
	case q.ModelValue.Kind != jsontext.None:
		edits = append(edits, jsontext.Replace(q.ModelValue, jsontext.Quote(f.Model)))
	default:
		add(append([]byte(`"model":`), jsontext.Quote(f.Model)...))
	}
	if f.AskUsage && q.CanAskUsage() {
		add([]byte(`"stream_options":{"include_usage":true}`))
	}
	if len(f.TokenIDs) > 0 && q.KVTransfer.Kind == jsontext.None {
		add(tokenIDsMember(f.TokenIDs))
	}
	return jsontext.Splice(q.Doc, edits)
}

// CanAskUsage tells whether usage can be asked for without touching a member of the client's.
func (q *Request) CanAskUsage() bool {
	return q.Stream && q.StreamOptions.Kind == jsontext.None && (q.Shape == ShapeChat || q.Shape == ShapeCompletion)
}

// item is the place of a list of prompts and of its i-th entry.
func (q *Request) item(i int) (whole, item jsontext.Value) {
	if q.Shape == ShapeChatBatch {
		return q.Template.Messages, q.Template.Batch[i]
	}
	return q.Prompt.Value, q.Prompt.Items[i]
}

// itemEdits is the edits outside the list of prompts, those inside its i-th entry, and those that leave this entry alone. It
// looks for them: a batch of thousands of conversations may hold a million edits.
func (q *Request) itemEdits(i int) []jsontext.Edit {
	whole, item := q.item(i)
	from := func(offset int) int { // of the edits, which lie in the document's order
		n, _ := slices.BinarySearchFunc(q.edits, offset, func(e jsontext.Edit, at int) int { return cmp.Compare(e.Start, at) })
		return n
	}
	before, inside, after := q.edits[:from(whole.Start)], q.edits[from(item.Start):from(item.End)], q.edits[from(whole.End):]
	edits := append(make([]jsontext.Edit, 0, len(before)+len(inside)+len(after)+6), before...)
	edits = append(append(edits, inside...), after...)
	return append(edits,
		jsontext.Edit{Start: whole.Start, End: item.Start}, jsontext.Edit{Start: item.End, End: whole.End})
}

func tokenIDsMember(ids []uint32) []byte {
	b := make([]byte, 0, 48+7*len(ids))
	b = append(b, `"kv_transfer_params":{"prompt_token_ids":[`...)
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, "]}"...)
}

// Single is the view of the i-th prompt of q as a request of its own, for routing. Its body is made by q.Body with
// Item = i.
func (q *Request) Single(i int) *Request {
	one := *q
	if q.Shape == ShapeChatBatch {
		one.Shape = ShapeChat
		one.Template.Messages = q.Template.Batch[i]
		one.Conversation = within(q.Conversation, q.Template.Batch[i])
		one.Template.Batch = nil
		return &one
	}
	one.Prompt.Value, one.Prompt.Many, one.Prompt.Items = q.Prompt.Items[i], false, nil
	return &one
}

// within is the part of vs, which are in document order, that lies inside v.
func within(vs []jsontext.Value, v jsontext.Value) []jsontext.Value {
	first, _ := slices.BinarySearchFunc(vs, v.Start, func(c jsontext.Value, at int) int { return cmp.Compare(c.Start, at) })
	last := first
	for last < len(vs) && vs[last].End <= v.End {
		last++
	}
	return vs[first:last]
}

// PromptText is the text of a completion's prompt.
func (q *Request) PromptText() []byte {
	v := q.Prompt.Value
	if v.Kind != jsontext.String {
		return nil
	}
	raw := q.Doc[v.Start+1 : v.End-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return []byte(jsontext.StringOf(q.Doc, v))
}
