package value

import (
	"strconv"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
)

// json.dumps over immutable values needs no check for cycles, only one for
// depth.

// JSONStyle holds the arguments of json.dumps.
type JSONStyle struct {
	ASCII    bool   // escape everything outside 0x20-0x7e
	Indented bool   // one member per line, indented by Indent
	Indent   string // per level
	ItemSep  string // between members
	KeySep   string // between key and value
	SortKeys bool
	maxDepth int
}

// DefaultJSONStyle is json.dumps with no more than ensure_ascii=False.
func DefaultJSONStyle() JSONStyle { return JSONStyle{ItemSep: ", ", KeySep: ": "} }

// JSON appends json.dumps(v): TypeError for what JSON cannot hold.
func (p *Printer) JSON(v Value, style *JSONStyle) error {
	style.maxDepth = p.Meter.Limits().JSONDepth
	return p.json(v, style, 0)
}

// json appends v, which stands level containers deep.
func (p *Printer) json(v Value, st *JSONStyle, level int) error {
	switch v.k {
	case KindNone:
		return p.Write("null")
	case KindBool:
		if v.AsBool() {
			return p.Write("true")
		}
		return p.Write("false")
	case KindFloat:
		return p.Write(jsonFloat(v.AsFloat()))
	case KindStr:
		return p.jsonString(v.AsStr(), st)
	case KindInt, KindBig:
		return p.Repr(v)
	}
	if level >= st.maxDepth {
		return &limit.Error{Kind: limit.JSONDepth, Max: int64(st.maxDepth)}
	}
	switch v.k {
	case KindList, KindTuple:
		return p.jsonArray(v.Cells(), st, level+1)
	case KindDict:
		return p.jsonObject(v.AsDict(), st, level+1)
	}
	if c, ok := v.AsObject().(interface{ Cells() []Value }); ok {
		return p.jsonArray(c.Cells(), st, level+1)
	}
	return pyerr.Newf(pyerr.Type, "Object of type %s is not JSON serializable", v.TypeName())
}

// jsonArray appends a list.
func (p *Printer) jsonArray(cells []Value, st *JSONStyle, level int) error {
	if len(cells) == 0 {
		return p.Write("[]")
	}
	p.Buf = append(p.Buf, '[')
	for i, c := range cells {
		if err := p.jsonSep(st, i > 0, level); err != nil {
			return err
		}
		if err := p.json(c, st, level); err != nil {
			return err
		}
	}
	return p.jsonEnd(st, level-1, ']')
}

// jsonSep writes what stands before a member.
func (p *Printer) jsonSep(st *JSONStyle, comma bool, level int) error {
	if comma {
		if err := p.Write(st.ItemSep); err != nil {
			return err
		}
	}
	if err := p.Meter.Step(); err != nil || !st.Indented {
		return err
	}
	return p.jsonLine(st, level)
}

// jsonLine starts a line at a level of indentation.
func (p *Printer) jsonLine(st *JSONStyle, level int) error {
	if err := p.Meter.Bytes(1 + level*len(st.Indent)); err != nil {
		return err
	}
	p.Buf = append(p.Buf, '\n')
	for range level {
		p.Buf = append(p.Buf, st.Indent...)
	}
	return nil
}

// jsonEnd closes a container.
func (p *Printer) jsonEnd(st *JSONStyle, level int, end byte) error {
	if st.Indented {
		if err := p.jsonLine(st, level); err != nil {
			return err
		}
	}
	p.Buf = append(p.Buf, end)
	return p.Meter.Bytes(2)
}

// jsonObject appends a dict, its keys turned into strings.
func (p *Printer) jsonObject(d *Dict, st *JSONStyle, level int) error {
	if d.Len() == 0 {
		return p.Write("{}")
	}
	entries := d.Entries()
	if st.SortKeys {
		var err error
		if entries, err = sortedEntries(p.Meter, entries); err != nil {
			return err
		}
	}
	p.Buf = append(p.Buf, '{')
	for i := range entries {
		if err := p.jsonSep(st, i > 0, level); err != nil {
			return err
		}
		if err := p.jsonKey(entries[i].Key, st); err != nil {
			return err
		}
		if err := p.Write(st.KeySep); err != nil {
			return err
		}
		if err := p.json(entries[i].Val, st, level); err != nil {
			return err
		}
	}
	return p.jsonEnd(st, level-1, '}')
}

// sortedEntries gives entries by key: TypeError for keys that do not
// compare.
func sortedEntries(m *limit.Meter, entries []Entry) ([]Entry, error) {
	keys := make([]Value, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	order, err := SortOrder(m, keys, false)
	if err != nil {
		return nil, err
	}
	out := make([]Entry, len(entries))
	for i, at := range order {
		out[i] = entries[at]
	}
	return out, nil
}

// jsonKey appends a key: str, int, float, bool or None.
func (p *Printer) jsonKey(k Value, st *JSONStyle) error {
	var s string
	switch k.k {
	case KindStr:
		return p.jsonString(k.AsStr(), st)
	case KindNone:
		s = "null"
	case KindBool:
		s = strconv.FormatBool(k.AsBool())
	case KindFloat:
		s = jsonFloat(k.AsFloat())
	case KindInt, KindBig:
		var err error
		if s, err = ReprOf(p.Meter, k); err != nil {
			return err
		}
	default:
		return pyerr.Newf(pyerr.Type, "keys must be str, int, float, bool or None, not %s", k.TypeName())
	}
	return p.jsonString(s, st)
}
