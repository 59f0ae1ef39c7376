// Package jinja renders chat templates exactly as Jinja2 3.1.6 does in the
// environment that the transformers library sets up for them: an immutable
// sandbox, trim_blocks and lstrip_blocks, loop controls, a generation tag, its
// own tojson, raise_exception and strftime_now. Text, and for failures
// Python's exception type and message, are equal byte for byte.
//
// A template goes through five stages, of which the first four happen once:
//
//  1. package syntax cuts the source into tokens and applies the whitespace
//     rules of tags,
//  2. and parses them into a tree, whose nodes Walk visits;
//  3. package eval decides for every name, frame by frame as Jinja2 does,
//     whether it is a variable of the frame, of an outer one, or looked up in
//     the render's variables, and gives each a numbered slot;
//  4. and turns every node into a closure over those slots.
//  5. A render is one call of the root closure. It appends to one buffer; a
//     macro's or set block's text is written at the buffer's end and cut off.
//
// Values (package value) are immutable, so a Template and the values it is
// given serve any number of renders at once. A Meter (package limit) counts
// steps, depth and made bytes of each render: a hostile template ends with a
// *LimitError, never with a dead process.
package jinja

import (
	"context"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/eval"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The types of the engine's parts that callers meet.
type (
	// Value is a datum of the template language; package value has its
	// constructors (Str, Int, List, NewDict, FromJSON, ...).
	Value = value.Value
	// Limits bounds compiling and rendering; zero fields take defaults.
	Limits = limit.Limits
	// LimitError says which limit a template passed.
	LimitError = limit.Error
	// Error is a Python exception: Type, Message, Line, Col.
	Error = pyerr.Error
	// Var is one variable of a render.
	Var = eval.Var
)

// Env is what one render sees besides the template.
type Env struct {
	// Vars are the render's variables; of a repeated name the last one counts.
	Vars []Var
	// Now is the clock of strftime_now; nil means time.Now. The time's own
	// zone decides the text.
	Now func() time.Time
	// Limits replaces the limits of Compile for this render if not nil.
	Limits *Limits
}

// Template is a compiled template. It is immutable and safe for concurrent use.
type Template struct {
	tree   *syntax.Template
	prog   *eval.Program
	limits Limits
}

// Compile parses and compiles source. Failures are *Error
// (TemplateSyntaxError, TemplateAssertionError) or *LimitError (source size,
// nesting).
func Compile(source string, limits Limits) (*Template, error) {
	limits = limits.Complete()
	tree, err := syntax.Parse(source, limits)
	if err != nil {
		return nil, err
	}
	prog, err := eval.Compile(tree, limits)
	if err != nil {
		return nil, err
	}
	return &Template{tree: tree, prog: prog, limits: limits}, nil
}

// Render appends the template's text to dst and returns the extended slice.
// After an error, an *Error, a *LimitError (of kind Time if ctx ended), the
// returned slice is dst unchanged.
func (t *Template) Render(ctx context.Context, dst []byte, env Env) ([]byte, error) {
	limits := t.limits
	if env.Limits != nil {
		limits = env.Limits.Complete()
	}
	now := env.Now
	if now == nil {
		now = time.Now
	}
	return t.prog.Render(ctx, dst, eval.Input{Vars: env.Vars, Now: now, Limits: limits})
}

// Undeclared lists, sorted, the names the template reads without setting them
// first: what Jinja2's find_undeclared_variables gives with raise_exception
// and strftime_now known as globals. A request's kwarg counts only if it is
// among them.
func (t *Template) Undeclared() []string { return t.prog.Undeclared() }

// The content formats: how a worker hands a message's content to the template.
const (
	FormatString = syntax.FormatString // parts joined to one text
	FormatOpenAI = syntax.FormatOpenAI // a list of parts
)

// ContentFormat is the format that vLLM 0.32 detects: FormatOpenAI if a loop
// runs over a message's content, macros looked through.
func (t *Template) ContentFormat() (format string) { return syntax.ContentFormat(t.tree) }

// ContentFormatOld is what vLLM before 0.28 detects: macros are not looked
// through.
func (t *Template) ContentFormatOld() (format string) { return syntax.ContentFormatOld(t.tree) }

// Tree gives the syntax tree, which must not be changed; syntax.Walk visits it.
func (t *Template) Tree() *syntax.Template { return t.tree }

// Walk visits every node of the template, parents first; a false result skips
// a node's children.
func (t *Template) Walk(visit func(syntax.Node) bool) { syntax.Walk(t.tree, visit) }

// FromJSON reads JSON as Python does; see value.FromJSON.
func FromJSON(data []byte) (Value, error) { return value.FromJSON(data) }

// JSONReader reads JSON without copies into memory that it uses again; see
// value.JSONReader.
type JSONReader = value.JSONReader
