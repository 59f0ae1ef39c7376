package value

import (
	"math"
	"math/big"
	"strconv"
)

// A number without fraction and exponent is an int, however long.

// number reads an int, or a float if it has a fraction or exponent.
func (p *jsonParser) number() (Value, error) {
	start := p.at
	if p.s[p.at] == '-' {
		p.at++
		if p.at < len(p.s) && p.s[p.at] == 'I' {
			return p.word("Infinity", Float(math.Inf(-1)))
		}
	}
	digits := p.digits()
	if digits == 0 || digits > 1 && p.s[p.at-digits] == '0' {
		p.at = start
		return Value{}, p.fail("value expected")
	}
	float := false
	if p.at+1 < len(p.s) && p.s[p.at] == '.' && isDigit(p.s[p.at+1]) {
		p.at++
		p.digits()
		float = true
	}
	if p.at < len(p.s) && (p.s[p.at] == 'e' || p.s[p.at] == 'E') {
		back := p.at
		p.at++
		if p.at < len(p.s) && (p.s[p.at] == '+' || p.s[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			p.at = back
		} else {
			float = true
		}
	}
	text := p.s[start:p.at]
	if float {
		f, _ := strconv.ParseFloat(text, 64) // out of range gives an infinity, as in Python
		return Float(f), nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(i), nil
	}
	if digits > maxIntDigits {
		return Value{}, p.fail("integer of more than 4300 digits")
	}
	b, _ := new(big.Int).SetString(text, 10)
	return Big(b), nil
}

// digits moves over digits and counts them.
func (p *jsonParser) digits() int {
	start := p.at
	for p.at < len(p.s) && isDigit(p.s[p.at]) {
		p.at++
	}
	return p.at - start
}

// isDigit reports an ASCII digit.
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
