package eval

import (
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// tojson here is transformers' own: json.dumps without HTML escapes, with
// its parameters in positional order.

var tojsonSignature = newSignature("_compile_jinja_template.<locals>.tojson", 1,
	"x", "ensure_ascii", "indent", "separators", "sort_keys")

// dumpJSON is the environment's tojson.
func dumpJSON(p *value.Printer, a *args) error {
	style := value.DefaultJSONStyle()
	if len(a.pos) == 1 && len(a.kw) == 0 {
		return p.JSON(a.pos[0], &style)
	}
	b, err := tojsonSignature.bind(a)
	if err != nil {
		return err
	}
	style.ASCII = b[1].Truth()
	style.SortKeys = b[4].Truth()
	if given(b[2]) {
		style.Indented = true
		style.ItemSep = ","
		if style.Indent, err = indentText(p.Meter, b[2]); err != nil {
			return err
		}
	}
	if given(b[3]) {
		cells, err := separators(b[3])
		if err != nil {
			return err
		}
		style.ItemSep, style.KeySep = cells[0].Text(), cells[1].Text()
	}
	return p.JSON(b[0], &style)
}

// separators unpacks (item, key).
func separators(v value.Value) ([]value.Value, error) {
	cells, err := unpackCells(v, 2)
	if err != nil {
		return nil, err
	}
	for i, c := range cells {
		if !c.IsStr() {
			return nil, typeError("make_encoder() argument %d must be str, not %s", 6-i, c.TypeName())
		}
	}
	return cells, nil
}

// indentText is one level of indentation: a text or a number of blanks.
func indentText(m *limit.Meter, v value.Value) (string, error) {
	if v.IsStr() {
		return v.AsStr(), m.Pad(int64(len(v.AsStr())))
	}
	n, err := asInt(v, 0)
	if err != nil {
		return "", typeError("can't multiply sequence by non-int of type '%s'", v.TypeName())
	}
	if err := m.Pad(n); err != nil {
		return "", err
	}
	return strings.Repeat(" ", int(max(n, 0))), nil
}
