package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

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
}

// directive is one conversion: %[(key)][flags][width][.prec]code.
type directive struct {
	left, plus, blank, alt, zero bool
	width, prec                  int // prec -1 = not given
	code                         rune
}

// Printf is format % args.
func Printf(m *limit.Meter, format, args Value) (Value, error) {
	p := printf{m: m, format: format.AsStr(), markup: format.markup}
	if args.k == KindTuple {
		p.args = args.Cells()
	} else {
		p.args = []Value{args}
		switch args.k {
		case KindDict, KindList, KindUndefined:
			p.mapping, p.isMap = args, true
		case KindObject:
			_, p.isMap = args.AsObject().(Indexed)
			p.mapping = args
		}
	}
	if err := p.run(); err != nil {
		return Value{}, err
	}
	return Str(string(p.out)).WithMarkup(p.markup), nil
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
		return pyerr.New(pyerr.Type, "not all arguments converted during string formatting")
	}
	return nil
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
	default:
		return pyerr.Newf(pyerr.Type, "%s indices must be integers or slices, not str", p.mapping.TypeName())
	}
	v, ok := p.mapping.AsDict().GetStr(name)
	if !ok {
		return pyerr.New(pyerr.Key, ReprString(name))
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

// convert applies a conversion to the next argument.
func (p *printf) convert(d directive) error {
	switch d.code {
	case 's', 'r', 'a', 'd', 'i', 'u', 'o', 'x', 'X', 'e', 'E', 'f', 'F', 'g', 'G', 'c':
	default:
		if _, err := p.arg(); err != nil {
			return err
		}
		at := utf8.RuneCountInString(p.format[:p.at]) - 1
		shown := string(d.code)
		if d.code < 31 || d.code > 0x7f {
			shown = "?"
		}
		return pyerr.Newf(pyerr.Value, "unsupported format character '%s' (0x%x) at index %d", shown, d.code, at)
	}
	v, err := p.arg()
	if err != nil {
		return err
	}
	if p.markup {
		if v, err = p.unwrap(d, v); err != nil {
			return err
		}
	}
	switch d.code {
	case 's', 'r', 'a':
		return p.text(d, v)
	case 'c':
		return p.char(d, v)
	case 'd', 'i', 'u', 'o', 'x', 'X':
		return p.integer(d, v)
	}
	return p.float(d, v)
}

// unwrap gives the number that a conversion of Markup sees: markupsafe hands
// over helpers that know int() and float() but are no numbers.
func (p *printf) unwrap(d directive, v Value) (Value, error) {
	switch d.code {
	case 's', 'r', 'a':
		return v, nil
	case 'c':
		return v, pyerr.New(pyerr.Type, "%c requires int or char")
	case 'o', 'x', 'X':
		return v, pyerr.Newf(pyerr.Type, "%%%c format: an integer is required, not _MarkupEscapeHelper", d.code)
	}
	if v.k != KindStr {
		return v, nil
	}
	if d.code == 'd' || d.code == 'i' || d.code == 'u' {
		i, ok, err := ParseInt(v.AsStr(), 10)
		if !ok && err == nil {
			err = pyerr.New(pyerr.Value, "invalid literal for int() with base 10: "+ReprString(v.AsStr()))
		}
		return i, err
	}
	f, ok := ParseFloat(v.AsStr())
	if !ok {
		return v, pyerr.New(pyerr.Value, "could not convert string to float: "+ReprString(v.AsStr()))
	}
	return Float(f), nil
}

// text is %s, %r and %a; the precision cuts code points.
func (p *printf) text(d directive, v Value) error {
	var s string
	var err error
	if d.code == 's' {
		s, err = StrOf(p.m, v)
	} else {
		s, err = ReprOf(p.m, v)
	}
	if err != nil {
		return err
	}
	if p.markup && !(d.code == 's' && v.markup) {
		s = Escape(s)
	}
	if d.code == 'a' {
		s = ASCIIRepr(s)
	}
	if d.prec >= 0 {
		s = s[:Offset(s, d.prec)]
	}
	return p.pad(d, "", s, false)
}

// char is %c: a code point or a single character.
func (p *printf) char(d directive, v Value) error {
	switch {
	case v.k == KindStr && RuneCount(v.AsStr()) == 1:
		return p.pad(d, "", v.AsStr(), false)
	case v.k == KindBig || v.IsInt() && (v.AsInt() < 0 || v.AsInt() > utf8.MaxRune):
		return pyerr.New(pyerr.Overflow, "%c arg not in range(0x110000)")
	case v.IsInt():
		return p.pad(d, "", string(rune(v.AsInt())), false)
	}
	return pyerr.New(pyerr.Type, "%c requires int or char")
}

// integer is %d, %o, %x and their kin; %d alone takes floats.
func (p *printf) integer(d directive, v Value) error {
	decimal := d.code == 'd' || d.code == 'i' || d.code == 'u'
	switch {
	case v.k == KindUndefined:
		if decimal {
			return RaiseUndefined(v)
		}
		return pyerr.Newf(pyerr.Type, "%%%c format: an integer is required, not Undefined", d.code)
	case v.k == KindFloat && decimal:
		var err error
		if v, err = TruncFloat(v.AsFloat()); err != nil {
			return err
		}
	case !v.IsInt() && decimal:
		return pyerr.Newf(pyerr.Type, "%%%c format: a real number is required, not %s", d.code, v.TypeName())
	case !v.IsInt():
		return pyerr.Newf(pyerr.Type, "%%%c format: an integer is required, not %s", d.code, v.TypeName())
	}
	base, prefix := 10, ""
	switch d.code {
	case 'o':
		base, prefix = 8, "0o"
	case 'x':
		base, prefix = 16, "0x"
	case 'X':
		base, prefix = 16, "0X"
	}
	digits, neg, err := intDigits(v, base)
	if err != nil {
		return err
	}
	if d.code == 'X' {
		digits = strings.ToUpper(digits)
	}
	if n := d.prec - len(digits); n > 0 {
		digits = strings.Repeat("0", n) + digits
	}
	if !d.alt {
		prefix = ""
	}
	return p.pad(d, d.sign(neg)+prefix, digits, true)
}

// intDigits gives the digits of |v| and its sign.
func intDigits(v Value, base int) (digits string, neg bool, err error) {
	if base == 10 && v.k == KindBig {
		if digits, err = bigText(v); err != nil {
			return "", false, err
		}
	} else {
		digits = v.AsBig().Text(base)
	}
	if digits[0] == '-' {
		return digits[1:], true, nil
	}
	return digits, false, nil
}

// sign is what stands before a number.
func (d *directive) sign(neg bool) string {
	switch {
	case neg:
		return "-"
	case d.plus:
		return "+"
	case d.blank:
		return " "
	}
	return ""
}

// float is %e, %f, %g and their capitals.
func (p *printf) float(d directive, v Value) error {
	if v.k == KindUndefined {
		return RaiseUndefined(v)
	}
	if !v.IsNumber() {
		return pyerr.Newf(pyerr.Type, "must be real number, not %s", v.TypeName())
	}
	f, err := ToFloat(v)
	if err != nil {
		return err
	}
	if d.prec < 0 {
		d.prec = 6
	}
	s := floatText(f, byte(d.code), d.prec, d.alt)
	return p.pad(d, d.sign(isNegative(f)), s, true)
}

// pad writes sign and body in the directive's width; a number may be filled
// with zeros between the two.
func (p *printf) pad(d directive, sign, body string, number bool) error {
	n := max(d.width-RuneCount(body)-len(sign), 0)
	if err := p.m.Pad(int64(n)); err != nil {
		return err
	}
	if err := p.m.Bytes(n); err != nil {
		return err
	}
	switch {
	case d.left:
		return p.write(sign + body + strings.Repeat(" ", n))
	case d.zero && number:
		return p.write(sign + strings.Repeat("0", n) + body)
	}
	return p.write(strings.Repeat(" ", n) + sign + body)
}
