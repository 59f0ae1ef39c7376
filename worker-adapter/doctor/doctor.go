// Package doctor is the command `kvmesh doctor`: what keeps a vLLM worker from being routed by its cache, and what to
// change.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// Level is how bad a finding is.
type Level string

const (
	// OK is as it should be.
	OK Level = "ok"
	// Warn costs cache hits or accuracy.
	Warn Level = "warn"
	// Fail keeps the worker from being used, or from being routed by its cache at all.
	Fail Level = "fail"
)

// Finding is one thing that was looked at.
type Finding struct {
	Level Level
	// Subject is what was looked at, in a word or two.
	Subject string
	// Text is what was found.
	Text string
	// Change is what to do about it; empty for OK.
	Change string
}

// Target is a worker to examine.
type Target struct {
	URL    string
	APIKey string
	// Endpoint and Replay are used where the worker does not tell where it publishes.
	Endpoint, Replay string
	// Topic is the adapter's events.topic, empty for all topics.
	Topic string
	// Timeout bounds the examination of one worker; 0 is 20 s.
	Timeout time.Duration
}

// Command examines workers. It mounts into a kong grammar; its Run ends with the context.
type Command struct {
	Workers  []string      `arg:"" name:"url" help:"Base addresses of vLLM servers, as http://127.0.0.1:8000."`
	APIKey   string        `name:"api-key" help:"The workers' key." env:"KVMESH_WORKER_API_KEY"`
	Endpoint string        `help:"Event endpoint, for workers that do not tell it (vLLM before 0.30)."`
	Replay   string        `help:"Replay endpoint, for workers that do not tell it."`
	Topic    string        `help:"The adapter's events.topic, where it is set."`
	Timeout  time.Duration `help:"Longest examination of one worker." default:"20s"`

	// Out takes the report; nil is standard output.
	Out io.Writer `kong:"-"`
}

// ErrUnwell means that at least one finding is a Fail.
var ErrUnwell = errors.New("a worker needs a change, see above")

// Run examines the workers and prints what it found. The error is ErrUnwell when something must be changed.
func (c *Command) Run(ctx context.Context) error {
	out := c.Out
	if out == nil {
		out = os.Stdout
	}
	unwell := false
	for _, url := range c.Workers {
		fmt.Fprintln(out, url)
		for _, f := range Examine(ctx, Target{
			URL: url, APIKey: c.APIKey, Endpoint: c.Endpoint, Replay: c.Replay, Topic: c.Topic, Timeout: c.Timeout,
		}) {
			unwell = unwell || f.Level == Fail
			fmt.Fprintf(out, "  %-4s  %s: %s\n", f.Level, f.Subject, f.Text)
			if f.Change != "" {
				fmt.Fprintf(out, "        change: %s\n", f.Change)
			}
		}
	}
	if unwell {
		return ErrUnwell
	}
	return nil
}

// Examine looks at one worker. It sends no request that computes or changes anything.
func Examine(ctx context.Context, t Target) []Finding {
	if t.Timeout == 0 {
		t.Timeout = 20 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	client, err := vllm.NewClient(t.URL, t.APIKey)
	if err != nil {
		return []Finding{{Fail, "address", err.Error(), "give http://host:port"}}
	}
	defer client.Close()
	e := &examination{ctx: ctx, target: t, client: client}
	if e.server() {
		e.life()
		e.cache()
		e.events()
	}
	return e.found
}

// examination collects findings about one worker.
type examination struct {
	ctx    context.Context
	target Target
	client *vllm.Client
	found  []Finding

	metrics vllm.Metrics
	// byFlag is true when the command line says where the worker publishes.
	byFlag bool
}

func (e *examination) ok(subject, format string, a ...any) {
	e.found = append(e.found, Finding{Level: OK, Subject: subject, Text: fmt.Sprintf(format, a...)})
}

func (e *examination) add(l Level, subject, text, change string) {
	e.found = append(e.found, Finding{l, subject, text, change})
}

// server asks for models, version and metrics; false when there is nothing to ask further.
func (e *examination) server() bool {
	models, err := e.client.Models(e.ctx)
	var se *vllm.StatusError
	switch {
	case vllm.Refused(err):
		e.add(Fail, "server", "its port refuses connections", "wait until vLLM has loaded its model, or check the address")
		return false
	case errors.As(err, &se) && (se.Status == 401 || se.Status == 403):
		e.add(Fail, "server", se.Error(), "give the worker's key: --api-key, and api_key in the adapter's configuration")
		return false
	case err != nil:
		e.add(Fail, "server", err.Error(), "check that the address is a vLLM server's")
		return false
	}
	base, ok := vllm.Base(models)
	if !ok {
		e.add(Fail, "models", "it lists no base model", "wait until vLLM has loaded its model")
		return false
	}
	version, err := e.client.Version(e.ctx)
	if err != nil {
		version = "unknown"
	}
	e.ok("server", "model %s, %d adapters, vLLM %s", base.ID, len(models)-1, version)
	if e.metrics, err = e.client.Metrics(e.ctx); err != nil {
		e.add(Fail, "metrics", err.Error(), "start vLLM without --disable-log-stats: load and block size come from /metrics")
		return false
	}
	if len(e.metrics.Ranks) == 0 {
		e.add(Warn, "metrics", "no load is reported", "start vLLM without --disable-log-stats")
	}
	return true
}

// life tells whether the worker generates.
func (e *examination) life() {
	paused, _ := e.client.Flag(e.ctx, "/is_paused") // servers without dev mode cannot be paused
	switch err := e.client.Health(e.ctx); {
	case err != nil:
		e.add(Fail, "health", err.Error(), "restart vLLM: its engine is dead")
	case e.metrics.Asleep:
		e.add(Fail, "health", "the engine sleeps: /health says 200 and requests hang", "POST /wake_up")
	case paused:
		e.add(Fail, "health", "the engine is paused: /health says 200 and requests hang", "POST /resume")
	default:
		e.ok("health", "generates")
	}
}

// cache looks at what decides prefix hits.
func (e *examination) cache() {
	m := e.metrics
	switch {
	case !m.PrefixCaching:
		e.add(Fail, "prefix cache", "it is off", "start vLLM with --enable-prefix-caching")
	case m.BlockTokens == 0:
		e.add(Warn, "prefix cache", "the block size is not reported", "use a vLLM with vllm:cache_config_info in /metrics")
	case m.BlockTokens%16 != 0:
		e.add(Warn, "prefix cache", fmt.Sprintf("blocks of %d tokens are no multiple of 16", m.BlockTokens),
			"start vLLM with --block-size 16 or a multiple")
	default:
		e.ok("prefix cache", "blocks of %d tokens, %d per rank", m.BlockTokens, m.GPUBlocks)
	}
}
