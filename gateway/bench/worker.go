// Package bench measures what the gateway costs beside Go's httputil.ReverseProxy: CPU of the whole process, in the same
// run, in interleaved rounds. Gateway, proxy and mock worker are processes of their own, so that nothing else is counted.
package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// planHeader tells the mock worker how to stream: "events,gap_us,bytes". Every arm forwards it.
const planHeader = "x-bench-plan"

// plan is a stream's shape.
type plan struct {
	events int
	gap    time.Duration
	bytes  int
}

func (p plan) String() string {
	return fmt.Sprintf("%d,%d,%d", p.events, p.gap.Microseconds(), p.bytes)
}

func parsePlan(s string) plan {
	var p plan
	var us int64
	_, _ = fmt.Sscanf(s, "%d,%d,%d", &p.events, &us, &p.bytes)
	p.gap = time.Duration(us) * time.Microsecond
	return p
}

// plainAnswer is a chat answer of usual size.
const plainAnswer = `{"id":"chatcmpl-9f2c7a1e","object":"chat.completion","created":1764500000,"model":"bench","choices":[` +
	`{"index":0,"message":{"role":"assistant","content":"The Elbe, the Rhine and the Danube are rivers.","refusal":null,` +
	`"annotations":null,"audio":null,"function_call":null,"reasoning":null},"logprobs":null,"finish_reason":"stop",` +
	`"stop_reason":null,"token_ids":null}],"service_tier":null,"system_fingerprint":"vllm-0.32.0-0a1b2c3d","usage":` +
	`{"prompt_tokens":11,"total_tokens":23,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":0}}}`

// serveWorker answers on a listener as a worker that costs nothing: plain answers at once, streams as planned.
func serveWorker(ln net.Listener, rec *recorder) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go serveWorkerConn(c, rec)
	}
}

func serveWorkerConn(c net.Conn, rec *recorder) {
	defer c.Close()
	br := bufio.NewReaderSize(c, 64<<10)
	plain := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n%s",
		len(plainAnswer), plainAnswer)
	for {
		length, how, err := readHead(br)
		if err != nil {
			return
		}
		if strings.HasPrefix(how, "GET ") {
			if serveOwn(c, how) != nil {
				return
			}
			continue
		}
		if err := readBody(br, length, rec); err != nil {
			return
		}
		if how == "" {
			if _, err := c.Write(plain); err != nil {
				return
			}
			continue
		}
		if stream(c, parsePlan(how)) != nil {
			return
		}
	}
}

// readBody reads a request's body, for the recorder where that is on.
func readBody(br *bufio.Reader, length int, rec *recorder) error {
	if !rec.on() {
		_, err := io.CopyN(io.Discard, br, int64(length))
		return err
	}
	body := make([]byte, length)
	_, err := io.ReadFull(br, body)
	rec.keep(body)
	return err
}

// serveOwn answers what an adapter asks of its worker.
func serveOwn(c net.Conn, line string) error {
	status, body := 200, ""
	switch strings.Fields(line)[1] {
	case "/v1/models":
		body = `{"object":"list","data":[{"id":"bench","object":"model","created":1,"owned_by":"vllm","root":"bench","parent":null,"max_model_len":65536}]}`
	case "/version":
		body = `{"version":"0.32.0"}`
	case "/health", "/ping", "/metrics":
	default:
		status, body = 404, `{"detail":"Not Found"}`
	}
	_, err := fmt.Fprintf(c, "HTTP/1.1 %d x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
		status, len(body), body)
	return err
}

// readHead reads a request's head and keeps what matters; how is the request line of a GET, or the plan.
func readHead(br *bufio.Reader) (length int, how string, err error) {
	for first := true; ; first = false {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return 0, "", err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return length, how, nil
		}
		if first && bytes.HasPrefix(line, []byte("GET ")) {
			how = string(line)
		}
		name, value, _ := strings.Cut(string(line), ":")
		switch {
		case strings.EqualFold(name, "content-length"):
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		case strings.EqualFold(name, planHeader):
			how = strings.TrimSpace(value)
		}
	}
}

// stream writes events in chunked coding, one per gap; without a gap as fast as they are taken.
func stream(c net.Conn, p plan) error {
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"+
		"transfer-encoding: chunked\r\n\r\n"); err != nil {
		return err
	}
	head := `data: {"id":"chatcmpl-9f2c7a1e","object":"chat.completion.chunk","created":1764500000,"model":"bench",` +
		`"choices":[{"index":0,"delta":{"content":"`
	tail := `"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	data := head + strings.Repeat("x", max(1, p.bytes-len(head)-len(tail))) + tail
	one := fmt.Appendf(nil, "%x\r\n%s\r\n", len(data), data)
	next := time.Now()
	for range p.events {
		if _, err := c.Write(one); err != nil {
			return err
		}
		if p.gap > 0 {
			next = next.Add(p.gap)
			time.Sleep(time.Until(next))
		}
	}
	end := `data: {"id":"chatcmpl-9f2c7a1e","object":"chat.completion.chunk","created":1764500000,"model":"bench",` +
		`"choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	done := "data: [DONE]\n\n"
	_, err := fmt.Fprintf(c, "%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", len(end), end, len(done), done)
	return err
}
