package syntax

import (
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Numbers are lexed as Jinja2 does: underscores between digits, prefixes
// for other bases, and no float right after a dot.

// digits gives the length of a run of digits with single underscores between
// them at byte i; leading allows an underscore in front as well.
func (l *lexer) digits(i int, set string, leading bool) int {
	n := 0
	for i+n < len(l.s) {
		c := l.s[i+n]
		if c == '_' {
			if n == 0 && !leading || i+n+1 >= len(l.s) || strings.IndexByte(set, l.s[i+n+1]) < 0 {
				break
			}
		} else if strings.IndexByte(set, c) < 0 {
			break
		}
		n++
	}
	return n
}

const (
	decimal = "0123456789"
	hex     = "0123456789abcdefABCDEF"
)

// number reads an int or float literal.
func (l *lexer) number() error {
	start := l.at
	if n := l.floatLen(); n > 0 {
		l.at += n
		f, _ := strconv.ParseFloat(strings.ReplaceAll(l.s[start:l.at], "_", ""), 64)
		l.emit(token{kind: kFloat, num: value.Float(f), off: start})
		return nil
	}
	n := l.intLen()
	l.at += n
	v, ok, err := value.ParseInt(strings.ReplaceAll(l.s[start:l.at], "_", ""), 0)
	if err != nil {
		return err
	}
	if !ok {
		return l.src.fail(start, "invalid integer literal")
	}
	l.emit(token{kind: kInteger, num: v, off: start})
	return nil
}

// floatLen gives the length of a float literal at l.at, 0 if there is none; the
// digits after a dot, as in x.0, never start one.
func (l *lexer) floatLen() int {
	if l.at > 0 && l.s[l.at-1] == '.' {
		return 0
	}
	i := l.at + l.digits(l.at, decimal, false)
	float := false
	if i < len(l.s) && l.s[i] == '.' {
		if n := l.digits(i+1, decimal, false); n > 0 {
			i += 1 + n
			float = true
		}
	}
	if i < len(l.s) && l.s[i]|0x20 == 'e' {
		j := i + 1
		if j < len(l.s) && (l.s[j] == '+' || l.s[j] == '-') {
			j++
		}
		if n := l.digits(j, decimal, false); n > 0 {
			i = j + n
			float = true
		}
	}
	if !float {
		return 0
	}
	return i - l.at
}

// intLen gives the length of an int literal at l.at; 0123 is 0 and then
// 123.
func (l *lexer) intLen() int {
	if l.s[l.at] != '0' {
		return l.digits(l.at, decimal, false)
	}
	if l.at+1 < len(l.s) {
		set := map[byte]string{'b': "01", 'o': "01234567", 'x': hex}[l.s[l.at+1]|0x20]
		if set != "" {
			if n := l.digits(l.at+2, set, true); n > 0 {
				return 2 + n
			}
		}
	}
	return l.digits(l.at, "0", false)
}
