// Package limit bounds what a template may cost. Limits are settings; a Meter
// counts one render against them; a limit that is passed is an *Error of its
// own kind, never a Python exception, so callers can tell "the template says
// no" from "the template costs too much".
package limit

import (
	"context"
	"fmt"
)

// Limits of compiling and rendering. A zero field takes its default.
type Limits struct {
	SourceBytes  int   // template source; default 1 MiB
	Depth        int   // nesting of syntax and values, macro calls, recursive loops; default 200
	Steps        int64 // statements, rounds, calls; default 5,000,000
	MadeBytes    int64 // text and list cells made, not only output; default 64 MiB
	PaddingBytes int64 // width of a single padding or indent; default 1 Mi
	PowerBits    int64 // size of integer results of ** and <<; default 1 Mi bits
	JSONDepth    int   // nesting of JSON input and of tojson output; default 500
}

// Default gives the default of every limit.
func Default() Limits {
	return Limits{
		SourceBytes: 1 << 20, Depth: 200, Steps: 5_000_000, MadeBytes: 64 << 20,
		PaddingBytes: 1 << 20, PowerBits: 1 << 20, JSONDepth: 500,
	}
}

// Complete fills zero fields with the defaults.
func (l Limits) Complete() Limits {
	d := Default()
	if l.SourceBytes == 0 {
		l.SourceBytes = d.SourceBytes
	}
	if l.Depth == 0 {
		l.Depth = d.Depth
	}
	if l.Steps == 0 {
		l.Steps = d.Steps
	}
	if l.MadeBytes == 0 {
		l.MadeBytes = d.MadeBytes
	}
	if l.PaddingBytes == 0 {
		l.PaddingBytes = d.PaddingBytes
	}
	if l.PowerBits == 0 {
		l.PowerBits = d.PowerBits
	}
	if l.JSONDepth == 0 {
		l.JSONDepth = d.JSONDepth
	}
	return l
}

// Kind says which limit was passed.
type Kind string

// One kind per limit; Time is a context that ended.
const (
	Source    Kind = "source_bytes"
	Depth     Kind = "depth"
	Steps     Kind = "steps"
	Made      Kind = "made_bytes"
	Padding   Kind = "padding_bytes"
	Power     Kind = "power_bits"
	JSONDepth Kind = "json_depth"
	Time      Kind = "time"
)

// Error says that a template passed a limit. Max is the limit's value (0 for
// Time, whose Cause is the context's error).
type Error struct {
	Kind  Kind
	Max   int64
	Cause error
}

// Error names the limit and its value.
func (e *Error) Error() string {
	if e.Kind == Time {
		return fmt.Sprintf("template stopped: %v", e.Cause)
	}
	return fmt.Sprintf("template passes limit %s = %d", e.Kind, e.Max)
}

// Unwrap gives the context's error of a Time limit.
func (e *Error) Unwrap() error { return e.Cause }

// ctxSteps is how many steps pass between two looks at the context: a step is
// about 50 ns, so a cancelled render ends within some 0.1 ms.
const ctxSteps = 1024

// Meter counts one render. It is not safe for concurrent use.
type Meter struct {
	ctx    context.Context
	lim    Limits
	steps  int64 // left
	bytes  int64 // left
	depth  int
	toPoll int
	window int // what toPoll began with
}

// NewMeter starts a count; lim must be complete.
func NewMeter(ctx context.Context, lim Limits) Meter {
	m := Meter{ctx: ctx, lim: lim, steps: lim.Steps, bytes: lim.MadeBytes}
	m.window = int(min(ctxSteps, lim.Steps))
	m.toPoll = m.window
	return m
}

// Limits gives the limits counted against.
func (m *Meter) Limits() *Limits { return &m.lim }

// Step counts one statement, round or call.
func (m *Meter) Step() error {
	m.toPoll--
	if m.toPoll > 0 {
		return nil
	}
	return m.poll()
}

// Work counts n steps at once, for a built-in whose cost is n rounds.
func (m *Meter) Work(n int) error {
	if n < m.toPoll {
		m.toPoll -= n
		return nil
	}
	m.steps -= int64(n) - int64(m.toPoll)
	m.toPoll = 0
	return m.poll()
}

// scanBytes is the text a built-in looks through in about the time of a step.
const scanBytes = 256

// Scan counts the reading of n bytes of text by a built-in.
func (m *Meter) Scan(n int) error {
	if n < scanBytes {
		return nil
	}
	return m.Work(n / scanBytes)
}

// poll ends a window of steps: it books them and looks at the context.
func (m *Meter) poll() error {
	m.steps -= int64(m.window)
	if m.steps <= 0 {
		m.window, m.toPoll = 1, 1
		return &Error{Kind: Steps, Max: m.lim.Steps}
	}
	m.window = int(min(ctxSteps, m.steps))
	m.toPoll = m.window
	if m.ctx != nil {
		if err := m.ctx.Err(); err != nil {
			return &Error{Kind: Time, Cause: err}
		}
	}
	return nil
}

// Bytes charges n bytes of text or cells that are about to be made.
func (m *Meter) Bytes(n int) error {
	m.bytes -= int64(n)
	if m.bytes < 0 || n < 0 {
		return &Error{Kind: Made, Max: m.lim.MadeBytes}
	}
	return nil
}

// Product charges n*size bytes and is safe against overflow.
func (m *Meter) Product(n, size int) error {
	if n > 0 && size > 0 && int64(n) > (1<<62)/int64(size) {
		return &Error{Kind: Made, Max: m.lim.MadeBytes}
	}
	return m.Bytes(n * size)
}

// Pad checks the width of one padding.
func (m *Meter) Pad(n int64) error {
	if n > m.lim.PaddingBytes {
		return &Error{Kind: Padding, Max: m.lim.PaddingBytes}
	}
	return nil
}

// Bits checks the size of an integer about to be made.
func (m *Meter) Bits(n int64) error {
	if n > m.lim.PowerBits {
		return &Error{Kind: Power, Max: m.lim.PowerBits}
	}
	return m.Bytes(int(n / 8))
}

// Enter counts one level of nesting; every Enter needs a Leave.
func (m *Meter) Enter() error {
	m.depth++
	if m.depth > m.lim.Depth {
		m.depth--
		return &Error{Kind: Depth, Max: int64(m.lim.Depth)}
	}
	return nil
}

// Leave ends a level.
func (m *Meter) Leave() { m.depth-- }
