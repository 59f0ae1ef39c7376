package eval

import (
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Filters, tests and globals are Python functions: their arguments are
// bound by place and name, and a wrong call is refused with CPython's
// words.

// signature binds arguments to the parameters of a Python function.
type signature struct {
	name     string
	params   []string
	required int
	hidden   int // parameters in front that the template does not give
}

// newSignature makes the signature of a function whose template-visible
// parameters are params, the first required ones without default.
func newSignature(name string, required int, params ...string) *signature {
	return &signature{name: name, required: required, params: params}
}

// bind gives one value per parameter; the zero Value where nothing was given.
// The result is a slice of its own.
func (s *signature) bind(a *args) ([]value.Value, error) {
	out := make([]value.Value, len(s.params))
	given := make([]bool, len(s.params))
	for i := range copy(out, a.pos) {
		given[i] = true
	}
	for _, k := range a.kw {
		i := 0
		for i < len(s.params) && s.params[i] != k.name {
			i++
		}
		if i == len(s.params) {
			return nil, pyerr.Newf(pyerr.Type, "%s() got an unexpected keyword argument %s", s.name, value.ReprString(k.name))
		}
		if given[i] {
			return nil, pyerr.Newf(pyerr.Type, "%s() got multiple values for argument %s", s.name, value.ReprString(k.name))
		}
		out[i], given[i] = k.value, true
	}
	if len(a.pos) > len(s.params) { // keywords are looked at first
		return nil, s.tooMany(len(a.pos))
	}
	var missing []string
	for i := range s.required {
		if !given[i] {
			missing = append(missing, value.ReprString(s.params[i]))
		}
	}
	if missing != nil {
		return nil, s.missing(missing)
	}
	return out, nil
}

// tooMany is CPython's message for more positional arguments than
// parameters; hidden parameters count.
func (s *signature) tooMany(n int) error {
	takes := strconv.Itoa(len(s.params) + s.hidden)
	plural := "s"
	if s.required < len(s.params) {
		takes = "from " + strconv.Itoa(s.required+s.hidden) + " to " + takes
	} else if len(s.params)+s.hidden == 1 {
		plural = ""
	}
	were := "were"
	if n+s.hidden == 1 {
		were = "was"
	}
	return pyerr.Newf(pyerr.Type, "%s() takes %s positional argument%s but %d %s given", s.name, takes, plural,
		n+s.hidden, were)
}

// missing is CPython's message for required parameters that got no
// argument.
func (s *signature) missing(names []string) error {
	n := len(names)
	text := names[0]
	switch {
	case n == 2:
		text = names[0] + " and " + names[1]
	case n > 2:
		text = strings.Join(names[:n-1], ", ") + ", and " + names[n-1]
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return pyerr.Newf(pyerr.Type, "%s() missing %d required positional argument%s: %s", s.name, n, plural, text)
}
