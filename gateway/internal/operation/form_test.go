package operation

import (
	"bytes"
	"io"
	"mime/multipart"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"

	"github.com/kvmesh/kvmesh/gateway/internal/dispatch"
	"github.com/kvmesh/kvmesh/gateway/internal/jsontext"
	"github.com/kvmesh/kvmesh/gateway/internal/reply"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// form is a form made by Go's own writer.
func form(t *testing.T, fields ...string) (body []byte, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	f, err := w.CreateFormFile("file", "a.wav")
	require.NoError(t, err)
	_, err = io.WriteString(f, "RIFF\r\n\r\nname=\"model\"\r\n\r\nnot this\r\n")
	require.NoError(t, err)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, w.WriteField(fields[i], fields[i+1]))
	}
	require.NoError(t, w.Close())
	return b.Bytes(), w.FormDataContentType()
}

func TestFormField(t *testing.T) {
	t.Parallel()
	body, kind := form(t, "language", "de", "model", "whisper", "stream", "true")
	v, err := formField(body, kind, "model")
	require.NoError(t, err)
	require.Equal(t, "whisper", string(v.Text(body)), "the file's content is not taken for a field")
	v, err = formField(body, kind, "stream")
	require.NoError(t, err)
	require.Equal(t, "true", string(v.Text(body)))
	v, err = formField(body, kind, "none")
	require.NoError(t, err)
	require.Equal(t, jsontext.None, v.Kind)
}

// TestFormFieldSplice: the changed form is one that Go's reader understands.
func TestFormFieldSplice(t *testing.T) {
	t.Parallel()
	body, kind := form(t, "model", "short", "prompt", "p")
	v, err := formField(body, kind, "model")
	require.NoError(t, err)
	changed := jsontext.Join(jsontext.Splice(body, []jsontext.Edit{jsontext.Replace(v, []byte("acme/long-name"))}))
	boundary := kind[len("multipart/form-data; boundary="):]
	f, err := multipart.NewReader(bytes.NewReader(changed), boundary).ReadForm(1 << 20)
	require.NoError(t, err)
	require.Equal(t, []string{"acme/long-name"}, f.Value["model"])
	require.Equal(t, []string{"p"}, f.Value["prompt"])
	require.Len(t, f.File["file"], 1)
}

func TestBadForms(t *testing.T) {
	t.Parallel()
	body, kind := form(t, "model", "m")
	for name, row := range map[string]struct {
		body []byte
		kind string
		want fault.Reason
	}{
		"no boundary": {body, "multipart/form-data", faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE},
		"no type":     {body, "", faultv1.Reason_REASON_UNSUPPORTED_MEDIA_TYPE},
		"cut":         {body[:bytes.LastIndex(body, []byte("\r\n--"))], kind, faultv1.Reason_REASON_INVALID_REQUEST},
	} {
		_, err := formField(row.body, row.kind, "model")
		require.Equal(t, row.want, fault.ReasonOf(err), name)
	}
	v, err := formField([]byte("nothing"), kind, "model")
	require.NoError(t, err)
	require.Equal(t, jsontext.None, v.Kind)
}

func FuzzFormField(f *testing.F) {
	f.Add([]byte("--B\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--B--\r\n"))
	f.Add([]byte("--B--B\r\n\r\n--B"))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := formField(body, "multipart/form-data; boundary=B", "model")
		if err == nil && v.Kind != jsontext.None {
			require.LessOrEqual(t, v.Start, v.End)
			require.LessOrEqual(t, v.End, len(body))
		}
	})
}

func TestStoredIsBoundedAndForgetsTheOldest(t *testing.T) {
	t.Parallel()
	s := newStored()
	note := func(i int64) {
		a := &dispatch.Answer{Status: 200, Body: []byte(`{"id":"resp_` + itoa(i) + `"}`)}
		a.Lease = &dispatch.Lease{Route: &schedulerv1.RouteResponse{Reservation: uint64(i)}}
		s.note(a)
	}
	for i := range int64(maxStored + 10) {
		note(i)
	}
	require.Len(t, s.where, maxStored)
	require.Nil(t, s.find("resp_9"))
	require.EqualValues(t, 10, s.find("resp_10").GetReservation())
	s.note(&dispatch.Answer{Status: 500, Body: []byte(`{"id":"resp_x"}`)})
	require.Nil(t, s.find("resp_x"), "only what the worker has stored")
}

// out is a writer that keeps what it is given.
type out struct {
	head *reply.Head
	data bytes.Buffer
}

func (o *out) Head(h *reply.Head) error { o.head = h; return nil }

func (o *out) Data(p []byte) error { o.data.Write(p); return nil }

func (o *out) Trailer(string, string) {}

func TestBeating(t *testing.T) {
	t.Parallel()
	o := &out{}
	b := &beating{w: o}
	b.beat()
	require.Equal(t, 200, o.head.Status)
	require.Equal(t, comment, o.data.String())
	require.NoError(t, b.Data([]byte("data: 1\n\n")))
	b.beat()
	require.Equal(t, comment+"data: 1\n\n", o.data.String(), "no comment while something goes out")
	b.beat()
	require.Equal(t, comment+"data: 1\n\n"+comment, o.data.String())
}

// TestBeatingWrapsAPlainAnswer: once a comment has sent the head of a stream, a refusal can only come as an event.
func TestBeatingWrapsAPlainAnswer(t *testing.T) {
	t.Parallel()
	o := &out{}
	b := &beating{w: o}
	b.beat()
	require.NoError(t, reply.JSON(b, 503, []byte(`{"error":{}}`)))
	require.Equal(t, comment+"data: {\"error\":{}}\n\n", o.data.String())
}

func TestBeatingLeavesPlainAnswersAlone(t *testing.T) {
	t.Parallel()
	o := &out{}
	b := &beating{w: o}
	require.NoError(t, reply.JSON(b, 200, []byte(`{}`)))
	b.beat()
	b.beat()
	require.Equal(t, `{}`, o.data.String())
}
