package chat

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// oddTemplates are those of testdata/make_requests.py.
func oddTemplates() map[string]string {
	text := dump + `|{{ add_generation_prompt }}`
	return map[string]string{
		"string":    text,
		"openai":    text + `{% for m in messages %}{% for p in m.content %}{% endfor %}{% endfor %}`,
		"developer": text + `{# 'developer' #}`,
	}
}

// TestOddRequests compares with what a real vLLM hands to templates of requests that its request model takes although
// they are odd: which of two message types it takes a message for decides much of it.
func TestOddRequests(t *testing.T) {
	t.Parallel()
	var rows []map[string]string
	readJSON(t, filepath.Join("testdata", "requests.json"), &rows)
	for name, source := range oddTemplates() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := New(nil, source, nil, Options{})
			require.NoError(t, err)
			prompts, lenient := 0, 0
			for _, row := range rows {
				req, ok := requestOf(row["body"])
				require.True(t, ok, row["body"])
				got, err := m.Render(t.Context(), req)
				want, accepted := row[name]
				if !accepted {
					if err == nil {
						lenient++ // the worker decides
					}
					continue
				}
				prompts++
				require.NoError(t, err, row["body"])
				require.Equal(t, want, string(got.Text), row["body"])
			}
			t.Logf("%d prompts equal; %d of %d refusals refused", prompts, len(rows)-prompts-lenient, len(rows)-prompts)
			require.Greater(t, prompts, 300)
		})
	}
}
