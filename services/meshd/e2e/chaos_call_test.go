package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	// callLimit is the deadline of a call under chaos: longer than any lease, retry and budget of the mesh together.
	callLimit = 20 * time.Second
	// replyTokens is the length of every answer under chaos: long enough that a kill finds answers half sent.
	replyTokens = 32
)

// ending is how a call under chaos ended. Anything else is a wrong answer.
type ending string

const (
	// whole is status 200 with every token.
	whole ending = "whole"
	// refused is an OpenAI error object with status 502, 503 or 504.
	refused ending = "refused"
	// cut is a stream that had begun and ended with an error event, without [DONE].
	cut ending = "cut"
)

// call is one finished request.
type call struct {
	ending    ending
	status    int
	reply     message
	worker    string
	certainty string
	prompt    int // tokens, as the worker counts
	predicted int
	cached    int
	took      time.Duration
}

// chaosChat is a request of known length.
func chaosChat(turns []message, streamed bool) map[string]any {
	more := map[string]any{"max_tokens": replyTokens, "ignore_eos": true}
	if streamed {
		more["stream"], more["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	return chat(turns, more)
}

// ask sends one turn and judges what comes back. An error is a hung request or a wrong answer.
func ask(ctx context.Context, c *caller, turns []message, streamed bool) (call, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	raw, err := json.Marshal(chaosChat(turns, streamed))
	if err != nil {
		return call{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		return call{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	start := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return call{}, noDoor(fmt.Errorf("no answer after %s: %w", time.Since(start), err))
	}
	defer resp.Body.Close()
	out := call{
		status: resp.StatusCode, worker: resp.Header.Get("X-Kvmesh-Worker"),
		certainty: resp.Header.Get("X-Kvmesh-Certainty"),
	}
	fmt.Sscan(resp.Header.Get("X-Kvmesh-Predicted-Hit-Tokens"), &out.predicted)
	if streamed && resp.StatusCode == http.StatusOK {
		err = out.readStream(resp)
	} else {
		err = out.readPlain(resp)
	}
	out.took = time.Since(start)
	return out, err
}

// errNoDoor is a connection that could not be made or broke, as when the gateway itself dies. It is wrong at any other
// time, and a call that hangs is no such case.
var errNoDoor = errors.New("no gateway")

func noDoor(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", errNoDoor, err)
}

// readPlain takes a reply of one piece.
func (a *call) readPlain(resp *http.Response) error {
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(resp.Body); err != nil {
		return noDoor(fmt.Errorf("status %d, body ends early: %w", a.status, err))
	}
	var body completion
	if err := json.Unmarshal(raw.Bytes(), &body); err != nil {
		return fmt.Errorf("status %d, body is no JSON: %q", a.status, raw.String())
	}
	if a.status == http.StatusOK {
		return a.finish(body, len(body.Choices) == 1)
	}
	down := []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}
	if !slices.Contains(down, a.status) || body.Error == nil || body.Error.Message == "" || body.Error.Type == "" {
		return fmt.Errorf("status %d: %s", a.status, raw.String())
	}
	if a.status == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		return errors.New("status 503 without Retry-After")
	}
	a.ending = refused
	return nil
}

// finish checks the length of an answer and notes what it says.
func (a *call) finish(body completion, oneChoice bool) error {
	if !oneChoice || body.Usage == nil || body.Usage.CompletionTokens != replyTokens {
		return fmt.Errorf("status 200 with part of an answer: %+v", body)
	}
	a.ending, a.prompt = whole, body.Usage.PromptTokens
	if len(body.Choices) == 1 {
		a.reply = body.Choices[0].Message
	}
	if body.Usage.Details != nil {
		a.cached = body.Usage.Details.CachedTokens
	}
	return nil
}

// readStream takes events to the end: all of them and [DONE], or an error event and no [DONE].
func (a *call) readStream(resp *http.Response) error {
	var text strings.Builder
	var last completion
	reasons, done, failed := 0, false, false
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !isData:
		case done:
			return fmt.Errorf("event after [DONE]: %s", data)
		case data == "[DONE]":
			done = true
		default:
			var event completion
			if err := json.Unmarshal([]byte(data), &event); err != nil {
				return fmt.Errorf("event is no JSON: %q", data)
			}
			failed = failed || event.Error != nil
			if len(event.Choices) == 1 {
				text.WriteString(event.Choices[0].Delta.Content)
				if event.Choices[0].FinishReason != nil {
					reasons++
				}
			}
			last = event
		}
	}
	if err := lines.Err(); err != nil {
		return noDoor(fmt.Errorf("stream breaks off: %w", err))
	}
	a.reply = message{"assistant", text.String()}
	if failed {
		a.ending = cut
		if done { // a finish reason may have come: the worker can die between it and its own [DONE]
			return errors.New("stream with an error event and [DONE]")
		}
		return nil
	}
	if !done || reasons != 1 {
		return fmt.Errorf("stream without error event: [DONE] %v, %d finish reasons", done, reasons)
	}
	return a.finish(last, true)
}
