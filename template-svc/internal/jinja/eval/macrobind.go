package eval

import (
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Arguments go to parameters by place, then by name; the rest is varargs
// and kwargs if the body reads them, else a TypeError in Jinja2's words.

// bind puts arguments into the parameters' slots.
func (d *macroDef) bind(f *frame, a *args) error {
	n := min(len(a.pos), len(d.params))
	for i := range n {
		f.slots[d.slots[i]] = a.pos[i]
	}
	used := 0
	kw := a.kw
	foundCaller := n == len(d.params) && d.explicit
	for i := n; i < len(d.params); i++ {
		if d.params[i] == "caller" {
			foundCaller = true
		}
		v, rest, ok := takeKeyword(kw, d.params[i])
		kw = rest
		if ok {
			used++
			f.slots[d.slots[i]] = v
		} else {
			f.slots[d.slots[i]] = value.Value{}
		}
	}
	if d.caller >= 0 && !foundCaller {
		v, rest, ok := takeKeyword(kw, "caller")
		kw = rest
		if !ok || v.IsNone() {
			v = noCaller
		}
		f.slots[d.caller] = v
	}
	return d.extras(f, a, kw)
}

// extras binds kwargs and varargs or refuses what is left.
func (d *macroDef) extras(f *frame, a *args, kw []keyword) error {
	if d.kwargs >= 0 {
		dict := value.NewDict(len(kw))
		for _, k := range kw {
			dict.SetStr(k.name, k.value)
		}
		f.slots[d.kwargs] = value.OfDict(dict)
	} else if len(kw) > 0 {
		for _, k := range kw {
			if k.name == "caller" {
				return pyerr.Newf(pyerr.Type, "macro %s was invoked with two values for the special caller argument. "+
					"This is most likely a bug.", d.shown())
			}
		}
		return pyerr.Newf(pyerr.Type, "macro %s takes no keyword argument %s", d.shown(), value.ReprString(kw[0].name))
	}
	if d.varargs >= 0 {
		var rest []value.Value
		if len(a.pos) > len(d.params) {
			rest = append(rest, a.pos[len(d.params):]...)
		}
		f.slots[d.varargs] = value.Tuple(rest)
	} else if len(a.pos) > len(d.params) {
		return pyerr.Newf(pyerr.Type, "macro %s takes not more than %d argument(s)", d.shown(), len(d.params))
	}
	return nil
}

// shown is the macro's name in messages.
func (d *macroDef) shown() string {
	if d.name == "" {
		return "None"
	}
	return value.ReprString(d.name)
}

// takeKeyword takes the keyword name out of kw, which is not changed.
func takeKeyword(kw []keyword, name string) (v value.Value, rest []keyword, ok bool) {
	for i := range kw {
		if kw[i].name == name {
			rest = append(append(rest, kw[:i]...), kw[i+1:]...)
			return kw[i].value, rest, true
		}
	}
	return value.Value{}, kw, false
}

// fill computes the defaults of parameters that got no argument, in order.
func (d *macroDef) fill(f *frame) error {
	for i, slot := range d.slots {
		if !isMissing(f.slots[slot]) {
			continue
		}
		if d.defaults[i] == nil {
			f.slots[slot] = d.absent[i]
			continue
		}
		v, err := d.defaults[i](f)
		if err != nil {
			return at(err, d.node)
		}
		f.slots[slot] = v
	}
	return nil
}
