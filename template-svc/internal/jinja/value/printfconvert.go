package value

import (
	"strings"
	"unicode/utf8"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// Conversions check types as CPython does and pad in code points.

// convert applies a conversion to the next argument.
func (p *printf) convert(d directive) error {
	code := d.code
	if p.bytes && code == 'b' {
		code = 's'
	}
	switch code {
	case 's', 'r', 'a', 'd', 'i', 'u', 'o', 'x', 'X', 'e', 'E', 'f', 'F', 'g', 'G', 'c':
	default:
		if _, err := p.arg(); err != nil {
			return err
		}
		if p.bytes && d.code >= utf8.RuneSelf {
			return pyerr.New(pyerr.Overflow, "character argument not in range(0x110000)")
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
	switch {
	case p.bytes && code == 's':
		return p.raw(d, v)
	case p.bytes && code == 'r':
		d.code = 'a'
	case p.bytes && code == 'c':
		return p.byte(d, v)
	}
	if p.bytes && !v.IsNumber() && strings.ContainsRune("eEfFgG", d.code) {
		return pyerr.Newf(pyerr.Type, "float argument required, not %s", v.TypeName())
	}
	if p.bytes && d.code == 'i' || p.bytes && d.code == 'u' {
		d.code = 'd'
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
