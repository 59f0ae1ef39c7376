package casetest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// faults collects what is wrong.
type faults []string

// timef adds a fault that a busy machine alone can cause.
func (f *faults) timef(format string, a ...any) { *f = append(*f, late+fmt.Sprintf(format, a...)) }

// late begins the faults that are about time.
const late = "time: "

func (f *faults) addf(format string, a ...any) { *f = append(*f, fmt.Sprintf(format, a...)) }

// check applies checks to a document.
func (f *faults) check(where, doc string, checks []Check) {
	if len(checks) == 0 {
		return
	}
	root, err := parseTree(doc)
	if err != nil {
		f.addf("%s: not JSON: %.200s", where, doc)
		return
	}
	for _, c := range checks {
		if why := c.fault(root.at(c.At)); why != "" {
			f.addf("%s at %q: %s", where, c.At, why)
		}
	}
}

// fault is why a value does not fit, empty when it does.
func (c *Check) fault(n *node) string {
	if c.Absent {
		if n != nil {
			return "is there: " + clip(n.text)
		}
		return ""
	}
	if n == nil {
		return "is absent"
	}
	ok := true
	switch {
	case c.Present:
	case c.Equals != nil:
		want, _ := parseTree(string(c.Equals))
		ok = n.equal(want)
	case c.Raw != nil:
		ok = n.text == *c.Raw
	case c.Type != "":
		ok = n.is(c.Type)
	case c.Matches != nil:
		ok = regexp.MustCompile(*c.Matches).MatchString(n.plain())
	case c.Contains != nil:
		ok = strings.Contains(n.plain(), *c.Contains)
	case c.Length != nil:
		ok = n.length() == *c.Length
	case c.Keys != nil:
		ok = slices.Equal(n.keys(), c.Keys)
	case c.OneOf != nil:
		ok = slices.ContainsFunc(c.OneOf, func(raw json.RawMessage) bool {
			want, _ := parseTree(string(raw))
			return n.equal(want)
		})
	case c.Min != nil || c.Max != nil:
		v, err := strconv.ParseFloat(n.text, 64)
		ok = err == nil && (c.Min == nil || v >= *c.Min) && (c.Max == nil || v <= *c.Max)
	}
	if ok {
		return ""
	}
	return "is " + clip(n.text)
}

func clip(s string) string {
	if len(s) > 160 {
		return s[:160] + "…"
	}
	return s
}

// plain is a string's content, or another value's source.
func (n *node) plain() string {
	if n.kind == 's' {
		return unquote(n.text)
	}
	return n.text
}

func (n *node) is(kind string) bool {
	switch kind {
	case "string":
		return n.kind == 's'
	case "number":
		return n.kind == 'n'
	case "integer":
		return n.kind == 'n' && !strings.ContainsAny(n.text, ".eE")
	case "boolean":
		return n.kind == 't' || n.kind == 'f'
	case "null":
		return n.kind == '0'
	case "array":
		return n.kind == 'a'
	case "object":
		return n.kind == 'o'
	}
	return false
}

func (n *node) length() int {
	switch n.kind {
	case 's':
		return utf8.RuneCountInString(unquote(n.text))
	case 'a':
		return len(n.items)
	case 'o':
		return len(n.members)
	}
	return -1
}

func (n *node) keys() []string {
	out := make([]string, 0, len(n.members))
	for _, m := range n.members {
		out = append(out, m.key)
	}
	return out
}

// text applies conditions to a text.
func (f *faults) text(where, s string, t *TextCheck) {
	if t == nil {
		return
	}
	if t.Equals != nil && s != *t.Equals {
		f.addf("%s is %s", where, clip(s))
	}
	for _, c := range t.Contains {
		if !strings.Contains(s, c) {
			f.addf("%s lacks %q", where, c)
		}
	}
	for _, c := range t.NotContains {
		if strings.Contains(s, c) {
			f.addf("%s has %q", where, c)
		}
	}
	if t.Matches != nil && !regexp.MustCompile(*t.Matches).MatchString(s) {
		f.addf("%s does not match %s", where, *t.Matches)
	}
}

// headers applies conditions to header lines; names in lines are lower case.
func (f *faults) headers(where string, lines map[string][]string, checks map[string]json.RawMessage) {
	for name, raw := range checks {
		have := lines[strings.ToLower(name)]
		var exact string
		if json.Unmarshal(raw, &exact) == nil {
			if len(have) != 1 || have[0] != exact {
				f.addf("%s header %s is %q, not %q", where, name, have, exact)
			}
			continue
		}
		var c HeaderCheck
		if err := json.Unmarshal(raw, &c); err != nil {
			f.addf("%s header %s: unreadable check", where, name)
			continue
		}
		if why := c.fault(have); why != "" {
			f.addf("%s header %s: %s, have %q", where, name, why, have)
		}
	}
}

func (c *HeaderCheck) fault(have []string) string {
	all := strings.Join(have, ", ")
	switch {
	case c.Absent && len(have) > 0:
		return "must be absent"
	case c.Present && len(have) == 0:
		return "must be present"
	case c.Matches != nil && (len(have) == 0 || !regexp.MustCompile(*c.Matches).MatchString(all)):
		return "must match " + *c.Matches
	case c.Contains != nil && !strings.Contains(all, *c.Contains):
		return "must contain " + *c.Contains
	case c.Count != nil && len(have) != *c.Count:
		return "wrong number of lines"
	case c.MaxCount != nil && len(have) > *c.MaxCount:
		return "too many lines"
	}
	return ""
}

// ownError checks kvmesh's own error object.
func (f *faults) ownError(contentType, body string) {
	if !strings.HasPrefix(contentType, "application/json") {
		f.addf("own error has content type %q", contentType)
	}
	root, err := parseTree(body)
	if err != nil {
		f.addf("own error is not JSON: %s", clip(body))
		return
	}
	e := root.get("error")
	for _, k := range []string{"message", "type", "param", "code"} {
		v := e.get(k)
		switch {
		case v == nil:
			f.addf("own error lacks %s", k)
		case (k == "message" || k == "type") && (v.kind != 's' || unquote(v.text) == ""):
			f.addf("own error's %s is %s", k, v.text)
		case k == "param" && v.kind != 's' && v.kind != '0':
			f.addf("own error's param is %s", v.text)
		}
	}
}
