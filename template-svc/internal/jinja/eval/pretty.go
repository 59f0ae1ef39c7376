package eval

import (
	"regexp"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

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

// sortedKeys gives v with the keys of all dicts in order.
func sortedKeys(r *run, v value.Value, depth int) (value.Value, error) {
	if depth > prettyDepth {
		return v, &limit.Error{Kind: limit.Depth, Max: prettyDepth}
	}
	switch v.Kind() {
	case value.KindList, value.KindTuple:
		if err := r.m.Product(len(v.Cells()), cellBytes); err != nil {
			return v, err
		}
		out := make([]value.Value, len(v.Cells()))
		for i, c := range v.Cells() {
			var err error
			if out[i], err = sortedKeys(r, c, depth+1); err != nil {
				return v, err
			}
		}
		if v.Kind() == value.KindTuple {
			return value.Tuple(out), nil
		}
		return value.List(out), nil
	case value.KindDict:
		return sortedDict(r, v.AsDict(), depth)
	}
	return v, nil
}

// sortedDict gives a dict with its keys in order.
func sortedDict(r *run, d *value.Dict, depth int) (value.Value, error) {
	entries := d.Entries()
	keys := make([]value.Value, len(entries))
	for i, e := range entries {
		// Keys that do not compare are put in order by the names of their types.
		keys[i] = value.Tuple([]value.Value{value.Str(e.Key.TypeName()), e.Key})
		if e.Key.IsNumber() {
			keys[i] = value.Tuple([]value.Value{value.Str("int"), e.Key})
		}
	}
	order, err := value.SortOrder(&r.m, keys, false)
	if err != nil {
		return value.Value{}, err
	}
	out := value.NewDict(len(entries))
	for _, i := range order {
		v, err := sortedKeys(r, entries[i].Val, depth+1)
		if err != nil {
			return v, err
		}
		if err := out.Set(entries[i].Key, v); err != nil {
			return v, err
		}
	}
	return value.OfDict(out), nil
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

// wordPattern cuts a line into words with the whitespace after them.
var wordPattern = regexp.MustCompile(`[^\s]*\s*`)

// text writes a long text as several literals under one another.
func (w *pretty) text(s string, indent, allowance, level int) error {
	if level == 1 {
		indent++
		allowance++
	}
	width := prettyWidth - indent
	var chunks []string
	lines := value.SplitLines(s, true)
	for i, line := range lines {
		rep := value.ReprString(line)
		last := i == len(lines)-1
		room := width
		if last {
			room -= allowance
		}
		if value.RuneCount(rep) <= room {
			chunks = append(chunks, rep)
			continue
		}
		chunks = append(chunks, textChunks(line, width, allowance, last)...)
	}
	if err := w.r.m.Work(len(s)); err != nil {
		return err
	}
	open, end := "", ""
	if level == 1 && len(chunks) > 1 {
		open, end = "(", ")"
	}
	if err := w.p.Write(open); err != nil {
		return err
	}
	for i, c := range chunks {
		if i > 0 {
			if err := w.line(indent); err != nil {
				return err
			}
		}
		if err := w.p.Write(c); err != nil {
			return err
		}
	}
	return w.p.Write(end)
}

// textChunks breaks one line of a text between words.
func textChunks(line string, width, allowance int, last bool) []string {
	var chunks []string
	parts := wordPattern.FindAllString(line, -1)
	cur, size := "", 2
	for j, part := range parts {
		if part == "" {
			continue
		}
		room := width
		if last && j == len(parts)-1 {
			room -= allowance
		}
		n := value.RuneCount(value.ReprString(part)) - 2
		if size+n > room {
			if cur != "" {
				chunks = append(chunks, value.ReprString(cur))
			}
			cur, size = part, n+2
		} else {
			cur += part
			size += n
		}
	}
	if cur != "" {
		chunks = append(chunks, value.ReprString(cur))
	}
	return chunks
}
