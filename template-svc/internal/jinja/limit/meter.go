package limit

import (
	"context"
)

// Counting is a subtraction and a branch; the context is looked at only
// once per window of steps.

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

// charBytes is the text a built-in takes character by character, with tables of
// Unicode, in about the time of a step.
const charBytes = 4

// Chars counts the work of a built-in that looks at n bytes of text character by
// character. It is called before the work: the steps that are left bound it.
func (m *Meter) Chars(n int) error {
	if n < scanBytes {
		return nil
	}
	return m.Work(n / charBytes)
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
