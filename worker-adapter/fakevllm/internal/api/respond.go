package api

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/request"
)

// writeJSON answers with a whole body, whose length is declared as uvicorn does.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// writeDetail is the shape of what FastAPI itself refuses: unknown routes, methods, bodies that cannot be decoded.
func writeDetail(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, append(appendString([]byte(`{"detail":`), detail), '}'))
}

// writeError answers in OpenAI's error shape.
func writeError(w http.ResponseWriter, e *request.Error) { writeJSON(w, e.Status, appendError(nil, e)) }

// appendError writes the error object; the code is a number, equal to the status.
func appendError(dst []byte, e *request.Error) []byte {
	dst = appendString(append(dst, `{"error":{"message":`...), e.Message)
	dst = appendString(append(dst, `,"type":`...), e.Type)
	dst = append(dst, `,"param":`...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, e.Param)
	}
	return append(appendInt(dst, `,"code":`, e.Status), `}}`...)
}

// appendErrorEvent is an error in a stream, which Python's json module writes with spaces, and the stream's end.
func appendErrorEvent(dst []byte, e *request.Error) []byte {
	dst = appendString(append(dst, `data: {"error": {"message": `...), e.Message)
	dst = appendString(append(dst, `, "type": `...), e.Type)
	dst = append(dst, `, "param": `...)
	if e.Param == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendString(dst, e.Param)
	}
	return append(appendInt(dst, `, "code": `, e.Status), "}}\n\n"...)
}

const doneEvent = "data: [DONE]\n\n"

// errBusy is what a full queue answers.
func errBusy() *request.Error {
	return &request.Error{Status: http.StatusServiceUnavailable, Type: "Service Unavailable", Message: "The engine is " +
		"currently busy and cannot accept new requests. Please try again later or on a different instance."}
}

// readBody reads and parses a JSON body. It answers itself, and returns nil, if that fails.
func (h *Handler) readBody(w http.ResponseWriter, r *http.Request) (*pyjson.Doc, []byte) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.set.MaxBodyBytes))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			writeDetail(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
			return nil, nil
		}
		writeDetail(w, http.StatusBadRequest, "There was an error parsing the body")
		return nil, nil
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	invalid := func(param, what string) {
		writeError(w, &request.Error{
			Status: 400, Type: "Bad Request", Param: param,
			Message: "1 validation error:\n  " + what,
		})
	}
	missing := "{'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}"
	switch {
	case len(raw) == 0:
		invalid("body", missing)
		return nil, nil
	case strings.TrimSpace(strings.ToLower(kind)) != "application/json":
		invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
		return nil, nil
	case !utf8.Valid(raw):
		writeDetail(w, http.StatusBadRequest, "There was an error parsing the body")
		return nil, nil
	}
	doc, err := pyjson.Parse(raw)
	var syntax *pyjson.SyntaxError
	switch {
	case errors.As(err, &syntax):
		loc := "body." + strconv.Itoa(syntax.Pos)
		invalid(loc, "{'type': 'json_invalid', 'loc': "+pyjson.Repr(loc)+
			", 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': "+pyjson.Repr(syntax.Msg)+"}}")
		return nil, nil
	case doc.Root.Kind == pyjson.Null:
		invalid("body", missing)
		return nil, nil
	case doc.Root.Kind != pyjson.Dict:
		invalid("body", "{'type': 'model_attributes_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary or "+
			"object to extract fields from', 'input': "+pyjson.Repr(doc.Root.Describe())+"}")
		return nil, nil
	}
	return doc, raw
}
