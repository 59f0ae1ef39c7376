package value

import (
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
)

// Printer writes texts of values, charging m; it is for one render.
type Printer struct {
	Buf   []byte
	Meter *limit.Meter
	depth int
}

// Write appends s.
func (p *Printer) Write(s string) error {
	if err := p.Meter.Bytes(len(s)); err != nil {
		return err
	}
	p.Buf = append(p.Buf, s...)
	return nil
}

// RuneCount is the number of code points of s.
func RuneCount(s string) int { return utf8.RuneCountInString(s) }

// ReprString is Python's repr of a str.
func ReprString(s string) string { return "'" + s + "'" }
