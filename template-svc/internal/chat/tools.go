package chat

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// tools gives the request's tools as vLLM's request model dumps them: known members in its order, absent description
// and parameters as null, everything else dropped, the inside of parameters untouched.
func tools(list value.Value) (value.Value, error) {
	if list.IsNone() {
		return value.None, nil
	}
	if list.Kind() != value.KindList {
		return value.None, refuse("tools", "must be a list")
	}
	if len(list.Cells()) == 0 {
		return value.None, refuse("tools", "must not be empty; leave it out instead")
	}
	out := make([]value.Value, 0, len(list.Cells()))
	for _, tool := range list.Cells() {
		function, err := toolFunction(tool)
		if err != nil {
			return value.None, err
		}
		d := value.NewDict(3)
		d.SetStr("type", value.Str("function"))
		d.SetStr("function", function)
		if err := copyBool(d, tool, "defer_loading"); err != nil {
			return value.None, err
		}
		out = append(out, value.OfDict(d))
	}
	return value.List(out), nil
}

// toolFunction gives a tool's function. A tool's defer_loading shows inside the function too.
func toolFunction(tool value.Value) (value.Value, error) {
	if kind, ok := value.Member(tool, "type"); ok && (!kind.IsStr() || kind.AsStr() != "function") {
		return value.None, refuse("tools", "only tools of type function are supported")
	}
	function, ok := value.Member(tool, "function")
	if !ok || function.Kind() != value.KindDict {
		return value.None, refuse("tools", "a tool needs a function")
	}
	name, ok := value.Member(function, "name")
	if !ok || !name.IsStr() {
		return value.None, refuse("tools", "a tool's function needs a name")
	}
	d := value.NewDict(5)
	d.SetStr("name", name)
	for _, key := range []string{"description", "parameters"} {
		v, _ := value.Member(function, key)
		d.SetStr(key, v)
	}
	if err := copyBool(d, function, "strict"); err != nil {
		return value.None, err
	}
	deferring := tool
	if _, ok := present(function, "defer_loading"); ok {
		deferring = function
	}
	return value.OfDict(d), copyBool(d, deferring, "defer_loading")
}

// copyBool copies a member that the request model takes for true or false.
func copyBool(d *value.Dict, from value.Value, name string) error {
	v, ok := present(from, name)
	if !ok {
		return nil
	}
	b, ok := lenientBool(v)
	if !ok {
		return refuse("tools", "%s must be true or false", name)
	}
	d.SetStr(name, value.Bool(b))
	return nil
}

// lenientBool reads a bool as pydantic does: the numbers 0 and 1 and some words count too.
func lenientBool(v value.Value) (b, ok bool) {
	switch v.Kind() {
	case value.KindBool:
		return v.Truth(), true
	case value.KindInt:
		return v.Truth(), v.AsInt() == 0 || v.AsInt() == 1
	case value.KindFloat:
		return v.Truth(), v.AsFloat() == 0 || v.AsFloat() == 1
	case value.KindStr:
		switch strings.ToLower(v.AsStr()) {
		case "1", "on", "t", "true", "y", "yes":
			return true, true
		case "0", "off", "f", "false", "n", "no":
			return false, true
		}
	}
	return false, false
}

// checkToolChoice refuses what vLLM's request model refuses.
func checkToolChoice(choice, list value.Value) error {
	if choice.IsNone() {
		return nil
	}
	if list.IsNone() {
		if choice.IsStr() && choice.AsStr() == "none" {
			return nil
		}
		return refuse("tool_choice", "needs tools")
	}
	function, ok := value.Member(choice, "function")
	if !ok {
		return nil
	}
	wanted, _ := value.Member(function, "name")
	for _, tool := range list.Cells() {
		f, _ := value.Member(tool, "function")
		if name, ok := value.Member(f, "name"); ok && wanted.IsStr() && name.AsStr() == wanted.AsStr() {
			return nil
		}
	}
	return refuse("tool_choice", "names a function that is not among the tools")
}

// ordered copies an object with some of its members first.
func ordered(from value.Value, first ...string) *value.Dict {
	d := value.NewDict(from.AsDict().Len())
	for _, name := range first {
		if v, ok := value.Member(from, name); ok {
			d.SetStr(name, v)
		}
	}
	copyOthers(d, from, "", "", "")
	return d
}

// developerTools gives the tools of a developer message: the function comes before the type there. Tools that vLLM's
// own message type does not take reach the template as they came, by OpenAI's type, which does not know the member.
func developerTools(m value.Value) value.Value {
	list, _ := value.Member(m, "tools")
	if !functionTools(list) {
		return list
	}
	out := make([]value.Value, 0, len(list.Cells()))
	for _, tool := range list.Cells() {
		function, _ := value.Member(tool, "function")
		f := ordered(function, "name", "description", "parameters", "strict")
		d := ordered(tool, "function", "type")
		d.SetStr("function", value.OfDict(f))
		out = append(out, value.OfDict(d))
	}
	return value.List(out)
}
