package eval

import (
	"html"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// Markup is text that counts as escaped. Beyond str it knows how to undo
// that.

// markupMethods gives what Markup has beyond str.
func markupMethods(name string) methodFunc {
	switch name {
	case "escape":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			if err := a.arity("Markup", name, 1, 1); err != nil {
				return self, err
			}
			s, err := escaped(r, a.pos[0])
			return value.Markup(s), err
		}
	case "striptags":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			return value.Str(stripTags(self.AsStr())), r.m.Bytes(len(self.AsStr()))
		}
	case "unescape":
		return func(r *run, self value.Value, a *args) (value.Value, error) {
			return value.Str(html.UnescapeString(self.AsStr())), r.m.Bytes(len(self.AsStr()))
		}
	}
	return nil
}

// stripTags takes out tags and comments, joins whitespace and resolves
// entities.
func stripTags(s string) string {
	var b strings.Builder
	for {
		open := strings.IndexByte(s, '<')
		if open < 0 {
			break
		}
		end, n := strings.IndexByte(s[open:], '>'), 1
		if strings.HasPrefix(s[open:], "<!--") {
			end, n = strings.Index(s[open+4:], "-->"), 4+3
		}
		if end < 0 {
			break
		}
		b.WriteString(s[:open])
		s = s[open+end+n:]
	}
	b.WriteString(s)
	return html.UnescapeString(strings.Join(value.SplitSpace(b.String(), -1), " "))
}
