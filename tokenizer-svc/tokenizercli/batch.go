package tokenizercli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

var errTooLong = fmt.Errorf("more than %d bytes", maxInputBytes)

// question is one line of a batch.
type question struct {
	Model            string  `json:"model"`
	Text             *string `json:"text"`
	AddSpecialTokens bool    `json:"add_special_tokens"`
}

// answer is one line of output: ids, or what went wrong with that line alone.
type answer struct {
	IDs   *[]uint32  `json:"ids,omitempty"`
	Error *lineError `json:"error,omitempty"`
}

type lineError struct {
	Message string `json:"message"`
}

// list makes ids present in JSON even when there are none.
func list(ids []uint32) *[]uint32 {
	if ids == nil {
		ids = []uint32{}
	}
	return &ids
}

// batch answers each line in order until the input ends. Output is flushed when no input waits, so that a program
// can use it as a dialogue.
func (s *shelf) batch(ctx context.Context, streams IO) error {
	in := bufio.NewReaderSize(streams.In, 64<<10)
	out := bufio.NewWriter(streams.Out)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return out.Flush()
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := enc.Encode(s.reply(line)); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// reply answers one line; a bad line spoils no other.
func (s *shelf) reply(line []byte) answer {
	ids, err := s.ids(line)
	if err != nil {
		return answer{Error: &lineError{Message: err.Error()}}
	}
	return answer{IDs: list(ids)}
}

// ids reads a question, with the flags as what it leaves out, and encodes its text.
func (s *shelf) ids(line []byte) ([]uint32, error) {
	q := question{Model: s.cmd.Model, AddSpecialTokens: s.cmd.AddSpecialTokens}
	if err := json.Unmarshal(line, &q); err != nil {
		return nil, fmt.Errorf("not a JSON object with model, text and add_special_tokens: %w", err)
	}
	if q.Model == "" || q.Text == nil {
		return nil, errors.New("model and text are needed")
	}
	m, err := s.get(q.Model)
	if err != nil {
		return nil, err
	}
	return s.cmd.encode(m, []byte(*q.Text), q.AddSpecialTokens)
}

// readLine returns the next line without its end. The last line needs none.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxInputBytes:
			return nil, errTooLong
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return line, nil
		default:
			return nil, err
		}
	}
}
