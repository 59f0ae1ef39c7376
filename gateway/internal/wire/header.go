package wire

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// Field is one header line.
type Field struct {
	Name, Value string
}

// Header is a response's header lines in the order they came.
type Header []Field

// Get is the first value of a name; case does not count.
func (h Header) Get(name string) string {
	for _, f := range h {
		if len(f.Name) == len(name) && strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// Errors of a response head.
var (
	errHead     = errors.New("malformed response head")
	errHeadSize = errors.New("response head is too large")
)

// head is a parsed response head.
type head struct {
	status     int
	proto11    bool
	header     Header
	length     int64 // -1 without Content-Length
	chunked    bool
	closeAfter bool
}

// headEnd is the offset behind the blank line of a head, -1 while it is not whole.
func headEnd(b []byte, from int) int {
	from = max(0, from-3)
	if i := bytes.Index(b[from:], []byte("\r\n\r\n")); i >= 0 {
		return from + i + 4
	}
	if i := bytes.Index(b[from:], []byte("\n\n")); i >= 0 {
		return from + i + 2
	}
	return -1
}

// parseHead reads a head that headEnd found. The header's strings share one copy of raw.
func parseHead(raw []byte, fields Header) (head, error) {
	h := head{length: -1, header: fields[:0]}
	text := string(raw)
	line, rest := cutLine(text)
	if err := h.statusLine(line); err != nil {
		return h, err
	}
	for {
		line, rest = cutLine(rest)
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return h, errHead
		}
		value = strings.Trim(value, " \t")
		h.header = append(h.header, Field{Name: name, Value: value})
		if err := h.framing(name, value); err != nil {
			return h, err
		}
	}
	return h, nil
}

func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return strings.TrimSuffix(line, "\r"), rest
}

// statusLine reads "HTTP/1.1 200 OK".
func (h *head) statusLine(line string) error {
	proto, rest, ok := strings.Cut(line, " ")
	if !ok || !strings.HasPrefix(proto, "HTTP/1.") {
		return errHead
	}
	h.proto11 = proto != "HTTP/1.0"
	h.closeAfter = !h.proto11
	code, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if err != nil || len(code) != 3 || n < 100 {
		return errHead
	}
	h.status = n
	return nil
}

// framing keeps what decides where the body ends.
func (h *head) framing(name, value string) error {
	switch {
	case len(name) == len("content-length") && strings.EqualFold(name, "content-length"):
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || h.length >= 0 && h.length != n {
			return errHead
		}
		h.length = n
	case len(name) == len("transfer-encoding") && strings.EqualFold(name, "transfer-encoding"):
		if !strings.EqualFold(value, "chunked") {
			return errHead
		}
		h.chunked = true
	case len(name) == len("connection") && strings.EqualFold(name, "connection"):
		for v := range strings.SplitSeq(value, ",") {
			switch {
			case strings.EqualFold(strings.TrimSpace(v), "close"):
				h.closeAfter = true
			case strings.EqualFold(strings.TrimSpace(v), "keep-alive"):
				h.closeAfter = false
			}
		}
	}
	return nil
}
