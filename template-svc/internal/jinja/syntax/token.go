package syntax

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Messages quote tokens by Jinja2's names for them, so kinds are those
// names. Places are computed once, in a single pass.

// kind names a token's type as Jinja2 does, since its messages quote it.
type kind string

const (
	kEOF           kind = "eof"
	kData          kind = "data"
	kVariableBegin kind = "variable_begin"
	kVariableEnd   kind = "variable_end"
	kBlockBegin    kind = "block_begin"
	kBlockEnd      kind = "block_end"
	kName          kind = "name"
	kString        kind = "string"
	kInteger       kind = "integer"
	kFloat         kind = "float"
)

// operators lists what is tried in order, longer ones first.
var operators = [...]struct {
	text string
	kind kind
}{
	{"//", "floordiv"},
	{"**", "pow"},
	{"==", "eq"},
	{"!=", "ne"},
	{">=", "gteq"},
	{"<=", "lteq"},
	{"+", "add"},
	{"-", "sub"},
	{"/", "div"},
	{"*", "mul"},
	{"%", "mod"},
	{"~", "tilde"},
	{"[", "lbracket"},
	{"]", "rbracket"},
	{"(", "lparen"},
	{")", "rparen"},
	{"{", "lbrace"},
	{"}", "rbrace"},
	{">", "gt"},
	{"<", "lt"},
	{"=", "assign"},
	{".", "dot"},
	{":", "colon"},
	{"|", "pipe"},
	{",", "comma"},
	{";", "semicolon"},
}

// token is one token; text is a name, a decoded string, or plain data.
type token struct {
	kind kind
	text string
	num  value.Value
	off  int // byte offset in the source
	pos  Pos
}

// describe is the token in messages.
func (t token) describe() string {
	if t.kind == kName {
		return t.text
	}
	return t.kind.describe()
}

// describe is the kind in messages: the sign of an operator, a phrase for
// the rest.
func (k kind) describe() string {
	switch k {
	case kBlockBegin:
		return "begin of statement block"
	case kBlockEnd:
		return "end of statement block"
	case kVariableBegin:
		return "begin of print statement"
	case kVariableEnd:
		return "end of print statement"
	case kData:
		return "template data / text"
	case kEOF:
		return "end of template"
	}
	for _, o := range operators {
		if o.kind == k {
			return o.text
		}
	}
	return string(k)
}

// source is normalised template text with its line starts.
type source struct {
	text  string
	lines []int // byte offset of each line
}

// newSource turns every line end into "\n" and drops one at the end.
func newSource(text string) *source {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	text = normalizeNewlines(text)
	text = strings.TrimSuffix(text, "\n")
	s := &source{text: text, lines: []int{0}}
	for i := range len(text) {
		if text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// normalizeNewlines turns the line ends of Windows and old Macs into "\n".
func normalizeNewlines(s string) string {
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// place sets the positions of tokens, which are in the order of the source.
func (s *source) place(toks []token) {
	line, start, last, col := 0, 0, 0, 1
	for i := range toks {
		off := min(toks[i].off, len(s.text))
		for line+1 < len(s.lines) && s.lines[line+1] <= off {
			line++
			start = s.lines[line]
			last, col = start, 1
		}
		if off >= last {
			col += utf8.RuneCountInString(s.text[last:off])
			last = off
		}
		toks[i].pos = Pos{Line: line + 1, Col: col}
	}
}

// pos gives line and column of a byte offset.
func (s *source) pos(off int) Pos {
	line := sort.SearchInts(s.lines, off+1)
	start := s.lines[line-1]
	return Pos{Line: line, Col: utf8.RuneCountInString(s.text[start:min(off, len(s.text))]) + 1}
}

// fail makes a TemplateSyntaxError at a byte offset.
func (s *source) fail(off int, format string, a ...any) error {
	e := pyerr.Newf(pyerr.Syntax, format, a...)
	p := s.pos(off)
	e.Line, e.Col = p.Line, p.Col
	return e
}
