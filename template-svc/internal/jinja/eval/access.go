package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/syntax"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// getattr compiles x.name: the Python attribute first, then the item.
func (c *compiler) getattr(n *syntax.Getattr, s *scope) exprFunc {
	obj := c.expr(n.Node, s)
	name := n.Attr
	if name == "format" || isDictAttr(name) || strings.HasPrefix(name, "__") {
		return func(f *frame) (value.Value, error) {
			v, err := obj(f)
			if err == nil {
				v, err = getAttr(v, name)
			}
			return v, at(err, n)
		}
	}
	absent := value.Undefined(&value.Undef{Of: "dict object", Name: name})
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		switch v.Kind() {
		case value.KindDict:
			if item, ok := v.AsDict().GetStr(name); ok {
				return item, nil
			}
			return absent, nil
		case value.KindObject:
			switch o := v.AsObject().(type) {
			case *loop:
				if item, ok, err := o.attr(name); ok || err != nil {
					return item, at(err, n)
				}
			case *namespace:
				if item, ok := o.attrs.GetStr(name); ok && name[0] != '_' {
					return item, nil
				}
			}
		}
		v, err = getAttr(v, name)
		return v, at(err, n)
	}
}

// noAttr is the undefined value of a name that v lacks; using it raises
// UndefinedError with both in the message.
func noAttr(v value.Value, name string) value.Value {
	return value.Undefined(&value.Undef{Of: v.ObjectText(), Name: name})
}

// unsafeAttr is what the sandbox gives for an attribute it hides: undefined,
// raising SecurityError when used.
func unsafeAttr(v value.Value, name string) value.Value {
	return value.Undefined(&value.Undef{
		Exc: pyerr.Security, Name: name,
		Hint: "access to attribute " + value.ReprString(name) + " of " + value.ReprString(v.TypeName()) +
			" object is unsafe.",
	})
}

// attribute is Python's getattr within the sandbox; ok is false if there is no
// such attribute.
func attribute(v value.Value, name string) (attr value.Value, ok bool, err error) {
	if strings.HasPrefix(name, "__") {
		if isDunder(v, name) {
			return unsafeAttr(v, name), true, nil
		}
	}
	if v.IsUndefined() {
		if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") {
			return value.Value{}, false, nil
		}
		return value.Value{}, false, value.RaiseUndefined(v)
	}
	if fn := methodOf(v, name); fn != nil {
		return boundMethod(v, name, fn), true, nil
	}
	switch v.Kind() {
	case value.KindList:
		if isListMutator(name) {
			return unsafeAttr(v, name), true, nil
		}
	case value.KindDict:
		if isDictMutator(name) {
			return unsafeAttr(v, name), true, nil
		}
	case value.KindBool, value.KindInt, value.KindBig, value.KindFloat:
		attr, ok = numberAttr(v, name)
		return attr, ok, nil
	case value.KindObject:
		return objectAttr(v, name)
	}
	return value.Value{}, false, nil
}

// objectAttr looks name up among the attributes of an engine object, which
// may hide some and compute others.
func objectAttr(v value.Value, name string) (value.Value, bool, error) {
	switch o := v.AsObject().(type) {
	case *loop:
		return o.attr(name)
	case value.Attributed:
		attr, ok := o.Attr(name)
		if ok && strings.HasPrefix(name, "_") {
			return unsafeAttr(v, name), true, nil
		}
		return attr, ok, nil
	case *value.Generator:
		switch name {
		case "gi_frame", "gi_code":
			return unsafeAttr(v, name), true, nil
		}
	}
	return value.Value{}, false, nil
}

// getAttr is x.name of the sandbox: the Python attribute, then the item of
// that key, then undefined. Only an undefined x and the attributes of a
// loop can fail.
func getAttr(v value.Value, name string) (value.Value, error) {
	if attr, ok, err := attribute(v, name); ok || err != nil {
		return attr, err
	}
	if item, ok, err := subscript(v, value.Str(name)); ok || err != nil {
		return item, err
	}
	return noAttr(v, name), nil
}

