package simulate

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of the plot, pixels.
const (
	panelWidth  = 460
	labelWidth  = 118
	valueWidth  = 62
	barHeight   = 16
	panelGap    = 26
	titleHeight = 22
	columns     = 3
)

// WriteSVG draws mean TTFT by policy, one panel per table, bars on a logarithmic scale from a hundredth of the panel's
// longest bar. The default policy's bar is dark.
func (r *Report) WriteSVG(w io.Writer, highlight string) error {
	var b strings.Builder
	rows := 0
	for _, t := range r.Tables {
		rows = max(rows, len(t.Rows))
	}
	height := titleHeight + rows*barHeight + panelGap
	wide := min(columns, max(1, len(r.Tables)))
	lines := (len(r.Tables) + columns - 1) / columns
	const head = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`
	fmt.Fprintf(&b, head,
		wide*panelWidth, lines*height)
	b.WriteString("\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n")
	for i, t := range r.Tables {
		t.panel(&b, i%columns*panelWidth, i/columns*height, highlight)
	}
	b.WriteString("</svg>\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write plot: %w", err)
	}
	return nil
}

func (t *Table) panel(b *strings.Builder, x, y int, highlight string) {
	longest := 0.0
	for _, row := range t.Rows {
		longest = max(longest, row.TTFT.Mean)
	}
	title := fmt.Sprintf("%s: mean TTFT, log scale, %s", t.Cell, t.Note)
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text>`+"\n", x+8, y+15, html.EscapeString(title))
	room := float64(panelWidth - labelWidth - valueWidth)
	for i, row := range t.Rows {
		top := y + titleHeight + i*barHeight
		length, value := room, "∞" // where nothing was served
		if v := row.TTFT.Mean; longest > 0 {
			length = room * max(0.01, 1+math.Log10(max(v, longest/100)/longest)/2)
			value = fmt.Sprintf("%.3g s", v)
		}
		colour := "#9db4c8"
		if row.Policy == highlight {
			colour = "#1f4e79"
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`,
			x+labelWidth-6, top+12, html.EscapeString(row.Policy))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`,
			x+labelWidth, top+2, length, barHeight-4, colour)
		fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", float64(x+labelWidth)+length+4, top+12, value)
	}
}
