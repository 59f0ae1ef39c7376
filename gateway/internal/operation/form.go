package operation

import (
	"bytes"
	"mime"
	"strconv"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
	"github.com/kvmesh/kvmesh/gateway/internal/prompt"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// form is an operation whose request is a multipart form. Its bytes go on as they are, but for a model alias.
func (s *Service) form(st stream, name, path string, q *gatewayv1.FormRequest) error {
	return s.serve(st, name, func(t *task) (*dispatch.Answer, error) {
		raw := q.GetForm()
		t.in.Record.BytesIn = len(raw)
		if err := s.fits(raw); err != nil {
			return nil, err
		}
		field, err := formField(raw, q.GetContentType(), "model")
		if err != nil {
			return nil, err
		}
		stream, err := formField(raw, q.GetContentType(), "stream")
		if err != nil {
			return nil, err
		}
		model := q.GetModel()
		if model == "" {
			model = string(field.Text(raw))
		}
		m, err := s.model(t, model)
		if err != nil {
			return nil, err
		}
		if err := s.enter(t, m); err != nil {
			return nil, err
		}
		p := &prompt.Prompt{
			Tokens: 1, Certainty: schedulerv1.Certainty_CERTAINTY_FALLBACK, Reason: prompt.ReasonOperation,
		}
		j := s.newJob(t, "POST", path, m, p)
		j.Fields = s.cfg.Forward.Outgoing(t.in, q.GetContentType())
		j.Form = raw
		if m.Rename && field.Kind != jsontext.None {
			j.Form = jsontext.Join(jsontext.Splice(raw, []jsontext.Edit{jsontext.Replace(field, []byte(m.ID))}))
		}
		j.Stream = string(stream.Text(raw)) == "true" || string(stream.Text(raw)) == "True"
		t.in.Record.Stream = j.Stream
		return s.open(t, kind{}, j)
	})
}

// formField finds a field's value in a multipart form; of several with the name the last one counts, as in vLLM. Kind
// None means that there is no such field.
func formField(form []byte, contentType, name string) (jsontext.Value, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["boundary"] == "" {
		return jsontext.Value{}, fault.New(faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE,
			"The content type must be multipart/form-data with a boundary.")
	}
	delimiter := []byte("--" + params["boundary"])
	var found jsontext.Value
	_, at, ok := nextPart(form, 0, delimiter)
	for ok {
		head := bytes.Index(form[at:], []byte("\r\n\r\n"))
		if head < 0 {
			break
		}
		start := at + head + 4
		named := namesField(form[at:at+head], name)
		var end int
		end, at, ok = nextPart(form, start, delimiter)
		switch {
		case named && end < 0:
			return jsontext.Value{}, fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "The form ends early.").WithParam(name)
		case named:
			found = jsontext.Value{Kind: jsontext.String, Start: start, End: end}
		}
	}
	return found, nil
}

// nextPart finds the next line that is a delimiter, from a part's data on: where the data ends, -1 when the form has no
// end, and where the next part's header lines begin; more is false at the form's last delimiter. A delimiter inside data is
// no line of its own (RFC 2046 §5.1.1).
func nextPart(form []byte, from int, delimiter []byte) (end, next int, more bool) {
	for at := from; ; {
		i := bytes.Index(form[at:], delimiter)
		if i < 0 {
			return -1, 0, false
		}
		i += at
		at = i + len(delimiter)
		rest := form[at:]
		if ownLine := i == 0 || i-2 >= from && form[i-2] == '\r' && form[i-1] == '\n'; !ownLine {
			continue
		}
		end = max(i-2, from)
		if bytes.HasPrefix(rest, []byte("--")) {
			return end, 0, false
		}
		padding := len(rest) - len(bytes.TrimLeft(rest, " \t"))
		if bytes.HasPrefix(rest[padding:], []byte("\r\n")) {
			return end, at + padding, true
		}
	}
}

// namesField tells whether a part's header lines name the field.
func namesField(head []byte, name string) bool {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(bytes.TrimSpace(key), []byte("content-disposition")) {
			continue
		}
		_, params, err := mime.ParseMediaType(string(value))
		return err == nil && params["name"] == name
	}
	return false
}
