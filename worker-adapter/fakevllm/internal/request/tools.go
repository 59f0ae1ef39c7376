package request

import (
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// Tool is a function that the model may call.
type Tool struct {
	Name       string
	Parameters *pyjson.Value
}

// Choice is how far the client lets the model decide.
type Choice struct {
	Mode ChoiceMode
	Name string // of the tool, for ChooseNamed
}

// ChoiceMode is the kind of a tool_choice.
type ChoiceMode int

// The modes. Without tools the mode is ChooseNone.
const (
	ChooseNone ChoiceMode = iota
	ChooseAuto
	ChooseRequired
	ChooseNamed
)

// Constraint is what the output must look like; the zero value allows everything. Broken is the complaint of the
// grammar compiler, which vLLM makes when the request is already in its engine: a streamed request gets it as an event.
type Constraint struct {
	Choices []string
	Regex   string
	Schema  *pyjson.Value // any object if it is an empty schema
}

// Free tells that nothing is asked for.
func (c *Constraint) Free() bool { return c.Choices == nil && c.Regex == "" && c.Schema == nil }

// tools reads the functions of a chat request; other kinds of tools are refused.
func (c *checker) tools(v *pyjson.Value) []Tool {
	if !c.list(v, "body.tools") {
		return nil
	}
	var out []Tool
	for i := range v.Len() {
		t := v.At(i)
		loc := "body.tools." + strconv.Itoa(i)
		if kind := t.Get("type"); kind.Kind == pyjson.String && kind.Str != "function" {
			const want = "'function'"
			c.add(complaint{
				"literal_error", loc + ".type", "Input should be " + want, kind.Str, "'expected': " + pyjson.Repr(want),
			})
		}
		f := t.Get("function")
		if f.Kind != pyjson.Dict {
			c.missing(loc+".function", &t)
			continue
		}
		if name := f.Get("name"); name.Kind == pyjson.Missing {
			c.missing(loc+".function.name", f)
		}
		out = append(out, Tool{Name: f.Get("name").Str, Parameters: f.Get("parameters")})
	}
	return out
}

// toolChoice reads tool_choice, whose absence means "auto" if there are tools.
func toolChoice(root *pyjson.Value, tools []Tool) (Choice, *Error) {
	v := root.Get("tool_choice")
	const param = "tool_choice"
	switch {
	case v.IsNull() && len(tools) > 0:
		return Choice{Mode: ChooseAuto}, nil
	case v.IsNull() || v.Str == "none":
		return Choice{}, nil
	case len(tools) == 0:
		return Choice{}, badParam(param, nil, "When using `tool_choice`, `tools` must be set.")
	case v.Kind == pyjson.Dict:
		name := v.Get("function").Get("name").Str
		for _, t := range tools {
			if t.Name == name {
				return Choice{Mode: ChooseNamed, Name: name}, nil
			}
		}
		return Choice{}, badParam(param, nil,
			"The tool specified in `tool_choice` does not match any of the specified `tools`")
	case v.Str == "auto":
		return Choice{Mode: ChooseAuto}, nil
	case v.Str == "required":
		return Choice{Mode: ChooseRequired}, nil
	}
	return Choice{}, badParam(param, nil, "Invalid value for `tool_choice`: %s! Only named tools, \"none\", \"auto\" or "+
		"\"required\" are supported.", v.Describe())
}

// constraint reads response_format and structured_outputs; the latter wins.
func constraint(root *pyjson.Value) (Constraint, *Error) {
	var c Constraint
	switch f := root.Get("response_format"); f.Get("type").Str {
	case "json_object":
		c.Schema = &pyjson.Value{Kind: pyjson.Dict}
	case "json_schema":
		c.Schema = f.Get("json_schema").Get("schema")
	}
	so := root.Get("structured_outputs")
	if so.Kind != pyjson.Dict {
		return c, nil
	}
	if list := so.Get("choice"); list.Kind == pyjson.List && list.Len() > 0 {
		for i := range list.Len() {
			item := list.At(i)
			c.Choices = append(c.Choices, item.Str)
		}
	}
	c.Regex = so.Get("regex").Str
	if s := so.Get("json"); s.Kind == pyjson.Dict {
		c.Schema = s
	}
	if so.Get("json_object").Bool {
		c.Schema = &pyjson.Value{Kind: pyjson.Dict}
	}
	return c, nil
}
