package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// cycler and joiner are the stateful helpers of Jinja2. Their state belongs
// to the render that made them.

// cycler is the object of cycler(...).
type cycler struct {
	items []value.Value
	pos   int
}

// newCycler is cycler(...): RuntimeError without items.
func newCycler(r *run, a *args) (value.Value, error) {
	if len(a.kw) > 0 {
		return value.Value{}, typeError("Cycler.__init__() got an unexpected keyword argument %s",
			value.ReprString(a.kw[0].name))
	}
	if len(a.pos) == 0 {
		return value.Value{}, pyerr.New("RuntimeError", "at least one item has to be provided")
	}
	if err := r.m.Product(len(a.pos), cellBytes); err != nil {
		return value.Value{}, err
	}
	return value.OfObject(&cycler{items: a.keep().pos}), nil
}

// TypeName is Cycler.
func (c *cycler) TypeName() string { return "Cycler" }

// Module is jinja2.utils.
func (c *cycler) Module() string { return "jinja2.utils" }

// Attr gives current, items, pos, next and reset.
func (c *cycler) Attr(name string) (value.Value, bool) {
	switch name {
	case "current":
		return c.items[c.pos], true
	case "pos":
		return value.Int(int64(c.pos)), true
	case "items":
		return value.Tuple(c.items), true
	case "next":
		return method(name, func(_ *run, _ *args) (value.Value, error) {
			v := c.items[c.pos]
			c.pos = (c.pos + 1) % len(c.items)
			return v, nil
		}), true
	case "reset":
		return method(name, func(_ *run, _ *args) (value.Value, error) {
			c.pos = 0
			return value.None, nil
		}), true
	}
	return value.Value{}, false
}

// joiner is the object of joiner(sep).
type joiner struct {
	sep  value.Value
	used bool
}

var joinerSignature = &signature{name: "Joiner.__init__", hidden: 1, params: []string{"sep"}}

// newJoiner is joiner(sep=', ').
func newJoiner(_ *run, a *args) (value.Value, error) {
	b, err := joinerSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if isMissing(b[0]) {
		b[0] = value.Str(", ")
	}
	return value.OfObject(&joiner{sep: b[0]}), nil
}

// TypeName is Joiner.
func (j *joiner) TypeName() string { return "Joiner" }

// Module is jinja2.utils.
func (j *joiner) Module() string { return "jinja2.utils" }

// Attr gives sep and used.
func (j *joiner) Attr(name string) (value.Value, bool) {
	switch name {
	case "sep":
		return j.sep, true
	case "used":
		return value.Bool(j.used), true
	}
	return value.Value{}, false
}

// call gives nothing the first time and the separator from then on.
func (j *joiner) call(_ *run, _ *args) (value.Value, error) {
	if !j.used {
		j.used = true
		return value.Str(""), nil
	}
	return j.sep, nil
}
