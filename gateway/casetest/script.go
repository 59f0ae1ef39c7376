package casetest

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// script plays one answer on a connection. sent collects the body as the client should see it.
type script struct {
	conn    net.Conn
	quit    <-chan struct{}
	answer  Answer
	rec     *Received
	number  int
	request []byte
	sent    strings.Builder
	broken  bool
}

// pause waits and tells whether the caller is still there.
func (s *script) pause(ms int) bool {
	if ms == 0 {
		return !s.broken
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return !s.broken
	case <-s.quit:
		s.broken = true
		return false
	}
}

func (s *script) write(b []byte) {
	if s.broken {
		return
	}
	if _, err := s.conn.Write(b); err != nil {
		s.broken = true
	}
}

// play answers and tells whether the connection can be used again.
func (s *script) play() bool {
	a := &s.answer
	if !s.pause(a.DelayMS) {
		return false
	}
	switch a.Kind {
	case "fault":
		return s.fault()
	case "sse":
		s.streamHead(a)
		for i := range a.Steps {
			if !s.step(&a.Steps[i]) {
				return false
			}
		}
		return s.end(a.End)
	case "auto":
		return s.auto()
	}
	return s.reply(a)
}

// fault breaks the connection in one of the scripted ways.
func (s *script) fault() bool {
	switch s.answer.Fault {
	case "reset":
		s.reset()
	case "hang":
		<-s.quit
	case "garbage":
		s.write([]byte("\x00\x01 SSH-2.0-nothing\r\n\r\n\xff\xfe"))
	}
	return false
}

// reset makes the close an RST.
func (s *script) reset() {
	if tc, ok := s.conn.(*net.TCPConn); ok {
		_ = tc.SetLinger(0)
	}
	_ = s.conn.Close()
}

// head writes a status line and header lines.
func (s *script) head(status int, extra map[string]string) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	own := map[string]bool{}
	for k, raw := range s.answer.Headers {
		own[strings.ToLower(k)] = true
		for _, v := range headerLines(raw) {
			fmt.Fprintf(&b, "%s: %s\r\n", k, v)
		}
	}
	for k, v := range extra {
		if !own[k] {
			fmt.Fprintf(&b, "%s: %s\r\n", k, v)
		}
	}
	b.WriteString("\r\n")
	s.write(b.Bytes())
}

// reply sends a plain answer.
func (s *script) reply(a *Answer) bool {
	body := compact(a.Body)
	if a.RawBody != nil {
		body = []byte(*a.RawBody)
	}
	if a.HexBody != "" {
		body, _ = hex.DecodeString(a.HexBody)
	}
	s.sent.Write(body)
	status := a.Status
	if status == 0 {
		status = 200
	}
	extra := map[string]string{"content-type": "application/json"}
	if a.Gzip {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(body)
		_ = w.Close()
		body = z.Bytes()
		extra["content-encoding"] = "gzip"
	}
	extra["content-length"] = strconv.Itoa(len(body))
	s.head(status, extra)
	s.write(body)
	// A given content-length that does not fit makes the answer a cut one.
	for k, raw := range a.Headers {
		if strings.EqualFold(k, "content-length") && headerLines(raw)[0] != strconv.Itoa(len(body)) {
			return false
		}
	}
	return !s.broken
}

func (s *script) streamHead(a *Answer) {
	status := a.Status
	if status == 0 {
		status = 200
	}
	s.head(status, map[string]string{
		"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked",
	})
}

// chunk is one network write of a stream.
func (s *script) chunk(b []byte) {
	s.sent.Write(b)
	s.write(append(fmt.Appendf(nil, "%x\r\n", len(b)), append(b, "\r\n"...)...))
}

func event(data []byte) []byte {
	return append(append([]byte("data: "), data...), "\n\n"...)
}

// step plays one step.
func (s *script) step(st *Step) bool {
	switch {
	case st.WaitMS > 0:
		return s.pause(st.WaitMS)
	case st.JSON != nil:
		s.chunk(event(compact(st.JSON)))
	case st.Raw != nil:
		s.chunk([]byte(*st.Raw))
	case st.Hex != "":
		b, _ := hex.DecodeString(st.Hex)
		s.chunk(b)
	case st.Done:
		s.chunk([]byte("data: [DONE]\n\n"))
	case st.Gen != nil:
		text := string(compact(st.Gen.JSON))
		pad := strings.Repeat("x", st.Gen.PadBytes)
		for i := range st.Gen.Count {
			if i > 0 && !s.pause(st.Gen.GapMS) {
				return false
			}
			s.chunk(event([]byte(strings.NewReplacer("@I@", strconv.Itoa(i), "@PAD@", pad).Replace(text))))
		}
	}
	return !s.broken
}

// end ends a stream.
func (s *script) end(how string) bool {
	switch how {
	case "cut":
		return false
	case "reset":
		s.pause(20) // lets the bytes before leave the kernel: an RST drops what was not sent
		s.reset()
		return false
	case "hang":
		<-s.quit
		return false
	}
	s.write([]byte("0\r\n\r\n"))
	return !s.broken
}
