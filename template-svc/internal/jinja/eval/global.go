package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// The environment's globals: Jinja2's own five, range, and the two that
// transformers adds.

// builtin gives a global of the environment, the zero Value if there is none
// of that name.
func builtin(name string) value.Value {
	switch name {
	case "range":
		return function1("function", "range", newRange)
	case "dict":
		return function1("type", "dict", func(r *run, a *args) (value.Value, error) {
			d, err := newDict(r, a)
			return value.OfDict(d), err
		})
	case "namespace":
		return function1("type", "jinja2.utils.Namespace", func(r *run, a *args) (value.Value, error) {
			d, err := newDict(r, a)
			return value.OfObject(&namespace{attrs: d}), err
		})
	case "cycler":
		return function1("type", "jinja2.utils.Cycler", newCycler)
	case "joiner":
		return function1("type", "jinja2.utils.Joiner", newJoiner)
	case "lipsum":
		return function1("function", "generate_lorem_ipsum", lipsum)
	case "raise_exception":
		return function1("function", "raise_exception", raiseException)
	case "strftime_now":
		return function1("function", "strftime_now", strftimeNow)
	}
	return value.Value{}
}

var raiseSignature = newSignature("raise_exception", 1, "message")

// raiseException is the global raise_exception(message): TemplateError with
// the text of message.
func raiseException(r *run, a *args) (value.Value, error) {
	b, err := raiseSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	s, err := value.StrOf(&r.m, b[0])
	if err != nil {
		return value.Value{}, err
	}
	return value.Value{}, pyerr.New(pyerr.Template, s)
}

var strftimeSignature = newSignature("strftime_now", 1, "format")

// strftimeNow is the global strftime_now(format): the render's clock, in
// its own zone, written as C does.
func strftimeNow(r *run, a *args) (value.Value, error) {
	b, err := strftimeSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	if !b[0].IsStr() {
		return value.Value{}, typeError("strftime() argument 1 must be str, not %s", b[0].TypeName())
	}
	// A conversion may be padded to 999 columns.
	if err := r.m.Product(1+strings.Count(b[0].AsStr(), "%"), 1000); err != nil {
		return value.Value{}, err
	}
	if err := r.m.Bytes(len(b[0].AsStr())); err != nil {
		return value.Value{}, err
	}
	return value.Str(strftime(r.now(), b[0].AsStr())), nil
}
