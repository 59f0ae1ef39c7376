package pyjson

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds nesting; Python's own limit is its recursion limit of 1,000 frames.
const maxDepth = 500

// SyntaxError is what json.JSONDecodeError says: Pos counts characters from 0.
type SyntaxError struct {
	Msg string
	Pos int
}

// Error has the message and the position, as Python prints them.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s: char %d", e.Msg, e.Pos) }

// Doc is a parsed document. LoneSurrogate tells that some string held an unpaired \ud800–\udfff escape, which Python
// keeps and every tokenizer refuses; the text has U+FFFD in its place.
type Doc struct {
	Root          Value
	LoneSurrogate bool
}

// Parse reads one document. The values share data's memory. Errors are *SyntaxError; the caller checks UTF-8 first.
func Parse(data []byte) (*Doc, error) {
	p := parser{data: data}
	doc := &Doc{}
	p.space()
	if err := p.value(&doc.Root, 0); err != nil {
		return nil, err
	}
	p.space()
	if p.pos < len(data) {
		return nil, p.fail("Extra data", p.pos)
	}
	doc.LoneSurrogate = p.lone
	return doc, nil
}

type parser struct {
	data []byte
	pos  int
	lone bool
}

// fail counts the characters, not the bytes, before pos.
func (p *parser) fail(msg string, pos int) error {
	return &SyntaxError{Msg: msg, Pos: utf8.RuneCount(p.data[:min(pos, len(p.data))])}
}

// space skips JSON's four blanks.
func (p *parser) space() {
	for p.pos < len(p.data) {
		switch p.data[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// value reads whatever begins here. Errors have the place at which Python's parser gives up.
func (p *parser) value(v *Value, depth int) error {
	start := p.pos
	if p.pos >= len(p.data) || depth > maxDepth {
		return p.fail("Expecting value", p.pos)
	}
	var err error
	switch c := p.data[p.pos]; {
	case c == '"':
		v.Kind = String
		v.Str, err = p.str()
	case c == '{':
		err = p.dict(v, depth)
	case c == '[':
		err = p.list(v, depth)
	case c == '-' || (c >= '0' && c <= '9'):
		err = p.number(v)
	default:
		err = p.word(v)
	}
	v.Raw = p.data[start:p.pos]
	return err
}

// word reads the names, Python's three extra numbers among them.
func (p *parser) word(v *Value) error {
	words := [...]struct {
		text string
		v    Value
	}{
		{"null", Value{Kind: Null}},
		{"true", Value{Kind: Bool, Bool: true}},
		{"false", Value{Kind: Bool}},
		{"NaN", Value{Kind: Float, Float: math.NaN()}},
		{"Infinity", Value{Kind: Float, Float: math.Inf(1)}},
		{"-Infinity", Value{Kind: Float, Float: math.Inf(-1)}},
	}
	for i := range words {
		if bytes.HasPrefix(p.data[p.pos:], []byte(words[i].text)) {
			*v = words[i].v
			p.pos += len(words[i].text)
			return nil
		}
	}
	return p.fail("Expecting value", p.pos)
}

// digits skips digits and returns their number.
func (p *parser) digits() int {
	from := p.pos
	for p.pos < len(p.data) && p.data[p.pos] >= '0' && p.data[p.pos] <= '9' {
		p.pos++
	}
	return p.pos - from
}

// number reads as much as is a number: what follows, a second point for instance, is the caller's problem.
func (p *parser) number(v *Value) error {
	start := p.pos
	if p.data[p.pos] == '-' {
		p.pos++
	}
	if p.pos < len(p.data) && p.data[p.pos] == '0' {
		p.pos++
	} else if p.digits() == 0 {
		p.pos = start
		return p.word(v)
	}
	v.Kind = Int
	p.fraction(v)
	p.exponent(v)
	text := string(p.data[start:p.pos])
	v.Float, _ = strconv.ParseFloat(text, 64) // out of range gives ±Inf, as in Python
	if v.Kind == Int {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil { // Python's integers have no bound; ours saturate
			n = math.MaxInt64
			if text[0] == '-' {
				n = math.MinInt64
			}
		}
		v.Int = n
	}
	return nil
}

// fraction and exponent take what belongs to the number and leave the position alone if it does not.
func (p *parser) fraction(v *Value) {
	if p.pos >= len(p.data) || p.data[p.pos] != '.' {
		return
	}
	back := p.pos
	p.pos++
	if p.digits() == 0 {
		p.pos = back
		return
	}
	v.Kind = Float
}

func (p *parser) exponent(v *Value) {
	if p.pos >= len(p.data) || p.data[p.pos]|0x20 != 'e' {
		return
	}
	back := p.pos
	p.pos++
	if p.pos < len(p.data) && (p.data[p.pos] == '+' || p.data[p.pos] == '-') {
		p.pos++
	}
	if p.digits() == 0 {
		p.pos = back
		return
	}
	v.Kind = Float
}

// list reads a list; the position is at its bracket.
func (p *parser) list(v *Value, depth int) error {
	v.Kind = List
	p.pos++
	p.space()
	if p.pos < len(p.data) && p.data[p.pos] == ']' {
		p.pos++
		return nil
	}
	for {
		var item Value
		if err := p.value(&item, depth+1); err != nil {
			return err
		}
		v.push(item)
		p.space()
		switch {
		case p.pos < len(p.data) && p.data[p.pos] == ',':
			p.pos++
			p.space()
		case p.pos < len(p.data) && p.data[p.pos] == ']':
			p.pos++
			return nil
		default:
			return p.fail("Expecting ',' delimiter", p.pos)
		}
	}
}

// push keeps integers compact until the first element of another kind arrives.
func (v *Value) push(item Value) {
	if item.Kind == Int && v.Items == nil {
		v.Ints = append(v.Ints, item.Int)
		return
	}
	if v.Ints != nil {
		for _, n := range v.Ints {
			v.Items = append(v.Items, Value{Kind: Int, Int: n, Float: float64(n)})
		}
		v.Ints = nil
	}
	v.Items = append(v.Items, item)
}

// dict reads an object; the position is at its brace. All members are kept, equal keys too.
func (p *parser) dict(v *Value, depth int) error {
	const wantKey = "Expecting property name enclosed in double quotes"
	v.Kind = Dict
	p.pos++
	p.space()
	if p.pos < len(p.data) && p.data[p.pos] == '}' {
		p.pos++
		return nil
	}
	for {
		if p.pos >= len(p.data) || p.data[p.pos] != '"' {
			return p.fail(wantKey, p.pos)
		}
		key, err := p.str()
		if err != nil {
			return err
		}
		p.space()
		if p.pos >= len(p.data) || p.data[p.pos] != ':' {
			return p.fail("Expecting ':' delimiter", p.pos)
		}
		p.pos++
		p.space()
		v.Members = append(v.Members, Member{Key: key})
		if err := p.value(&v.Members[len(v.Members)-1].Value, depth+1); err != nil {
			return err
		}
		p.space()
		switch {
		case p.pos < len(p.data) && p.data[p.pos] == ',':
			p.pos++
			p.space()
		case p.pos < len(p.data) && p.data[p.pos] == '}':
			p.pos++
			return nil
		default:
			return p.fail("Expecting ',' delimiter", p.pos)
		}
	}
}
