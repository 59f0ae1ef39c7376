package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// The operator % follows C's printf with Python's additions: %r, keys in
// brackets, ints of any size.

// printf is one run of Python's str % args.
type printf struct {
	m       *limit.Meter
	out     []byte
	format  string
	at      int // in format
	args    []Value
	next    int // in args
	mapping Value
	isMap   bool
	markup  bool
	bytes   bool // the format is bytes
}

// directive is one conversion: %[(key)][flags][width][.prec]code.
type directive struct {
	left, plus, blank, alt, zero bool
	width, prec                  int // prec -1 = not given
	code                         rune
}

// Printf is format % args.
func Printf(m *limit.Meter, format, args Value) (Value, error) {
	p := printf{m: m, format: format.AsStr(), markup: format.markup, bytes: format.k == KindBytes}
	if args.k == KindTuple {
		p.args = args.Cells()
	} else {
		p.args = []Value{args}
		switch args.k {
		case KindDict, KindList, KindUndefined:
			p.mapping, p.isMap = args, true
		case KindBytes:
			p.mapping, p.isMap = args, !p.bytes
		case KindObject:
			_, p.isMap = args.AsObject().(Indexed)
			p.mapping = args
		}
	}
	if err := p.run(); err != nil {
		return Value{}, err
	}
	out := StrOfBytes(p.out).WithMarkup(p.markup)
	out.k = format.k
	return out, nil
}

// run goes through the format.
func (p *printf) run() error {
	for p.at < len(p.format) {
		pct := strings.IndexByte(p.format[p.at:], '%')
		if pct < 0 {
			pct = len(p.format) - p.at
		}
		if err := p.write(p.format[p.at : p.at+pct]); err != nil {
			return err
		}
		p.at += pct
		if p.at < len(p.format) {
			p.at++
			if err := p.directive(); err != nil {
				return err
			}
		}
	}
	if p.next < len(p.args) && !p.isMap {
		return pyerr.Newf(pyerr.Type, "not all arguments converted during %s formatting", p.noun())
	}
	return nil
}

// noun is what messages call the format.
func (p *printf) noun() string {
	if p.bytes {
		return "bytes"
	}
	return "string"
}

// write charges and appends s.
func (p *printf) write(s string) error {
	if err := p.m.Bytes(len(s)); err != nil {
		return err
	}
	p.out = append(p.out, s...)
	return p.m.Step()
}

// arg takes the next argument.
func (p *printf) arg() (Value, error) {
	if p.next >= len(p.args) {
		return Value{}, pyerr.New(pyerr.Type, "not enough arguments for format string")
	}
	p.next++
	return p.args[p.next-1], nil
}

// key reads (name) and makes the mapping's value the argument.
func (p *printf) key() error {
	if !p.isMap {
		return pyerr.New(pyerr.Type, "format requires a mapping")
	}
	start, depth := p.at+1, 0
	for ; p.at < len(p.format); p.at++ {
		switch p.format[p.at] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if p.at >= len(p.format) {
		return pyerr.New(pyerr.Value, "incomplete format key")
	}
	name := p.format[start:p.at]
	p.at++
	switch p.mapping.k {
	case KindUndefined:
		return RaiseUndefined(p.mapping)
	case KindDict:
	case KindBytes:
		return pyerr.New(pyerr.Type, "byte indices must be integers or slices, not str")
	default:
		return pyerr.Newf(pyerr.Type, "%s indices must be integers or slices, not %s", p.mapping.TypeName(), p.keyType())
	}
	v, ok, shown := p.lookUp(name)
	if !ok {
		return pyerr.New(pyerr.Key, shown)
	}
	p.args, p.next = []Value{v}, 0
	return nil
}

// directive reads one conversion and applies it.
func (p *printf) directive() error {
	d := directive{prec: -1}
	if strings.HasPrefix(p.format[p.at:], "%") {
		p.at++
		return p.write("%")
	}
	if strings.HasPrefix(p.format[p.at:], "(") {
		if err := p.key(); err != nil {
			return err
		}
	}
	for ; p.at < len(p.format) && strings.IndexByte("-+ #0", p.format[p.at]) >= 0; p.at++ {
		switch p.format[p.at] {
		case '-':
			d.left = true
		case '+':
			d.plus = true
		case ' ':
			d.blank = true
		case '#':
			d.alt = true
		case '0':
			d.zero = true
		}
	}
	var err error
	if d.width, err = p.size(); err != nil {
		return err
	}
	if d.width < 0 {
		d.left, d.width = true, -d.width
	}
	if strings.HasPrefix(p.format[p.at:], ".") {
		p.at++
		if d.prec, err = p.size(); err != nil {
			return err
		}
		d.prec = max(d.prec, 0)
	}
	if p.at < len(p.format) && strings.IndexByte("hlL", p.format[p.at]) >= 0 {
		p.at++
	}
	if p.at >= len(p.format) {
		return pyerr.New(pyerr.Value, "incomplete format")
	}
	var n int
	d.code, n = utf8.DecodeRuneInString(p.format[p.at:])
	p.at += n
	return p.convert(d)
}

// size reads a width or precision; "*" takes it from the arguments.
func (p *printf) size() (int, error) {
	if strings.HasPrefix(p.format[p.at:], "*") {
		p.at++
		v, err := p.arg()
		if err != nil {
			return 0, err
		}
		if !v.IsInt() {
			return 0, pyerr.New(pyerr.Type, "* wants int")
		}
		if v.k == KindBig || v.AsInt() > 1<<31-1 || v.AsInt() < -(1<<31-1) {
			return 0, pyerr.New(pyerr.Overflow, "Python int too large to convert to C ssize_t")
		}
		n := int(v.AsInt())
		return n, p.m.Pad(int64(max(n, -n)))
	}
	n := 0
	for ; p.at < len(p.format) && isDigit(p.format[p.at]); p.at++ {
		n = n*10 + int(p.format[p.at]-'0')
		if n > 1<<31-1 {
			return 0, pyerr.New(pyerr.Value, "width too big")
		}
	}
	return n, p.m.Pad(int64(n))
}
