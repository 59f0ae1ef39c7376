package jinja

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// unseen is a template of testdata/make_unseen.py with its own variables and what Jinja2 made of it.
type unseen struct {
	Template string          `json:"template"`
	Vars     json.RawMessage `json:"vars"`
	Text     *string         `json:"text"`
	Error    *cellError      `json:"error"`
}

// TestUnseen tries corners of the language that the corpus does not use, faults with their Python types among them.
func TestUnseen(t *testing.T) {
	t.Parallel()
	var cases []unseen
	readJSON(t, &cases, "testdata", "golden", "unseen.json")
	require.Greater(t, len(cases), 200)
	for _, c := range cases {
		got, err := renderGolden(c.Template, varsOf(t, c.Vars))
		if diff := check(cell{Raw: c.Text, Error: c.Error}, got, err); diff != "" {
			t.Errorf("%s\n%s", c.Template, diff)
		}
	}
}
