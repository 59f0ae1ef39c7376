// Package remote is a tokenizer engine that asks a vLLM worker, for models whose files are not on this machine. Its ids
// are the worker's by definition. It is much slower than an engine of our own: every prompt costs a request and vLLM's
// own tokenising, so it is for models that cannot be had otherwise.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// timeout bounds one question. The gateway waits less and goes on without.
	timeout = 5 * time.Second
	// maxParallel bounds the questions at once, each a request that the worker's own traffic must give way to.
	maxParallel = 16
	// maxAnswerBytes bounds an answer: 8 bytes per id and an id per byte of the longest text.
	maxAnswerBytes = 64 << 20
)

// ErrNotServed says that the worker does not tokenise for others.
var ErrNotServed = errors.New("the worker serves no /tokenize: give the model's folder as path, or its name on the hub")

// errSpecial says what vLLM's /detokenize cannot do.
var errSpecial = errors.New("a worker's /detokenize does not leave special tokens out")

// Engine asks one worker. It is safe for concurrent use until Close.
type Engine struct {
	base, model string
	client      *http.Client
	slots       chan struct{}
}

// New makes an engine for a model as the worker at a base address serves it. Nothing is asked yet.
func New(base, model string) *Engine {
	return &Engine{
		base: strings.TrimRight(base, "/"), model: model, slots: make(chan struct{}, maxParallel),
		client: &http.Client{Timeout: timeout, Transport: &http.Transport{MaxIdleConnsPerHost: maxParallel}},
	}
}

// Check asks for a short text, to find out whether the worker answers at all.
func (e *Engine) Check() error {
	ids, err := e.AppendIDs(nil, []byte("a"), false)
	if err == nil && len(ids) == 0 {
		err = errors.New("the worker gives no ids")
	}
	return err
}

// AppendIDs appends the worker's ids of text to dst. Invalid UTF-8 counts as U+FFFD.
func (e *Engine) AppendIDs(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	var reply struct {
		Tokens []uint32 `json:"tokens"`
		Count  *int     `json:"count"`
	}
	err := e.ask("/tokenize", map[string]any{
		"model": e.model, "prompt": string(text), "add_special_tokens": addSpecial,
	}, &reply)
	if err != nil {
		return dst, err
	}
	if reply.Count == nil || *reply.Count != len(reply.Tokens) {
		return dst, errors.New("the worker's /tokenize answers in a shape of its own")
	}
	return append(dst, reply.Tokens...), nil
}

// AppendText appends the worker's text of ids to dst.
func (e *Engine) AppendText(dst []byte, ids []uint32, skipSpecial bool) ([]byte, error) {
	if skipSpecial {
		return dst, errSpecial
	}
	var reply struct {
		Prompt *string `json:"prompt"`
	}
	if err := e.ask("/detokenize", map[string]any{"model": e.model, "tokens": ids}, &reply); err != nil {
		return dst, err
	}
	if reply.Prompt == nil {
		return dst, errors.New("the worker's /detokenize answers in a shape of its own")
	}
	return append(dst, *reply.Prompt...), nil
}

// Close ends idle connections.
func (e *Engine) Close() { e.client.CloseIdleConnections() }

// ask posts a question and reads the answer. Errors hold neither text nor the worker's own words, which may repeat it.
func (e *Engine) ask(route string, question, into any) error {
	e.slots <- struct{}{}
	defer func() { <-e.slots }()
	var body bytes.Buffer
	if err := json.NewEncoder(&body).Encode(question); err != nil {
		return fmt.Errorf("ask the worker: %w", err)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, e.base+route, &body)
	if err != nil {
		return fmt.Errorf("ask the worker: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the worker: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return ErrNotServed
	default:
		return fmt.Errorf("the worker answers %s with status %d", route, resp.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return fmt.Errorf("read the worker's answer: %w", err)
	}
	if len(answer) > maxAnswerBytes || json.Unmarshal(answer, into) != nil {
		return fmt.Errorf("the worker's %s is not the answer of vLLM", route)
	}
	return nil
}
