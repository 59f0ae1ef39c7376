package operation

import (
	"bytes"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"strings"
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

// TestFormFieldRules: what looks like a delimiter in a file's bytes is none, the last of equal fields counts.
func TestFormFieldRules(t *testing.T) {
	t.Parallel()
	const model = "Content-Disposition: form-data; name=\"model\"\r\n\r\n"
	const file = "Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"
	for name, row := range map[string]struct{ body, want string }{
		"delimiter inside a line of the file":    {"--B\r\n" + file + "x--B\r\n" + model + "bad\r\n--B\r\n" + model + "good\r\n--B--", "good"},
		"delimiter after a bare line feed":       {"--B\r\n" + file + "x\n--B\r\n" + model + "bad\r\n--B\r\n" + model + "good\r\n--B--", "good"},
		"longer than the delimiter":              {"--B\r\n" + file + "x\r\n--BB\r\n" + model + "bad\r\n--B\r\n" + model + "good\r\n--B--", "good"},
		"last one counts":                        {"--B\r\n" + model + "a\r\n--B\r\n" + model + "b\r\n--B--\r\n", "b"},
		"nothing after the end":                  {"--B\r\n" + model + "a\r\n--B--\r\n--B\r\n" + model + "b\r\n--B--\r\n", "a"},
		"preamble and padding":                   {"hello\r\n--B \t\r\n" + model + "a\r\n--B--", "a"},
		"no value":                               {"--B\r\n" + model + "\r\n--B--", ""},
		"value with line ends":                   {"--B\r\n" + model + "a\r\n\r\nb\r\n--B--", "a\r\n\r\nb"},
		"part without header lines":              {"--B\r\n\r\nx\r\n--B\r\n" + model + "a\r\n--B--", "a"},
		"name in another line":                   {"--B\r\nX-Note: name=\"model\"\r\n\r\nx\r\n--B\r\n" + model + "a\r\n--B--", "a"},
		"NULs and half line ends in the file":    {"--B\r\n" + file + "\x00\r\r\n-\r\n--\x00B\n\r\n--B\r\n" + model + "a\r\n--B--", "a"},
		"value that ends with a carriage return": {"--B\r\n" + model + "a\r\r\n--B--", "a\r"},
	} {
		v, err := formField([]byte(row.body), "multipart/form-data; boundary=B", "model")
		require.NoError(t, err, name)
		require.Equal(t, jsontext.String, v.Kind, name)
		require.Equal(t, row.want, string(v.Text([]byte(row.body))), name)
	}
}

// TestFormFieldAgainstGo makes forms of random bytes that are full of what delimiters are made of, and compares with
// Go's reader.
func TestFormFieldAgainstGo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 11))
	pieces := []string{"\r\n", "--", "\r", "\n", "B", "--B", "\r\n--", "\x00", "\xff", "x", ": ", "\r\n\r\n", "name=\"model\""}
	for range 2000 {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		require.NoError(t, w.SetBoundary("B"+string(rune('0'+random.IntN(10)))))
		want, found := "", false
		for range 1 + random.IntN(4) {
			var value strings.Builder
			for range random.IntN(12) {
				value.WriteString(pieces[random.IntN(len(pieces))])
			}
			name := []string{"model", "file"}[random.IntN(2)]
			if strings.Contains("\r\n"+value.String(), "\r\n--"+w.Boundary()) {
				continue // no value may have a line that is a delimiter
			}
			require.NoError(t, w.WriteField(name, value.String()))
			if name == "model" {
				want, found = value.String(), true
			}
		}
		require.NoError(t, w.Close())
		v, err := formField(b.Bytes(), w.FormDataContentType(), "model")
		require.NoError(t, err)
		require.Equal(t, found, v.Kind != jsontext.None, "%q", b.String())
		require.Equal(t, want, string(v.Text(b.Bytes())), "%q", b.String())
		read, err := multipart.NewReader(bytes.NewReader(b.Bytes()), w.Boundary()).ReadForm(1 << 20)
		require.NoError(t, err)
		if found {
			values := read.Value["model"]
			require.Equal(t, values[len(values)-1], want)
		}
	}
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
	b := &beating{w: o, trailers: []string{"X-T"}}
	b.beat()
	require.Equal(t, 200, o.head.Status)
	require.Equal(t, []string{"X-T"}, o.head.Trailers)
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

	o = &out{}
	b = &beating{w: o, anthropic: true}
	b.beat()
	require.NoError(t, reply.JSON(b, 400, []byte("{\r\n\"error\":\n{}}\n")))
	require.Equal(t, comment+"event: error\ndata: {  \"error\": {}} \n\n", o.data.String(), "one event, by the name that its API has")
}

func TestWantsEvents(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]bool{
		"stream=true": true, "a=b&stream=True": true, "stream=1": true, "stream=on": true,
		"": false, "stream=false": false, "stream=": false, "Stream=true": false, "x=stream%3Dtrue": false, "%zz": false,
	} {
		require.Equal(t, want, wantsEvents(query), query)
	}
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