// subscript is Python's v[key] with failed look-ups as ok false; only an
// undefined v is an error.
func subscript(v, key value.Value) (item value.Value, ok bool, err error) {
	switch v.Kind() {
	case value.KindUndefined:
		return value.Value{}, false, value.RaiseUndefined(v)
	case value.KindDict:
		if key.IsStr() {
			item, ok = v.AsDict().GetStr(key.AsStr())
			return item, ok, nil
		}
		item, ok, err = v.AsDict().Get(key)
		if _, limited := err.(*pyerr.Error); limited {
			err = nil // an unhashable key is one that is not there
		}
		return item, ok, err
	case value.KindList, value.KindTuple:
		if i, ok := index(key, len(v.Cells())); ok {
			return v.Cells()[i], true, nil
		}
	case value.KindStr:
		if item, ok := charAt(v, key); ok {
			return item, true, nil
		}
	case value.KindObject:
		if o, is := v.AsObject().(value.Indexed); is {
			item, ok = o.Item(key)
			return item, ok, nil
		}
	}
	return value.Value{}, false, nil
}

// index turns a key into a place of a sequence of n members.
func index(key value.Value, n int) (int, bool) {
	if k := key.Kind(); k != value.KindInt && k != value.KindBool {
		return 0, false
	}
	i := key.AsInt()
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n)
}

// charAt gives a code point of a string by index; Python counts code
// points, and from the end for a negative index.
func charAt(v, key value.Value) (value.Value, bool) {
	if k := key.Kind(); k != value.KindInt && k != value.KindBool {
		return value.Value{}, false
	}
	s, i := v.AsStr(), key.AsInt()
	if i < 0 {
		i += int64(value.RuneCount(s))
	}
	if i < 0 || i >= int64(len(s)) {
		return value.Value{}, false
	}
	c, ok := value.RuneAt(s, int(i))
	return value.Str(c).WithMarkup(v.IsMarkup()), ok
}

// getItem is x[key]: the item first, then the attribute.
func getItem(r *run, v, key value.Value) (value.Value, error) {
	if err := r.m.Scan(len(v.Text()) + len(key.Text())); err != nil {
		return v, err
	}
	if err := value.ChargeKey(&r.m, key); err != nil {
		return v, err
	}
	if item, ok, err := subscript(v, key); ok || err != nil {
		return item, err
	}
	if key.IsStr() {
		if attr, ok, err := attribute(v, key.AsStr()); ok || err != nil {
			return attr, err
		}
		return noAttr(v, key.AsStr()), nil
	}
	shown, err := value.ReprOf(&r.m, key)
	if err != nil {
		return v, err
	}
	return value.Undefined(&value.Undef{Of: v.ObjectText(), Key: shown}), nil
}

// getitem compiles x[key]. A slice, a literal text as key and a list with
// an int each have a shorter way than the general one.
func (c *compiler) getitem(n *syntax.Getitem, s *scope) exprFunc {
	if sl, ok := n.Arg.(*syntax.Slice); ok {
		return c.slice(n, sl, s)
	}
	obj := c.expr(n.Node, s)
	if k, ok := n.Arg.(*syntax.Const); ok && k.Value.IsStr() {
		return c.textItem(n, obj, k.Value)
	}
	key := c.expr(n.Arg, s)
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		k, err := key(f)
		if err != nil {
			return v, err
		}
		if k.Kind() == value.KindInt && v.Kind() == value.KindList {
			if i, ok := index(k, len(v.Cells())); ok {
				return v.Cells()[i], nil
			}
		}
		v, err = getItem(f.r, v, k)
		return v, at(err, n)
	}
}

// textItem is x['name'].
func (c *compiler) textItem(n *syntax.Getitem, obj exprFunc, key value.Value) exprFunc {
	name := key.AsStr()
	absent := value.Undefined(&value.Undef{Of: "dict object", Name: name})
	isAttr := isDictAttr(name) || strings.HasPrefix(name, "__")
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		if v.Kind() == value.KindDict {
			if item, ok := v.AsDict().GetStr(name); ok {
				return item, nil
			}
			if !isAttr {
				return absent, nil
			}
		}
		v, err = getItem(f.r, v, key)
		return v, at(err, n)
	}
}

// slice compiles x[start:stop:step], which is Python's own operator and not
// the sandbox's getitem, so its faults are not turned into undefined.
func (c *compiler) slice(n *syntax.Getitem, sl *syntax.Slice, s *scope) exprFunc {
	obj := c.expr(n.Node, s)
	var parts [3]exprFunc
	for i, e := range []syntax.Expr{sl.Start, sl.Stop, sl.Step} {
		parts[i] = constant(value.None)
		if e != nil {
			parts[i] = c.expr(e, s)
		}
	}
	folding := c.folding
	return func(f *frame) (value.Value, error) {
		v, err := obj(f)
		if err != nil {
			return v, err
		}
		var b [3]value.Value
		for i := range parts {
			if b[i], err = parts[i](f); err != nil {
				return v, err
			}
		}
		out, err := sliceOf(f.r, v, b)
		if folding && pyerr.Is(err, pyerr.Type) {
			return noAttr(v, "slice"), nil
		}
		return out, at(err, n)
	}
}

