// Package templatecli is the command `kvmesh template`: it renders chat templates for people who debug them, with the
// engine and the message rules of the live service.
package templatecli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
	"github.com/kvmesh/kvmesh/template-svc/internal/harmony"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
	"github.com/kvmesh/kvmesh/template-svc/internal/media"
	"github.com/kvmesh/kvmesh/template-svc/internal/modelfile"
)

// maxInputBytes bounds what is read from one file or line.
const maxInputBytes = 64 << 20

// Command is `kvmesh template`.
type Command struct {
	Render RenderCommand `cmd:"" help:"Render a chat request to the prompt a worker makes of it."`
}

// RenderCommand is `kvmesh template render`.
type RenderCommand struct {
	Model      string        `help:"Model folder in Hugging Face layout; its own template is used." type:"path"`
	Template   string        `help:"Template file; with --model it replaces the model's template, as --chat-template does." type:"path"`
	Messages   string        `help:"JSON file with the messages; - for standard input." default:"-"`
	Tools      string        `help:"JSON file with the tools."`
	Kwargs     string        `help:"JSON object given as chat_template_kwargs."`
	Format     string        `help:"Content format: auto, string or openai." enum:"auto,string,openai" default:"auto"`
	Interleave bool          `help:"Placeholders of media stand between texts, as with --interleave-mm-strings."`
	Continue   bool          `help:"Continue the final message instead of opening a new one."`
	NoPrompt   bool          `help:"Do not append the generation prompt."`
	Now        string        `help:"Clock of templates that print the date, as 2006-01-02T15:04:05; empty for now."`
	Timeout    time.Duration `help:"Longest time for one render, as render_timeout of the service." default:"1s"`
	Batch      bool          `help:"Read NDJSON {\"template\": source, \"vars\": {...}} and write {\"text\"} or {\"error\"} per line. Variables go to the template as they are, without message rules."`
}

// IO is where a command reads and writes.
type IO struct {
	In  io.Reader
	Out io.Writer
}

// Run renders one request or a batch. Kong calls it.
func (c *RenderCommand) Run(ctx context.Context, streams IO) error {
	now, err := c.clock()
	if err != nil {
		return err
	}
	if c.Batch {
		return batch(ctx, streams, line{now: now, timeout: c.Timeout})
	}
	model, err := c.load(now)
	if err != nil {
		return describe(err)
	}
	request, err := c.request(streams.In)
	if err != nil {
		return err
	}
	bounded, cancel := within(ctx, c.Timeout)
	defer cancel()
	result, err := model.Render(bounded, request)
	if err != nil {
		return describe(outOfTime(err, c.Timeout))
	}
	_, err = streams.Out.Write(result.Text)
	return err
}

// within bounds a render; zero or less does not.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}

// outOfTime names the flag that ended a render.
func outOfTime(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the render took more than --timeout %v: %w", timeout, err)
	}
	return err
}

// clock gives the pinned clock, or the machine's.
func (c *RenderCommand) clock() (func() time.Time, error) {
	if c.Now == "" {
		return time.Now, nil
	}
	pinned, err := time.ParseInLocation("2006-01-02T15:04:05", c.Now, time.Local)
	if err != nil {
		return nil, fmt.Errorf("--now: %w", err)
	}
	return func() time.Time { return pinned }, nil
}

// renderer is a model: its templates, or a format of its own.
type renderer interface {
	Render(ctx context.Context, req *chat.Request) (chat.Result, error)
}

// load makes the model of the folder or of the template alone.
func (c *RenderCommand) load(now func() time.Time) (renderer, error) {
	if c.Model == "" && c.Template == "" {
		return nil, errors.New("give --model FOLDER, --template FILE, or both")
	}
	files := &modelfile.Files{}
	if c.Model != "" {
		var err error
		if files, err = modelfile.Load(c.Model, ""); err != nil {
			return nil, err
		}
		if files.Unsupported != "" && c.Template == "" {
			return nil, errors.New(files.Unsupported)
		}
		if files.Harmony {
			return &harmony.Model{Now: now}, nil
		}
	}
	forced := ""
	if c.Template != "" {
		source, err := os.ReadFile(c.Template)
		if err != nil {
			return nil, err
		}
		forced = string(source)
	}
	var special []jinja.Var
	for _, name := range modelfile.SpecialNames() {
		if text, ok := files.SpecialTokens[name]; ok {
			special = append(special, jinja.Var{Name: name, Value: value.Str(text)})
		}
	}
	return chat.New(files.Sources(), forced, special, chat.Options{
		Format: c.Format, DefaultKwargs: value.None, TrustRequestTemplate: true, Now: now,
		Media: media.Of(files.Architecture), Interleave: c.Interleave,
	})
}

// readInput reads a file or standard input, of bounded size.
func readInput(path string, in io.Reader) ([]byte, error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxInputBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxInputBytes {
		return nil, fmt.Errorf("more than %d bytes", maxInputBytes)
	}
	return bytes.TrimSpace(data), nil
}

// describe adds line and column to a template's error.
func describe(err error) error {
	var raised *jinja.Error
	if errors.As(err, &raised) && raised.Line > 0 {
		return fmt.Errorf("line %d, column %d: %s: %s", raised.Line, raised.Col, raised.Type, raised.Message)
	}
	return err
}
