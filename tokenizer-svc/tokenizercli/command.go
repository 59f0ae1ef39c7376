// Package tokenizercli is the command `kvmesh tokenize`: it shows the token ids of a text with the engines of the live
// service.
package tokenizercli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/source"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/textlimit"
)

// maxInputBytes bounds one text or line.
const maxInputBytes = 64 << 20

// Command is `kvmesh tokenize`.
type Command struct {
	Text                  []string `arg:"" optional:"" help:"Text to tokenise; standard input when there is none."`
	Model                 string   `short:"m" help:"Model folder in Hugging Face layout, cache folder, or a name given with --dir."`
	Revision              string   `help:"Revision of a cache folder; main when not given."`
	AddSpecialTokens      bool     `help:"Add what the tokenizer puts around a text (BOS); /v1/completions does, chats do not."`
	Pieces                bool     `help:"Write one line per id with the text it stands for."`
	Batch                 bool     `help:"Read NDJSON {\"model\", \"text\", \"add_special_tokens\"} and write {\"ids\"} or {\"error\"} per line."`
	Engine                string   `help:"Engine: auto (the fast one where it is proven equal) or reference." enum:"auto,reference" default:"auto"`
	MaxTextBytes          int      `help:"Longest text for the fast engine, in bytes." default:"8388608"`
	MaxReferenceTextBytes int      `help:"Longest text for the reference engine, in bytes." default:"1048576"`
	MaxRunBytes           int      `help:"Longest run of letters, spaces or marks without a break, in bytes: its cost grows faster than its length." default:"262144"`
	// Dir is filled with the configured models by a program that has a configuration.
	Dir map[string]string `help:"Names for model folders: --dir NAME=FOLDER."`
}

// IO is where a command reads and writes.
type IO struct {
	In  io.Reader
	Out io.Writer
}

// Run tokenises one text or a batch. Kong calls it.
func (c *Command) Run(ctx context.Context, streams IO) error {
	threads := hf.NewThreads(2)
	defer threads.Close()
	s := &shelf{cmd: c, native: &registry.Native{Threads: threads, ReferenceOnly: c.Engine == "reference"}}
	defer s.close()
	if c.Batch {
		return s.batch(ctx, streams)
	}
	if c.Model == "" {
		return errors.New("give --model FOLDER, or --batch")
	}
	m, err := s.get(c.Model)
	if err != nil {
		return err
	}
	text, err := c.text(streams.In)
	if err != nil {
		return err
	}
	ids, err := c.encode(m, text, c.AddSpecialTokens)
	if err != nil {
		return err
	}
	if c.Pieces {
		return writePieces(streams.Out, m, ids)
	}
	return json.NewEncoder(streams.Out).Encode(answer{IDs: list(ids)})
}

// encode gives a text's ids, within the limits: an engine cannot be stopped.
func (c *Command) encode(m *model.Model, text []byte, addSpecialTokens bool) ([]uint32, error) {
	limits := textlimit.Limits{Text: c.MaxTextBytes, ReferenceText: c.MaxReferenceTextBytes, Run: c.MaxRunBytes}
	fast, _ := m.Fast()
	if err := limits.Check(text, fast); err != nil {
		return nil, fmt.Errorf("%w; --help names the flags that raise it", err)
	}
	return m.Encode(nil, text, addSpecialTokens)
}

// text returns the argument, or all of standard input.
func (c *Command) text(in io.Reader) ([]byte, error) {
	if len(c.Text) > 0 {
		return []byte(strings.Join(c.Text, " ")), nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxInputBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if len(text) > maxInputBytes {
		return nil, errTooLong
	}
	return text, nil
}

// writePieces writes each id with its own text, quoted. A character over several ids shows as U+FFFD in each.
func writePieces(out io.Writer, m *model.Model, ids []uint32) error {
	for i, id := range ids {
		text, err := m.Decode(nil, ids[i:i+1], false)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%d\t%d\t%q\n", i, id, text); err != nil {
			return err
		}
	}
	return nil
}

// shelf keeps the models that a run has loaded.
type shelf struct {
	cmd    *Command
	native *registry.Native
	models map[string]*model.Model
}

// get loads a model at its first use.
func (s *shelf) get(name string) (*model.Model, error) {
	if m := s.models[name]; m != nil {
		return m, nil
	}
	path := name
	if dir, ok := s.cmd.Dir[name]; ok {
		path = dir
	}
	dir, err := source.Directory(path, name, s.cmd.Revision)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("model %q is neither a folder nor a configured name", name)
	}
	if err != nil {
		return nil, err
	}
	def, err := definition.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	m, err := s.native.Open(registry.Spec{Name: name}, def)
	if err != nil {
		return nil, err
	}
	if s.models == nil {
		s.models = map[string]*model.Model{}
	}
	s.models[name] = m
	return m, nil
}

// close frees the models.
func (s *shelf) close() {
	for _, m := range s.models {
		m.Release()
	}
}
