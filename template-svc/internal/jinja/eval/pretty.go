package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// pprint fills lines of 80 columns with the algorithm of Python's pprint
// module.

// prettyWidth is the line width of pprint, prettyDepth the nesting it bears.
const (
	prettyWidth = 80
	prettyDepth = 200
)

// pretty lays values out as Python's pprint does.
type pretty struct {
	r *run
	p value.Printer
}

// prettyPrint is pprint: the repr if it fits into a line, else members
// under one another; dict keys are sorted.
func prettyPrint(r *run, v value.Value) (value.Value, error) {
	v, err := sortedKeys(r, v, 0)
	if err != nil {
		return v, err
	}
	w := pretty{r: r, p: value.Printer{Meter: &r.m}}
	err = w.format(v, 0, 0, 0)
	return value.StrOfBytes(w.p.Buf), err
}

// repr is the text that must fit into a line.
func (w *pretty) repr(v value.Value) (string, error) { return value.ReprOf(&w.r.m, v) }

// format writes v, which starts at column indent and has allowance columns
// after it that are taken.
func (w *pretty) format(v value.Value, indent, allowance, level int) error {
	rep, err := w.repr(v)
	if err != nil {
		return err
	}
	if value.RuneCount(rep) <= prettyWidth-indent-allowance {
		return w.p.Write(rep)
	}
	switch v.Kind() {
	case value.KindDict:
		if err := w.p.Write("{"); err != nil {
			return err
		}
		if err := w.entries(v.AsDict().Entries(), indent+1, allowance+1, level+1); err != nil {
			return err
		}
		return w.p.Write("}")
	case value.KindList:
		return w.cells("[", v.Cells(), "]", indent, allowance, level+1)
	case value.KindTuple:
		end := ")"
		if len(v.Cells()) == 1 {
			end = ",)"
		}
		return w.cells("(", v.Cells(), end, indent, allowance, level+1)
	case value.KindStr:
		if !v.IsMarkup() && v.AsStr() != "" {
			return w.text(v.AsStr(), indent, allowance, level+1)
		}
	}
	return w.p.Write(rep)
}

// line starts a new line at a column.
func (w *pretty) line(indent int) error { return w.p.Write("\n" + strings.Repeat(" ", indent)) }

// entries writes the entries of a dict under one another.
func (w *pretty) entries(entries []value.Entry, indent, allowance, level int) error {
	for i, e := range entries {
		if i > 0 {
			if err := w.p.Write(","); err != nil {
				return err
			}
			if err := w.line(indent); err != nil {
				return err
			}
		}
		rep, err := w.repr(e.Key)
		if err != nil {
			return err
		}
		if err := w.p.Write(rep + ": "); err != nil {
			return err
		}
		after := 1
		if i == len(entries)-1 {
			after = allowance
		}
		if err := w.format(e.Val, indent+value.RuneCount(rep)+2, after, level); err != nil {
			return err
		}
	}
	return nil
}

// cells writes the members of a list or tuple under one another.
func (w *pretty) cells(open string, cells []value.Value, end string, indent, allowance, level int) error {
	if err := w.p.Write(open); err != nil {
		return err
	}
	for i, c := range cells {
		after := 1
		if i == len(cells)-1 {
			after = allowance + len(end)
		}
		if i > 0 {
			if err := w.p.Write(","); err != nil {
				return err
			}
			if err := w.line(indent + 1); err != nil {
				return err
			}
		}
		if err := w.format(c, indent+1, after, level); err != nil {
			return err
		}
	}
	return w.p.Write(end)
}
