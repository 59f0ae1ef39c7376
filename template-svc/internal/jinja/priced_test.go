package jinja

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/limit"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// slowBuiltins look at a text character by character: the expressions take the text s.
var slowBuiltins = []string{
	"s.isalnum()", "s.isalpha()", "s.isdecimal()", "s.isdigit()", "s.isnumeric()", "s.isspace()", "s.isascii()",
	"s.isprintable()", "s.isidentifier()", "s.islower()", "s.isupper()", "s.istitle()", "s is lower", "s is upper",
	"s.lower()", "s.upper()", "s.title()", "s.swapcase()", "s.capitalize()", "s.casefold()", "s.splitlines()",
	"s.encode()", "s.encode('ascii', 'xmlcharrefreplace')", "s.expandtabs()", "s.translate({120: 121})",
	"s|upper", "s|lower", "s|title", "s|capitalize", "s|int", "s|int(0, 16)", "s|wordcount", "s|wordwrap", "s|urlize",
	"s|urlencode", "s|striptags", "s|pprint", "s|list", "s|last", "s|reverse|list", "s|sort", "s|unique|list",
	"s|map('upper')|list", "s|select|list", "s|batch(3)|list", "s|slice(3)|list", "s|groupby('x')", "s|min",
	"'%r' % s", "'%a' % s", "'{!r}'.format(s)", "[s]|string", "{'a': s} ~ ''",
	"b.isalpha()", "b.istitle()", "b.upper()", "b.title()", "b|string", "b|list",
}

// TestSlowBuiltinsArePriced gives each a text whose characters are more than the steps that are left: it is refused
// before it looks at them all, and so is a render whose time is over.
func TestSlowBuiltinsArePriced(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	vars := []Var{{Name: "s", Value: value.Str(text)}, {Name: "b", Value: value.Bytes(text)}}
	for _, expr := range slowBuiltins {
		t.Run(expr, func(t *testing.T) {
			t.Parallel()
			tmpl, err := Compile("{% set x = "+expr+" %}", Limits{})
			require.NoError(t, err)
			_, err = tmpl.Render(context.Background(), nil, Env{Vars: vars, Limits: &Limits{Steps: 1 << 17}})
			var passed *LimitError
			require.ErrorAs(t, err, &passed)
			require.Equal(t, limit.Steps, passed.Kind)

			gone, cancel := context.WithCancelCause(context.Background())
			cancel(errors.New("the client left"))
			_, err = tmpl.Render(gone, nil, Env{Vars: vars})
			require.ErrorAs(t, err, &passed)
			require.Equal(t, limit.Time, passed.Kind)
		})
	}
}
