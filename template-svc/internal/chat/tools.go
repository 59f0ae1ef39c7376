package chat

import "github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"

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
		if deferred, ok := present(tool, "defer_loading"); ok {
			d.SetStr("defer_loading", deferred)
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
	if strict, ok := present(function, "strict"); ok {
		d.SetStr("strict", strict)
	}
	deferred, ok := present(function, "defer_loading")
	if !ok {
		deferred, ok = present(tool, "defer_loading")
	}
	if ok {
		d.SetStr("defer_loading", deferred)
	}
	return value.OfDict(d), nil
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

// developerTools gives the tools of a developer message: the function comes before the type there.
func developerTools(m value.Value) (value.Value, error) {
	list, ok := present(m, "tools")
	if !ok {
		return value.None, nil
	}
	if list.Kind() != value.KindList {
		return value.None, refuse("messages", "a developer's tools must be a list")
	}
	out := make([]value.Value, 0, len(list.Cells()))
	for _, tool := range list.Cells() {
		function, ok := value.Member(tool, "function")
		if !ok {
			return value.None, refuse("messages", "a developer's tool needs a function")
		}
		d := value.NewDict(2)
		d.SetStr("function", function)
		if kind, ok := value.Member(tool, "type"); ok {
			d.SetStr("type", kind)
		}
		out = append(out, value.OfDict(d))
	}
	return value.List(out), nil
}
