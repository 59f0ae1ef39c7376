package casetest

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// node is a JSON value that keeps its source: member order, duplicates and the spelling of numbers.
type node struct {
	kind    byte // 'o', 'a', 's', 'n', 't', 'f', '0'
	text    string
	members []member
	items   []*node
}

type member struct {
	key   string
	value *node
}

var errTree = errors.New("not JSON")

// parseTree reads a document. It is written apart from the gateway's reader, so that one cannot hide the other's faults.
func parseTree(s string) (*node, error) {
	p := &treeParser{s: s}
	n, err := p.value()
	if err != nil {
		return nil, err
	}
	if p.blank(); p.i != len(s) {
		return nil, errTree
	}
	return n, nil
}

type treeParser struct {
	s string
	i int
}

func (p *treeParser) blank() {
	for p.i < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *treeParser) eat(c byte) bool {
	p.blank()
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *treeParser) value() (*node, error) {
	p.blank()
	if p.i >= len(p.s) {
		return nil, errTree
	}
	start := p.i
	n := &node{}
	var err error
	switch c := p.s[p.i]; c {
	case '{':
		n.kind = 'o'
		err = p.object(n)
	case '[':
		n.kind = 'a'
		err = p.array(n)
	case '"':
		n.kind = 's'
		err = p.str()
	default:
		for p.i < len(p.s) && strings.IndexByte(",]} \t\r\n", p.s[p.i]) < 0 {
			p.i++
		}
		n.kind, err = scalarKind(p.s[start:p.i])
	}
	n.text = p.s[start:p.i]
	return n, err
}

func scalarKind(word string) (byte, error) {
	switch word {
	case "true":
		return 't', nil
	case "false":
		return 'f', nil
	case "null":
		return '0', nil
	}
	if !json.Valid([]byte(word)) {
		return 0, errTree
	}
	return 'n', nil
}

func (p *treeParser) str() error {
	for p.i++; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '\\':
			p.i++
		case '"':
			p.i++
			return nil
		}
	}
	return errTree
}

func (p *treeParser) object(n *node) error {
	p.i++
	for !p.eat('}') {
		if len(n.members) > 0 && !p.eat(',') {
			return errTree
		}
		p.blank()
		start := p.i
		if p.i >= len(p.s) || p.s[p.i] != '"' || p.str() != nil {
			return errTree
		}
		key := unquote(p.s[start:p.i])
		if !p.eat(':') {
			return errTree
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		n.members = append(n.members, member{key, v})
	}
	return nil
}

func (p *treeParser) array(n *node) error {
	p.i++
	for !p.eat(']') {
		if len(n.items) > 0 && !p.eat(',') {
			return errTree
		}
		v, err := p.value()
		if err != nil {
			return err
		}
		n.items = append(n.items, v)
	}
	return nil
}

// quote is a string as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

func unquote(s string) string {
	var out string
	_ = json.Unmarshal([]byte(s), &out)
	return out
}

// get is the last member of that name.
func (n *node) get(key string) *node {
	if n == nil || n.kind != 'o' {
		return nil
	}
	for i := len(n.members) - 1; i >= 0; i-- {
		if n.members[i].key == key {
			return n.members[i].value
		}
	}
	return nil
}

// at follows a JSON Pointer; nil when there is nothing.
func (n *node) at(pointer string) *node {
	if pointer == "" {
		return n
	}
	for _, part := range strings.Split(pointer[1:], "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch {
		case n == nil:
			return nil
		case n.kind == 'o':
			n = n.get(part)
		case n.kind == 'a':
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(n.items) {
				return nil
			}
			n = n.items[i]
		default:
			return nil
		}
	}
	return n
}

// same tells whether two values are equal token by token: order, duplicates and number spelling count, white space and the
// escaping of strings do not.
func (n *node) same(o *node) bool {
	if n.kind != o.kind || len(n.items) != len(o.items) || len(n.members) != len(o.members) {
		return false
	}
	switch n.kind {
	case 's':
		return unquote(n.text) == unquote(o.text)
	case 'n':
		return n.text == o.text
	}
	for i := range n.items {
		if !n.items[i].same(o.items[i]) {
			return false
		}
	}
	for i := range n.members {
		if n.members[i].key != o.members[i].key || !n.members[i].value.same(o.members[i].value) {
			return false
		}
	}
	return true
}

// equal compares by value: numbers as numbers, members in any order.
func (n *node) equal(o *node) bool {
	if n == nil || o == nil || n.kind != o.kind {
		return false
	}
	switch n.kind {
	case 's':
		return unquote(n.text) == unquote(o.text)
	case 'n':
		a, err1 := strconv.ParseFloat(n.text, 64)
		b, err2 := strconv.ParseFloat(o.text, 64)
		return n.text == o.text || err1 == nil && err2 == nil && a == b
	case 'a':
		if len(n.items) != len(o.items) {
			return false
		}
		for i := range n.items {
			if !n.items[i].equal(o.items[i]) {
				return false
			}
		}
	case 'o':
		for _, m := range n.members {
			if !n.get(m.key).equal(o.get(m.key)) {
				return false
			}
		}
		for _, m := range o.members {
			if n.get(m.key) == nil {
				return false
			}
		}
	}
	return true
}

// argumentsAsText turns object arguments of historical tool calls into text that holds their own source.
func argumentsAsText(body *node) {
	messages := body.get("messages")
	if messages == nil {
		return
	}
	for _, m := range messages.items {
		calls := m.get("tool_calls")
		if calls == nil {
			continue
		}
		for _, c := range calls.items {
			if a := c.get("function").get("arguments"); a != nil && a.kind == 'o' {
				*a = node{kind: 's', text: quote(a.text)}
			}
		}
	}
}
