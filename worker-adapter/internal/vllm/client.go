// Package vllm asks one vLLM server over HTTP what it is and how it is: models, version, event sources, load, life.
package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

const (
	// maxBodyBytes bounds what is read of any answer; /metrics of a large server has a few hundred kilobytes.
	maxBodyBytes = 8 << 20
	// callTimeout bounds one call. A busy server answers /metrics within a second.
	callTimeout = 2 * time.Second
)

// ErrNoRoute means that the server does not have the route: an older version, or a switch that is off.
var ErrNoRoute = errors.New("the server has no such route")

// Client talks to one server.
type Client struct {
	base string
	key  string
	http *http.Client
}

// NewClient talks to the server at base, as http://127.0.0.1:8000. key is its API key, empty for none.
func NewClient(base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("worker address %q: want http://host:port", base)
	}
	t := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: callTimeout}).DialContext,
		MaxIdleConns:    4,
		IdleConnTimeout: 4 * time.Second, // below uvicorn's 5 s, after which it closes
	}
	return &Client{base: strings.TrimRight(base, "/"), key: key, http: &http.Client{Transport: t}}, nil
}

// Host is the server's host without port.
func (c *Client) Host() string {
	u, err := url.Parse(c.base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Base is the server's address.
func (c *Client) Base() string { return c.base }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get returns the body of a 200 answer.
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	return c.call(ctx, request{method: http.MethodGet, path: path})
}

// Post sends a JSON body and returns the body of a 200 answer. The timeout is the caller's: generation takes time.
func (c *Client) Post(ctx context.Context, path string, body []byte) ([]byte, error) {
	return c.call(ctx, request{method: http.MethodPost, path: path, body: body})
}

// request is one call.
type request struct {
	method, path string
	body         []byte
	patient      bool // a question that may take longer than callTimeout; ctx bounds it
}

// StatusError is an answer that is not 200. The body is left out: it can hold text of requests.
type StatusError struct {
	Path   string
	Status int
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s answered %d", e.Path, e.Status) }

// call performs a request.
func (c *Client) call(ctx context.Context, r request) ([]byte, error) {
	if r.method == http.MethodGet && !r.patient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, strings.NewReader(string(r.body)))
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.path, err)
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", r.path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBodyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.path, err)
	}
	switch {
	case res.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", r.path, ErrNoRoute)
	case res.StatusCode != http.StatusOK:
		return nil, &StatusError{Path: r.path, Status: res.StatusCode}
	case len(body) > maxBodyBytes:
		return nil, fmt.Errorf("read %s: more than %d bytes", r.path, maxBodyBytes)
	}
	return body, nil
}

// getJSON decodes the answer of a GET.
func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	return c.readJSON(ctx, request{method: http.MethodGet, path: path}, into)
}

// errOdd is an answer that is not what was asked for.
var errOdd = errors.New("no such answer was expected")

// readJSON performs a request and decodes its answer; what cannot be decoded is errOdd.
func (c *Client) readJSON(ctx context.Context, r request, into any) error {
	body, err := c.call(ctx, r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("read %s: %w: %w", r.path, errOdd, err)
	}
	return nil
}

// Refused is true when nothing listens at the server's port: a vLLM that loads its model, or none at all.
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
