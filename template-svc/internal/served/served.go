// Package served asks a running vLLM worker for the chat template and special tokens of its model, for models whose
// files are not on this machine.
package served

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxInfoBytes bounds an answer; a tokenizer configuration with all its added tokens has under 1 MiB.
const maxInfoBytes = 16 << 20

// route is vLLM's, there only when the worker was started with its flag.
const route = "/tokenizer_info"

// ErrNotServed says that the worker does not tell about its tokenizer, and how to make it.
var ErrNotServed = errors.New("the worker serves no " + route + ": start it with --enable-tokenizer-info-endpoint, or give " +
	"the model's folder as path")

// Client asks workers. The HTTP client's timeout bounds a question.
type Client struct{ HTTP *http.Client }

// TokenizerInfo gives what the worker at a base address says: its tokenizer_config.json in effect, with the template of
// --chat-template where that was given.
func (c Client) TokenizerInfo(ctx context.Context, base string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+route, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the worker: %w", err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the worker: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return nil, ErrNotServed
	default:
		return nil, fmt.Errorf("the worker answers %s with status %d", route, resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxInfoBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", route, err)
	}
	var info struct {
		Class *string `json:"tokenizer_class"`
	}
	if len(raw) > maxInfoBytes || json.Unmarshal(raw, &info) != nil || info.Class == nil {
		return nil, fmt.Errorf("the worker's %s is not the description of a tokenizer", route)
	}
	return raw, nil
}
