package templatecli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// answer is one line of a batch's output: text or an error.
type answer struct {
	Text  *string    `json:"text,omitempty"`
	Error *lineError `json:"error,omitempty"`
}

// lineError is Python's exception, or a limit, or a fault of the line itself.
type lineError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// batch renders NDJSON lines until the input ends.
func batch(ctx context.Context, streams IO, each line) error {
	lines := bufio.NewReaderSize(streams.In, 1<<20)
	out := bufio.NewWriter(streams.Out)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for number := 1; ; number++ {
		text, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("line %d: %w", number, err), out.Flush())
		}
		if len(text) == 0 {
			continue
		}
		if err := enc.Encode(each.render(ctx, text)); err != nil {
			return err
		}
		if lines.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// readLine gives the next line without its end; the last one may lack it.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxInputBytes {
			return nil, fmt.Errorf("more than %d bytes", maxInputBytes)
		}
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		}
		return nil, err
	}
}

// line is what all lines of a batch have in common.
type line struct {
	now     func() time.Time
	timeout time.Duration // of one render
}

// render renders one line's template with its variables.
func (l line) render(ctx context.Context, text []byte) answer {
	parsed, err := jinja.FromJSON(text)
	if err != nil || parsed.Kind() != value.KindDict {
		return answer{Error: &lineError{Type: "InputError", Message: "the line is no JSON object"}}
	}
	source, ok := parsed.AsDict().GetStr("template")
	if !ok || !source.IsStr() {
		return answer{Error: &lineError{Type: "InputError", Message: `"template" must be text`}}
	}
	var vars []jinja.Var
	if given, ok := parsed.AsDict().GetStr("vars"); ok && given.Kind() == value.KindDict {
		for _, e := range given.AsDict().Entries() {
			vars = append(vars, jinja.Var{Name: e.Key.AsStr(), Value: e.Val})
		}
	}
	t, err := jinja.Compile(source.AsStr(), jinja.Limits{})
	if err != nil {
		return answer{Error: errorOf(err)}
	}
	bounded, cancel := within(ctx, l.timeout)
	defer cancel()
	out, err := t.Render(bounded, nil, jinja.Env{Vars: vars, Now: l.now})
	if err != nil {
		return answer{Error: errorOf(outOfTime(err, l.timeout))}
	}
	s := string(out)
	return answer{Text: &s}
}

// errorOf gives an error its type's name.
func errorOf(err error) *lineError {
	var raised *jinja.Error
	if errors.As(err, &raised) {
		return &lineError{Type: raised.Type, Message: raised.Message}
	}
	var limit *jinja.LimitError
	if errors.As(err, &limit) {
		return &lineError{Type: "LimitError", Message: err.Error()}
	}
	return &lineError{Type: "Error", Message: err.Error()}
}
