package jinja

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNamesReadOutsideAndSetInside: a name that the frame around reads, and an inner frame reads and then sets, is the
// render's variable inside until it is set. The texts are Jinja2's (3.1.6, as transformers 5.19 sets it up), s being "S".
func TestNamesReadOutsideAndSetInside(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ source, want string }{
		{`{{ s }}-{% for x in [1] %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endfor %}`, "S-S|S"},
		{`{% for x in [1] %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endfor %}-{{ s }}`, "S|S-S"},
		{`{% for x in [1] %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endfor %}`, "S|S"},
		{`{{ s }}-{% for x in [1] %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endfor %}`, "S-S|1"},
		{`{% for x in [1] %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endfor %}-{{ s }}`, "S|1-S"},
		{`{% for x in [1] %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endfor %}`, "S|1"},
		{`{{ s }}-{% for x in [1] %}{{ s }}|{% set s=1 %}{{ s }}{% endfor %}`, "S-S|1"},
		{`{% for x in [1] %}{{ s }}|{% set s=1 %}{{ s }}{% endfor %}-{{ s }}`, "S|1-S"},
		{`{% for x in [1] %}{{ s }}|{% set s=1 %}{{ s }}{% endfor %}`, "S|1"},
		{`{{ s }}-{% macro m() %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endmacro %}{{ m() }}`, "S-S|S"},
		{`{% macro m() %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endmacro %}{{ m() }}-{{ s }}`, "S|S-S"},
		{`{% macro m() %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endmacro %}{{ m() }}`, "S|S"},
		{`{{ s }}-{% macro m() %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endmacro %}{{ m() }}`, "S-S|1"},
		{`{% macro m() %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endmacro %}{{ m() }}-{{ s }}`, "S|1-S"},
		{`{% macro m() %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endmacro %}{{ m() }}`, "S|1"},
		{`{{ s }}-{% macro m() %}{{ s }}|{% set s=1 %}{{ s }}{% endmacro %}{{ m() }}`, "S-S|1"},
		{`{% macro m() %}{{ s }}|{% set s=1 %}{{ s }}{% endmacro %}{{ m() }}-{{ s }}`, "S|1-S"},
		{`{% macro m() %}{{ s }}|{% set s=1 %}{{ s }}{% endmacro %}{{ m() }}`, "S|1"},
		{`{{ s }}-{% with a=s %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endwith %}`, "S-S|S"},
		{`{% with a=s %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endwith %}-{{ s }}`, "S|S-S"},
		{`{% with a=s %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endwith %}`, "S|S"},
		{`{{ s }}-{% with a=s %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endwith %}`, "S-S|1"},
		{`{% with a=s %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endwith %}-{{ s }}`, "S|1-S"},
		{`{% with a=s %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endwith %}`, "S|1"},
		{`{{ s }}-{% with a=s %}{{ s }}|{% set s=1 %}{{ s }}{% endwith %}`, "S-S|1"},
		{`{% with a=s %}{{ s }}|{% set s=1 %}{{ s }}{% endwith %}-{{ s }}`, "S|1-S"},
		{`{% with a=s %}{{ s }}|{% set s=1 %}{{ s }}{% endwith %}`, "S|1"},
		{`{% macro w() %}{{ caller() }}{% endmacro %}{% call w() %}{{ s }}|{% set s=1 %}{{ s }}{% endcall %}`, "S|1"},
		{`{{ s }}-{% filter upper %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endfilter %}`, "S-S|S"},
		{`{% filter upper %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endfilter %}-{{ s }}`, "S|S-S"},
		{`{% filter upper %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endfilter %}`, "S|S"},
		{`{{ s }}-{% filter upper %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endfilter %}`, "S-S|1"},
		{`{% filter upper %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endfilter %}-{{ s }}`, "S|1-S"},
		{`{% filter upper %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endfilter %}`, "S|1"},
		{`{{ s }}-{% filter upper %}{{ s }}|{% set s=1 %}{{ s }}{% endfilter %}`, "S-S|1"},
		{`{% filter upper %}{{ s }}|{% set s=1 %}{{ s }}{% endfilter %}-{{ s }}`, "S|1-S"},
		{`{% filter upper %}{{ s }}|{% set s=1 %}{{ s }}{% endfilter %}`, "S|1"},
		{`{{ s }}-{% set b %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endset %}{{ b }}`, "S-S|S"},
		{`{% set b %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endset %}{{ b }}-{{ s }}`, "S|S-S"},
		{`{% set b %}{{ s }}|{% if 0 %}{% set s=1 %}{% endif %}{{ s }}{% endset %}{{ b }}`, "S|S"},
		{`{{ s }}-{% set b %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endset %}{{ b }}`, "S-S|1"},
		{`{% set b %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endset %}{{ b }}-{{ s }}`, "S|1-S"},
		{`{% set b %}{{ s }}|{% if 1 %}{% set s=1 %}{% endif %}{{ s }}{% endset %}{{ b }}`, "S|1"},
		{`{{ s }}-{% set b %}{{ s }}|{% set s=1 %}{{ s }}{% endset %}{{ b }}`, "S-S|1"},
		{`{% set b %}{{ s }}|{% set s=1 %}{{ s }}{% endset %}{{ b }}-{{ s }}`, "S|1-S"},
		{`{% set b %}{{ s }}|{% set s=1 %}{{ s }}{% endset %}{{ b }}`, "S|1"},
	} {
		t.Run(row.source, func(t *testing.T) {
			t.Parallel()
			got, err := render(t, row.source, `{"s": "S"}`)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
		})
	}
}
