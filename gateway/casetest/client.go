package casetest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Reply is what the client saw.
type Reply struct {
	Status    int
	Header    map[string][]string // names in lower case
	Body      string              // after content decoding
	Aborted   bool                // the connection broke off
	NoAnswer  bool                // nothing came
	Elapsed   time.Duration
	Arrivals  []time.Duration // when each event was whole, from the start
	Left      time.Time       // when the client closed
	Trailer   http.Header
	Abandoned bool // the client left by plan
}

// bodyBytes is the request's body.
func (r *Request) bodyBytes() []byte {
	switch {
	case r.HexBody != "":
		b, _ := hex.DecodeString(r.HexBody)
		return b
	case r.RawBody != nil:
		return []byte(*r.RawBody)
	case r.BodyGen != nil:
		return []byte(r.BodyGen.text())
	case r.Body != nil:
		return compact(r.Body)
	}
	return nil
}

func (g *BodyGen) text() string {
	f := &g.Fill
	fill := ""
	switch f.Kind {
	case "repeat":
		parts := make([]string, f.Count)
		for i := range parts {
			parts[i] = strings.ReplaceAll(f.Unit, "@I@", fmt.Sprint(i))
		}
		fill = strings.Join(parts, f.Join)
	case "nest":
		fill = strings.Repeat(f.Open, f.Depth) + f.Core + strings.Repeat(f.Close, f.Depth)
	case "text":
		room := f.ToBodyBytes - (len(g.Template) - len("@FILL@"))
		n := room / len(f.Unit)
		fill = strings.Repeat(f.Unit, n) + strings.Repeat("x", room-n*len(f.Unit))
	}
	return strings.Replace(g.Template, "@FILL@", fill, 1)
}

// client sends a case's request over one connection, which it may use again.
type client struct {
	base string
	plan *ClientPlan
	conn net.Conn
	br   *bufio.Reader
}

// hangs is when an answer that does not end is given up. A long stream takes its time on a busy machine.
const hangs = 3 * time.Minute

func (c *client) dial() error {
	if c.conn != nil {
		return nil
	}
	u, err := url.Parse(c.base)
	if err != nil {
		return err
	}
	c.conn, err = net.Dial("tcp", u.Host)
	if err == nil {
		c.br = bufio.NewReader(c.conn)
	}
	return err
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// do sends the request and reads the answer as planned.
func (c *client) do(r *Request) Reply {
	start := time.Now()
	out := Reply{Header: map[string][]string{}}
	if err := c.dial(); err != nil {
		out.NoAnswer, out.Aborted = true, true
		return out
	}
	if d := c.plan.Disconnect; d != nil && d.AfterMS > 0 {
		t := time.AfterFunc(time.Duration(d.AfterMS)*time.Millisecond, func() { _ = c.conn.Close() })
		defer t.Stop()
	}
	_ = c.conn.SetDeadline(time.Now().Add(hangs))
	head, body := r.encode(c.conn.RemoteAddr().String())
	if _, err := c.conn.Write(append(head, body...)); err != nil {
		// The server may have answered before it read everything.
		out.Aborted = true
	}
	resp, err := http.ReadResponse(c.br, &http.Request{Method: r.Method})
	for err == nil && resp.StatusCode == http.StatusContinue {
		resp, err = http.ReadResponse(c.br, &http.Request{Method: r.Method})
	}
	if err != nil {
		out.NoAnswer, out.Aborted, out.Elapsed, out.Left = true, true, time.Since(start), time.Now()
		out.Abandoned = c.plan.Disconnect != nil
		return out
	}
	out.Status, out.Aborted = resp.StatusCode, false
	for k, v := range resp.Header {
		out.Header[strings.ToLower(k)] = v
	}
	err = c.readBody(resp, &out, start)
	out.Elapsed, out.Trailer = time.Since(start), resp.Trailer
	out.Abandoned = c.plan.Disconnect != nil
	if err != nil && !errors.Is(err, io.EOF) {
		out.Aborted = true
	}
	if resp.Close || out.Aborted {
		c.close()
	}
	return out
}

// encode makes the request's bytes.
func (r *Request) encode(host string) (head, body []byte) {
	body = r.bodyBytes()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", r.Method, r.Path)
	typed, hosted := false, false
	for name, raw := range r.Headers {
		typed = typed || strings.EqualFold(name, "content-type")
		hosted = hosted || strings.EqualFold(name, "host")
		for _, v := range headerLines(raw) {
			fmt.Fprintf(&b, "%s: %s\r\n", name, v)
		}
	}
	if !hosted {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	if !typed && (len(body) > 0 || r.RawBody != nil) {
		b.WriteString("Content-Type: application/json\r\n")
	}
	switch {
	case r.Chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
		var chunks []byte
		for at := 0; at < len(body); at += 8192 {
			part := body[at:min(at+8192, len(body))]
			chunks = fmt.Appendf(chunks, "%x\r\n%s\r\n", len(part), part)
		}
		body = append(chunks, "0\r\n\r\n"...)
	case len(body) > 0 || r.Method == http.MethodPost:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	return []byte(b.String()), body
}

// readBody reads to the end, notes when events are whole, and pauses or leaves as planned.
func (c *client) readBody(resp *http.Response, out *Reply, start time.Time) error {
	defer resp.Body.Close()
	var body []byte
	buf := make([]byte, 32<<10)
	stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	scanned, paused := 0, false
	for {
		n, err := resp.Body.Read(buf)
		body = append(body, buf[:n]...)
		if stream {
			for range countEvents(body, &scanned) {
				out.Arrivals = append(out.Arrivals, time.Since(start))
			}
		}
		if p := c.plan.Pause; p != nil && !paused && len(out.Arrivals) >= p.AfterEvents {
			paused = true
			timer := time.NewTimer(time.Duration(p.MS) * time.Millisecond)
			<-timer.C
		}
		if d := c.plan.Disconnect; d != nil && d.AfterEvents > 0 && len(out.Arrivals) >= d.AfterEvents {
			out.Left = time.Now()
			out.Body = string(body)
			c.close()
			return nil
		}
		if err == nil {
			continue
		}
		out.Body = decoded(body, resp.Header.Get("Content-Encoding"))
		out.Left = time.Now()
		return err
	}
}

// countEvents counts the data events that have become whole since the last look; from is where that ended.
func countEvents(body []byte, from *int) int {
	last := -1
	for _, end := range []string{"\n\n", "\n\r\n", "\r\r"} {
		if i := bytes.LastIndex(body[*from:], []byte(end)); i >= 0 {
			last = max(last, i+len(end))
		}
	}
	if last < 0 {
		return 0
	}
	part := body[*from : *from+last]
	*from += last
	return len(parseSSE(string(part)).events)
}

func decoded(body []byte, coding string) string {
	if coding != "gzip" {
		return string(body)
	}
	r, err := gzip.NewReader(strings.NewReader(string(body)))
	if err != nil {
		return string(body)
	}
	b, _ := io.ReadAll(r)
	return string(b)
}
