// Package request reads the bodies of an OpenAI-compatible vLLM 0.32 server and refuses what it refuses, in its words:
// first what pydantic says about types, then vLLM's own rules, then those of its sampling parameters.
package request

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// Error is an answer in OpenAI's error shape. Param "" is null on the wire.
type Error struct {
	Status  int
	Type    string
	Message string
	Param   string
}

// Error is the message that the client reads.
func (e *Error) Error() string { return e.Message }

// Bad makes a BadRequestError without a parameter.
func Bad(format string, a ...any) *Error {
	return &Error{Status: 400, Type: "BadRequestError", Message: fmt.Sprintf(format, a...)}
}

// badParam makes one that names its parameter and, unless value is nil, its value, as VLLMValidationError prints them.
func badParam(param string, value any, format string, a ...any) *Error {
	e := Bad(format, a...)
	e.Param = param
	e.Message += " (parameter=" + param
	if value != nil {
		e.Message += fmt.Sprintf(", value=%v", value)
	}
	e.Message += ")"
	return e
}

// maxShown is how many validation errors vLLM lists before it counts the rest.
const maxShown = 10

// checker collects pydantic's complaints in the order of the fields.
type checker struct {
	lines []string
	first string
}

// complaint is one of pydantic's errors: its type, the place, the message, the value in words, and the inside of its
// context as it is printed, "" for none.
type complaint struct{ kind, loc, msg, input, ctx string }

// add records a complaint. The place of the first one is the answer's param.
func (c *checker) add(x complaint) {
	if len(c.lines) == 0 {
		c.first = x.loc
	}
	line := "{'type': " + pyjson.Repr(x.kind) + ", 'loc': " + pyjson.Repr(x.loc) + ", 'msg': " + pyjson.Repr(x.msg) +
		", 'input': " + pyjson.Repr(x.input)
	if x.ctx != "" {
		line += ", 'ctx': {" + x.ctx + "}"
	}
	c.lines = append(c.lines, line+"}")
}

// err is nil if there was no complaint.
func (c *checker) err() *Error {
	n := len(c.lines)
	if n == 0 {
		return nil
	}
	e := &Error{Status: 400, Type: "Bad Request", Param: c.first}
	head := "1 validation error:"
	if n > 1 {
		head = strconv.Itoa(n) + " validation errors:"
	}
	shown := c.lines[:min(n, maxShown)]
	e.Message = head + "\n  " + strings.Join(shown, "\n  ")
	if n > maxShown {
		e.Message += fmt.Sprintf("\n  ...and %d more errors", n-maxShown)
	}
	return e
}

// missing complains of an absent field of in.
func (c *checker) missing(loc string, in *pyjson.Value) {
	c.add(complaint{"missing", loc, "Field required", in.Describe(), ""})
}

// integer reads pydantic's lax int: floats without fraction, digits in a string and booleans will do.
func (c *checker) integer(v *pyjson.Value, loc string, def int64) int64 {
	switch v.Kind {
	case pyjson.Missing, pyjson.Null:
		return def
	case pyjson.Int:
		return v.Int
	case pyjson.Bool:
		if v.Bool {
			return 1
		}
		return 0
	case pyjson.Float:
		if v.Float == math.Trunc(v.Float) && math.Abs(v.Float) < 1<<63 {
			return int64(v.Float)
		}
		c.add(noInteger(v, loc))
	case pyjson.String:
		if n, err := strconv.ParseInt(strings.TrimSpace(v.Str), 10, 64); err == nil {
			return n
		}
		c.add(complaint{
			"int_parsing", loc, "Input should be a valid integer, unable to parse string as an integer",
			v.Describe(), "",
		})
	default:
		c.add(complaint{"int_type", loc, "Input should be a valid integer", v.Describe(), ""})
	}
	return def
}

// noInteger is pydantic's complaint of a float that is no int64.
func noInteger(v *pyjson.Value, loc string) complaint {
	kind, text := "int_from_float", "Input should be a valid integer, got a number with a fractional part"
	switch {
	case math.IsInf(v.Float, 0) || math.IsNaN(v.Float):
		kind, text = "finite_number", "Input should be a finite number"
	case v.Float == math.Trunc(v.Float):
		kind, text = "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size"
	}
	return complaint{kind, loc, text, v.Describe(), ""}
}

// float reads pydantic's lax float: integers and digits in a string will do.
func (c *checker) float(v *pyjson.Value, loc string, def float64) float64 {
	switch v.Kind {
	case pyjson.Missing, pyjson.Null:
		return def
	case pyjson.Int, pyjson.Float:
		return v.Float
	case pyjson.String:
		if f, err := strconv.ParseFloat(strings.TrimSpace(v.Str), 64); err == nil {
			return f
		}
		c.add(complaint{
			"float_parsing", loc, "Input should be a valid number, unable to parse string as a number",
			v.Describe(), "",
		})
	default:
		c.add(complaint{"float_type", loc, "Input should be a valid number", v.Describe(), ""})
	}
	return def
}

// boolean reads pydantic's lax bool: 0, 1 and the usual words will do.
func (c *checker) boolean(v *pyjson.Value, loc string, def bool) bool {
	switch v.Kind {
	case pyjson.Missing, pyjson.Null:
		return def
	case pyjson.Bool:
		return v.Bool
	case pyjson.Int, pyjson.String:
		switch strings.ToLower(v.Describe()) {
		case "1", "true", "t", "yes", "y", "on":
			return true
		case "0", "false", "f", "no", "n", "off":
			return false
		}
		c.add(complaint{"bool_parsing", loc, "Input should be a valid boolean, unable to interpret input", v.Describe(), ""})
	default:
		c.add(complaint{"bool_type", loc, "Input should be a valid boolean", v.Describe(), ""})
	}
	return def
}

// text reads a string; null is "".
func (c *checker) text(v *pyjson.Value, loc string) string {
	if v.IsNull() {
		return ""
	}
	if v.Kind != pyjson.String {
		c.add(complaint{"string_type", loc, "Input should be a valid string", v.Describe(), ""})
	}
	return v.Str
}

// list complains of anything but a list; null is the empty list.
func (c *checker) list(v *pyjson.Value, loc string) bool {
	if v.IsNull() || v.Kind == pyjson.List {
		return true
	}
	c.add(complaint{"list_type", loc, "Input should be a valid list", v.Describe(), ""})
	return false
}

// ids reads a list of token ids.
func (c *checker) ids(v *pyjson.Value, loc string) []uint32 {
	if !c.list(v, loc) {
		return nil
	}
	out := make([]uint32, 0, v.Len())
	for i := range v.Len() {
		item := v.At(i)
		out = append(out, clip(c.integer(&item, loc+"."+strconv.Itoa(i), 0)))
	}
	return out
}

// clip maps what is no token id to one that no vocabulary has.
func clip(n int64) uint32 {
	if n < 0 || n > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(n)
}
