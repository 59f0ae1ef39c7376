package openai

import (
	"strconv"

	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"

	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
)

// builder writes a JSON object member by member; members that are absent leave no trace.
type builder struct {
	b    []byte
	some bool
	err  error
}

func newBuilder() *builder { return &builder{b: []byte{'{'}} }

func (w *builder) name(n string) {
	if w.some {
		w.b = append(w.b, ',')
	}
	w.some = true
	w.b = append(w.b, '"')
	w.b = append(w.b, n...)
	w.b = append(w.b, '"', ':')
}

func (w *builder) text(n string, v *string) {
	if v != nil {
		w.name(n)
		w.b = jsontext.AppendQuoted(w.b, []byte(*v))
	}
}

// named writes a string unless it is empty.
func (w *builder) named(n, v string) {
	if v != "" {
		w.text(n, &v)
	}
}

func (w *builder) boolean(n string, v *bool) {
	if v != nil {
		w.name(n)
		w.b = strconv.AppendBool(w.b, *v)
	}
}

func (w *builder) float(n string, v *float64) {
	if v != nil {
		w.name(n)
		w.b = strconv.AppendFloat(w.b, *v, 'g', -1, 64)
	}
}

func (w *builder) integer(n string, v *int64) {
	if v != nil {
		w.name(n)
		w.b = strconv.AppendInt(w.b, *v, 10)
	}
}

func (w *builder) count(n string, v *uint32) {
	if v != nil {
		w.name(n)
		w.b = strconv.AppendUint(w.b, uint64(*v), 10)
	}
}

// raw writes a JSON value after checking it.
func (w *builder) raw(n string, v []byte) {
	if len(v) == 0 || w.err != nil {
		return
	}
	r, err := jsontext.NewReader(v, maxAnswerDepth)
	if err == nil {
		_, err = r.Skip()
	}
	if err == nil {
		err = r.End()
	}
	if err != nil {
		w.err = wrongType(n, "valid JSON")
		return
	}
	w.name(n)
	w.b = append(w.b, v...)
}

func (w *builder) texts(n string, vs []string) {
	if len(vs) == 0 {
		return
	}
	w.name(n)
	w.list(len(vs), func(i int) { w.b = jsontext.AppendQuoted(w.b, []byte(vs[i])) })
}

func (w *builder) list(n int, item func(i int)) {
	w.b = append(w.b, '[')
	for i := range n {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		item(i)
	}
	w.b = append(w.b, ']')
}

// extra copies the members of a JSON object.
func (w *builder) extra(v []byte) {
	if len(v) == 0 || w.err != nil {
		return
	}
	r, err := jsontext.NewReader(v, maxAnswerDepth)
	if err == nil {
		_, err = r.Object(func(name jsontext.Name) error {
			m, err := r.Skip()
			if err == nil {
				if w.some {
					w.b = append(w.b, ',')
				}
				w.some = true
				w.b = append(w.b, v[name.Start:m.End]...)
			}
			return err
		})
	}
	if err != nil || r.End() != nil {
		w.err = wrongType("extra_json", "a JSON object")
	}
}

// nested writes an object or another value with the builder's own state.
func (w *builder) nested(fill func()) {
	outer := w.some
	w.some = false
	w.b = append(w.b, '{')
	fill()
	w.b = append(w.b, '}')
	w.some = outer
}

func (w *builder) done() ([]byte, error) { return append(w.b, '}'), w.err }

func (w *builder) streamOptions(o *gatewayv1.StreamOptions) {
	if o == nil {
		return
	}
	w.name("stream_options")
	w.nested(func() {
		w.boolean("include_usage", o.IncludeUsage)
		w.boolean("continuous_usage_stats", o.ContinuousUsageStats)
	})
}

func (w *builder) priority(p *int32) {
	if p != nil {
		v := int64(*p)
		w.integer("priority", &v)
	}
}

// JSON is the body of an operation without typed members of its own.
func JSON(q *gatewayv1.JSONRequest) ([]byte, error) {
	if len(q.GetRawJson()) > 0 {
		return q.GetRawJson(), nil
	}
	w := newBuilder()
	w.named("model", q.GetModel())
	w.boolean("stream", q.Stream)
	w.extra(q.GetExtraJson())
	return w.done()
}
