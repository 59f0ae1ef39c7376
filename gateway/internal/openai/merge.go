package openai

import (
	"strconv"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// Merge joins the answers of the prompts of one request, in prompt order: the first one's members, everybody's choices
// with index = prompt · n + own index, and the usage summed. ok is false when an answer is no object with choices.
func Merge(docs [][]byte, n int) (merged []byte, ok bool) {
	choices := []byte{'['}
	usages := make([][]byte, 0, len(docs))
	var frame Chunk
	for i, doc := range docs {
		c, ok := ReadChunk(doc)
		if !ok || c.Choices.Kind != jsontext.Array {
			return nil, false
		}
		if i == 0 {
			frame = c
		}
		items := jsontext.Join(renumber(doc, &c, i*n))
		if len(items) > 0 && len(choices) > 1 {
			choices = append(choices, ',')
		}
		choices = append(choices, items...)
		if c.Usage != nil {
			usages = append(usages, c.UsageValue.Text(doc))
		}
	}
	edits := []jsontext.Edit{jsontext.Replace(frame.Choices, append(choices, ']'))}
	if frame.Usage != nil && len(usages) > 0 {
		edits = append(edits, jsontext.Replace(frame.UsageValue, SumUsage(usages)))
	}
	return jsontext.Join(jsontext.Splice(docs[0], edits)), true
}

// renumber is the inside of an answer's choices with every index moved by offset.
func renumber(doc []byte, c *Chunk, offset int) [][]byte {
	inside := doc[c.Choices.Start+1 : c.Choices.End-1]
	return jsontext.Splice(inside, indexEdits(doc, c, offset, c.Choices.Start+1))
}

// indexEdits moves indices; base is where the edited text begins in doc.
func indexEdits(doc []byte, c *Chunk, offset, base int) []jsontext.Edit {
	edits := make([]jsontext.Edit, 0, len(c.Indices)+2)
	for _, v := range c.Indices {
		own, _ := jsontext.IntOf(doc, v)
		e := jsontext.Replace(v, strconv.AppendInt(nil, own+int64(offset), 10))
		e.Start -= base
		e.End -= base
		edits = append(edits, e)
	}
	return edits
}

// Renumber is an event's data with its indices moved by offset and its id replaced, where id is not nil.
func Renumber(doc []byte, c *Chunk, offset int, id []byte) []byte {
	edits := indexEdits(doc, c, offset, 0)
	if id != nil && c.ID.Kind == jsontext.String {
		edits = append(edits, jsontext.Replace(c.ID, id))
	}
	return jsontext.Join(jsontext.Splice(doc, edits))
}

// WithUsage is the document with its usage replaced.
func WithUsage(doc []byte, c *Chunk, usage []byte) []byte {
	return jsontext.Join(jsontext.Splice(doc, []jsontext.Edit{jsontext.Replace(c.UsageValue, usage)}))
}

// SumUsage adds usage objects number by number, at every depth. The longest one gives the members and their order.
func SumUsage(usages [][]byte) []byte {
	frame := usages[0]
	for _, u := range usages {
		if len(u) > len(frame) {
			frame = u
		}
	}
	sums := map[string]int64{}
	for _, u := range usages {
		eachNumber(u, func(path string, v jsontext.Value) {
			n, _ := jsontext.IntOf(u, v)
			sums[path] += n
		})
	}
	var edits []jsontext.Edit
	eachNumber(frame, func(path string, v jsontext.Value) {
		edits = append(edits, jsontext.Replace(v, strconv.AppendInt(nil, sums[path], 10)))
	})
	return jsontext.Join(jsontext.Splice(frame, edits))
}

// eachNumber visits the numbers of an object with their paths.
func eachNumber(doc []byte, visit func(path string, v jsontext.Value)) {
	r, err := jsontext.NewReader(doc, maxAnswerDepth)
	if err != nil {
		return
	}
	var walk func(path string) error
	walk = func(path string) error {
		if r.Peek() == jsontext.Object {
			_, err := r.Object(func(n jsontext.Name) error { return walk(path + "/" + n.Text()) })
			return err
		}
		v, err := r.Skip()
		if err == nil && v.Kind == jsontext.Number {
			visit(path, v)
		}
		return err
	}
	_ = walk("")
}
