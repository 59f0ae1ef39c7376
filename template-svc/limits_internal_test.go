package templatesvc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/modelfile"
)

// TestEachLimitIsASetting: with the defaults a template renders, with a smaller setting it ends with the error of that
// limit's name, and the next one is served.
func TestEachLimitIsASetting(t *testing.T) {
	t.Parallel()
	deepJSON := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	rows := []struct {
		name, template string
		small          LimitConfig
	}{
		{"source_bytes", strings.Repeat("long ", 50), LimitConfig{SourceBytes: 100}},
		{"depth", "{% macro m(n) %}{{ m(n - 1) if n }}{% endmacro %}{{ m(50) }}", LimitConfig{Depth: 30}},
		{"depth", "{{ " + strings.Repeat("(", 50) + "1" + strings.Repeat(")", 50) + " }}", LimitConfig{Depth: 30}},
		{"steps", "{% for i in range(9000) %}{% endfor %}", LimitConfig{Steps: 5000}},
		{"made_bytes", "{{ 'x' * 9000 }}", LimitConfig{MadeBytes: 5000}},
		{"made_bytes", "{{ ('x' * 4000).encode().hex()|length }}", LimitConfig{MadeBytes: 10_000}},
		{"json_depth", "{{ " + deepJSON + "|tojson }}", LimitConfig{JSONDepth: 20}},
		{"padding_bytes", "{{ 'x'.ljust(900) }}", LimitConfig{PaddingBytes: 500}},
		{"power_bits", "{{ 2 ** 900 > 1 }}", LimitConfig{PowerBits: 500}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			render := func(limits LimitConfig, template string) error {
				cfg := Config{Models: []ModelConfig{{Name: "m"}}, Limits: limits}
				cfg.SetDefaults()
				c := newCatalog(cfg, time.Now, kittest.Logger(t))
				e := c.load(cfg.Models[0], func() (*modelfile.Files, error) {
					return &modelfile.Files{Templates: map[string]string{"default": template}}, nil
				})
				if e.model == nil {
					return errors.New(e.detail)
				}
				_, err := e.model.Render(t.Context(), &chat.Request{MessagesJSON: []byte(`[{"role":"user","content":"x"}]`)})
				return err
			}
			require.NoError(t, render(LimitConfig{}, row.template))
			err := render(row.small, row.template)
			require.ErrorContains(t, err, "template passes limit "+row.name)
			require.NoError(t, render(row.small, "ok"))
		})
	}
}

// TestTimeIsALimitToo: a render whose context ends is stopped with the limit's error, whatever it is doing.
func TestTimeIsALimitToo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, template := range map[string]string{
		"rounds": "{% for a in range(90000) %}{% endfor %}", "filter": "{{ range(90000)|map('string')|list|length }}",
		"join": "{{ range(90000)|join }}", "bytes": "{{ ('x' * 900000).encode()|sum }}",
		"recursion": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(30) }}",
	} {
		tmpl, err := jinja.Compile(template, jinja.Limits{})
		require.NoError(t, err, name)
		out, err := tmpl.Render(ctx, []byte("before"), jinja.Env{})
		var passed *jinja.LimitError
		require.ErrorAs(t, err, &passed, name)
		require.ErrorIs(t, err, context.Canceled, name)
		require.Equal(t, "before", string(out), "%s: nothing is appended", name)
	}
}

// TestNegativeLimitsAreRefused names each of them.
func TestNegativeLimitsAreRefused(t *testing.T) {
	t.Parallel()
	cfg := Config{Limits: LimitConfig{
		SourceBytes: -1, Depth: -1, Steps: -1, MadeBytes: -1, JSONDepth: -1, PaddingBytes: -1, PowerBits: -1,
	}}
	cfg.SetDefaults()
	err := cfg.Validate()
	for _, name := range []string{"source_bytes", "depth", "steps", "made_bytes", "json_depth", "padding_bytes", "power_bits"} {
		require.ErrorContains(t, err, "limits."+name)
	}
}
