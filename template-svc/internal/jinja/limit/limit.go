// Package limit bounds what a template may cost. Limits are settings; a Meter
// counts one render against them; a limit that is passed is an *Error of its
// own kind, never a Python exception, so callers can tell "the template says
// no" from "the template costs too much".
package limit

import (
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
