package sse

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cut splits a whole stream; the rest is what is left behind the last event.
func cut(b []byte) (events [][]byte, rest []byte) {
	s := NewSplitter()
	at := 0
	for {
		end := s.Next(b, at)
		if end < 0 {
			return events, b[at:]
		}
		events = append(events, b[at:end])
		at = end
	}
}

// model is the standard's algorithm, written down plainly.
func model(text string) []Event {
	var out []Event
	var data []string
	var name string
	has := false
	lines := regexp.MustCompile(`\r\n|\r|\n`).Split(text, -1)
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if has {
				out = append(out, Event{Name: []byte(name), Data: []byte(strings.Join(data, "\n"))})
			}
			data, name, has = nil, "", false
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data, has = append(data, value), true
		case "event":
			name = value
		}
	}
	return out
}

func parsed(events [][]byte) []Event {
	var out []Event
	for _, e := range events {
		if p := Parse(e); p.Data != nil {
			out = append(out, p)
		}
	}
	return out
}

func TestEvents(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, stream string
		data         []string
		rest         string
	}{
		{"one", "data: a\n\n", []string{"a"}, ""},
		{"no blank after the colon", "data:a\n\n", []string{"a"}, ""},
		{"only one blank is dropped", "data:  a\n\n", []string{" a"}, ""},
		{"CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}, ""},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}, ""},
		{"mixed ends", "data: a\r\n\ndata: b\n\r\n", []string{"a", "b"}, ""},
		{"many lines", "data: a\ndata: b\ndata\n\n", []string{"a\nb\n"}, ""},
		{"other fields", "id: 7\nretry: 10\n: note\ndata: a\nx: y\n\n", []string{"a"}, ""},
		{"comment alone", ": hi\n\ndata: a\n\n", []string{"a"}, ""},
		{"empty data", "data:\n\n", []string{""}, ""},
		{"not closed", "data: a\n\ndata: b\n", []string{"a"}, "data: b\n"},
		{"blank lines first", "\n\n\ndata: a\n\n", []string{"a"}, ""},
		{"name with the text of a field", "datax: a\n\n", nil, ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			events, rest := cut([]byte(row.stream))
			var data []string
			for _, e := range parsed(events) {
				data = append(data, string(e.Data))
			}
			require.Equal(t, row.data, data)
			require.Equal(t, row.rest, string(rest))
			require.Equal(t, row.stream, string(bytes.Join(events, nil))+string(rest), "bytes are neither lost nor changed")
		})
	}
}

func TestNameAndDone(t *testing.T) {
	t.Parallel()
	e := Parse([]byte("event: response.created\ndata: {}\n\n"))
	require.Equal(t, "response.created", string(e.Name))
	require.False(t, e.IsDone())
	require.True(t, Parse([]byte("data: [DONE]\n\n")).IsDone())
	require.True(t, Parse([]byte("data:[DONE]\r\n\r\n")).IsDone())
	require.False(t, Parse([]byte("data: \"[DONE]\"\n\n")).IsDone())
	require.False(t, Parse([]byte("data: [DONE]\ndata: x\n\n")).IsDone())
}

// TestParseDoesNotWriteIntoTheStream guards the relay: joined data must not grow into the bytes behind it.
func TestParseDoesNotWriteIntoTheStream(t *testing.T) {
	t.Parallel()
	stream := []byte("data: a\ndata: b\n\ndata: keep\n\n")
	before := bytes.Clone(stream)
	events, _ := cut(stream)
	require.Equal(t, "a\nb", string(Parse(events[0]).Data))
	require.Equal(t, before, stream)
}

func FuzzSplitterAgreesWithTheModelHoweverItIsCut(f *testing.F) {
	for _, s := range []string{
		"data: a\n\ndata: b\r\n\r\n", "\r\n\r\n\r", "data: x\r\rdata:y\n\n", ":c\nevent: e\ndata: 1\ndata: 2\n\n", "\n", "data", "\r\ndata: z\r\n\n",
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		if len(stream) > 1<<12 || bytes.HasPrefix(stream, []byte("\xef\xbb\xbf")) {
			return
		}
		// Arriving in pieces: what is not handed out stays in front.
		s := NewSplitter()
		var buf []byte
		var events [][]byte
		start, scanned := 0, 0
		for at := 0; at < len(stream); {
			n := min(int(step)%7+1, len(stream)-at)
			buf = append(buf, stream[at:at+n]...)
			at += n
			for {
				end := s.Next(buf, scanned)
				if end < 0 {
					scanned = len(buf)
					break
				}
				events = append(events, bytes.Clone(buf[start:end]))
				start, scanned = end, end
			}
		}
		require.Equal(t, string(stream), string(bytes.Join(events, nil))+string(buf[start:]))
		want := model(string(stream))
		diff := cmp.Diff(texts(want), texts(parsed(events)))
		require.Empty(t, diff, "%q", stream)
	})
}

func texts(events []Event) []string {
	out := []string{}
	for _, e := range events {
		out = append(out, string(e.Name)+"|"+string(e.Data))
	}
	return out
}
