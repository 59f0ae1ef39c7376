package eval

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Jinja2 makes Python code of a template, and some faults are found only when Python compiles that: SyntaxErrors, which
// come after all of Jinja2's own. Their messages go on with a place in that code, "(<template>, line 12)", which is not
// reproduced.

// pythonPass is one of the passes of Python's compiler; the fault of an earlier one counts.
type pythonPass uint8

const (
	parsePass pythonPass = iota + 1
	symbolPass
	codePass
)

// refuse records a SyntaxError of Python.
func (c *compiler) refuse(pass pythonPass, n syntax.Node, message string) {
	if c.python != nil && c.pythonPass <= pass {
		return
	}
	p := n.At()
	c.python = &pyerr.Error{Type: "SyntaxError", Message: message, Line: p.Line, Col: p.Col}
	c.pythonPass = pass
}

// checkKeywords refuses a keyword argument that is given twice. With a word of Python's among the keywords Jinja2 hands
// them over in a dict, and the last one counts.
func (c *compiler) checkKeywords(n syntax.Node, list []syntax.Keyword, withCaller bool) {
	seen := map[string]bool{}
	repeated := ""
	for _, k := range list {
		if isPythonWord(k.Key) {
			return
		}
		if seen[k.Key] && repeated == "" {
			repeated = k.Key
		}
		seen[k.Key] = true
	}
	if repeated == "" && withCaller && seen["caller"] {
		repeated = "caller"
	}
	if repeated != "" {
		c.refuse(codePass, n, "keyword argument repeated: "+repeated)
	}
}

// checkParameters refuses a parameter that is there twice; the message has Jinja2's name for it.
func (c *compiler) checkParameters(n syntax.Node, params []*syntax.Name, level int) {
	seen := map[string]bool{}
	for _, p := range params {
		if seen[p.Name] {
			name := "l_" + strconv.Itoa(level) + "_" + p.Name
			c.refuse(symbolPass, n, "duplicate argument "+value.ReprString(name)+" in function definition")
		}
		seen[p.Name] = true
	}
}

// isPythonWord reports the keywords of Python.
func isPythonWord(s string) bool {
	switch s {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif",
		"else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or",
		"pass", "raise", "return", "try", "while", "with", "yield":
		return true
	}
	return false
}