// sliceOf is v[start:stop:step].
func sliceOf(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	switch v.Kind() {
	case value.KindUndefined:
		return v, value.RaiseUndefined(v)
	case value.KindDict:
		return v, pyerr.New(pyerr.Type, "unhashable type: 'slice'")
	case value.KindList, value.KindTuple:
		return sliceCells(r, v, b)
	case value.KindStr:
		return sliceText(r, v, b)
	case value.KindObject:
		if rg, ok := v.AsObject().(*rangeObject); ok {
			return rg.slice(b)
		}
	}
	return v, pyerr.Newf(pyerr.Type, "'%s' object is not subscriptable", v.TypeName())
}

// members is the number of members from start to stop by step.
func members(start, stop, step int) int {
	switch {
	case step > 0 && start < stop:
		return (stop-start-1)/step + 1
	case step < 0 && stop < start:
		return (start-stop-1)/-step + 1
	}
	return 0
}

// bounds turns slice arguments into start, stop and step for n members.
func bounds(b [3]value.Value, n int) (start, stop, step int, err error) {
	var at [3]int
	for _, i := range [...]int{2, 0, 1} {
		k := b[i].Kind()
		switch {
		case k == value.KindNone:
		case k == value.KindInt || k == value.KindBool:
			const far = 1 << 62
			at[i] = int(min(max(b[i].AsInt(), -far), far))
		case k == value.KindBig:
			at[i] = 1 << 62 * b[i].AsBig().Sign()
		default:
			return 0, 0, 0, pyerr.New(pyerr.Type, "slice indices must be integers or None or have an __index__ method")
		}
	}
	step = at[2]
	if b[2].IsNone() {
		step = 1
	} else if step == 0 {
		return 0, 0, 0, pyerr.New(pyerr.Value, "slice step cannot be zero")
	}
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	clip := func(i, none int, isNone bool) int {
		if isNone {
			return none
		}
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	if step > 0 {
		return clip(at[0], 0, b[0].IsNone()), clip(at[1], n, b[1].IsNone()), step, nil
	}
	return clip(at[0], n-1, b[0].IsNone()), clip(at[1], -1, b[1].IsNone()), step, nil
}

// sliceCells cuts a list or tuple; with step 1 the result shares the cells.
func sliceCells(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	cells := v.Cells()
	start, stop, step, err := bounds(b, len(cells))
	if err != nil {
		return v, err
	}
	n := members(start, stop, step)
	out := cells
	switch {
	case n == 0:
		out = nil
	case step == 1:
		out = cells[start : start+n : start+n]
	default:
		if err := r.m.Product(n, cellBytes); err != nil {
			return v, err
		}
		out = make([]value.Value, n)
		for i := range out {
			out[i] = cells[start+i*step]
		}
	}
	if v.Kind() == value.KindTuple {
		return value.Tuple(out), nil
	}
	return value.List(out), nil
}

// sliceText cuts a string by code points; with step 1 the result shares the
// bytes.
func sliceText(r *run, v value.Value, b [3]value.Value) (value.Value, error) {
	s := v.AsStr()
	if err := r.m.Scan(len(s)); err != nil {
		return v, err
	}
	length := value.RuneCount(s)
	start, stop, step, err := bounds(b, length)
	if err != nil {
		return v, err
	}
	n := members(start, stop, step)
	wide := length != len(s)
	if step == 1 && n > 0 {
		end := start + n
		if wide {
			start = value.Offset(s, start)
			end = start + value.Offset(s[start:], n)
		}
		return value.Str(s[start:end]).WithMarkup(v.IsMarkup()), nil
	}
	if err := r.m.Bytes(4 * len(s)); err != nil {
		return v, err
	}
	var out strings.Builder
	if !wide {
		for i := range n {
			out.WriteByte(s[start+i*step])
		}
	} else {
		runes := []rune(s)
		for i := range n {
			out.WriteRune(runes[start+i*step])
		}
	}
	return value.Str(out.String()).WithMarkup(v.IsMarkup()), nil
}
