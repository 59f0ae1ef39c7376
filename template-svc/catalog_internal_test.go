package templatesvc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
	"github.com/kvmesh/kvmesh/template-svc/internal/modelfile"
)

// looker is a catalog of the model "m" that a test lets look.
type looker struct {
	*catalog
	dir string
}

func newLooker(t *testing.T, template string) looker {
	t.Helper()
	dir := t.TempDir()
	cfg := Config{Models: []ModelConfig{{Name: "m", Path: dir, ChatTemplate: filepath.Join(dir, "forced.jinja")}}}
	cfg.SetDefaults()
	l := looker{catalog: newCatalog(cfg, time.Now, kittest.Logger(t)), dir: dir}
	l.put(t, "tokenizer_config.json", `{"bos_token":"<s>"}`)
	l.put(t, "forced.jinja", template)
	return l
}

// put writes a file in place.
func (l looker) put(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(l.dir, name)), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(l.dir, name), []byte(content), 0o600))
}

// text is what the model renders now, or its state.
func (l looker) text(t *testing.T) string {
	t.Helper()
	e, ok := l.get("m")
	require.True(t, ok)
	if e.model == nil {
		return e.state.String()
	}
	messages := []byte(`[{"role":"user","content":"x"}]`)
	got, err := e.model.Render(t.Context(), &chat.Request{MessagesJSON: messages})
	require.NoError(t, err)
	return string(got.Text)
}

// TestFilesWrittenInPlace: a look that falls into the writing of a template reads none of it.
func TestFilesWrittenInPlace(t *testing.T) {
	t.Parallel()
	l := newLooker(t, "one")
	steps := []struct{ write, want string }{
		{"", "one"},       // the first look reads
		{"", "one"},       // nothing changed
		{"tw", "one"},     // half of it
		{"two, ", "one"},  // more of it
		{"two, w", "one"}, // all but the end
		{"two, whole", "one"},
		{"", "two, whole"}, // two looks saw the same
		{"{% broken", "two, whole"},
		{"", "two, whole"}, // read, and no good
		{"three", "two, whole"},
		{"", "three"},
	}
	for i, step := range steps {
		if step.write != "" {
			l.put(t, "forced.jinja", step.write)
		}
		l.refresh(t.Context())
		require.Equal(t, step.want, l.text(t), "step %d", i)
	}
}

// TestEachFileOfAModelIsWatched: every file that decides prompts brings a new reading.
func TestEachFileOfAModelIsWatched(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json", "config.json",
		"preprocessor_config.json", "processor_config.json", "tekken.json", "forced.jinja",
		filepath.Join("additional_chat_templates", "tool_use.jinja"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLooker(t, "one")
			l.refresh(t.Context())
			before, _ := l.get("m")
			require.NotNil(t, before.model)
			l.put(t, name, `{ "longer": "than anything before" }`)
			l.refresh(t.Context())
			same, _ := l.get("m")
			require.Same(t, before.model, same.model, "one look is not enough")
			l.refresh(t.Context())
			after, _ := l.get("m")
			require.NotSame(t, before.model, after.model)
			stamp := fingerprint(l.cfg.Models[0])
			require.NoError(t, os.Remove(filepath.Join(l.dir, name)))
			require.NotEqual(t, stamp, fingerprint(l.cfg.Models[0]), "a file that is gone is a change")
		})
	}
}

// TestChangedWhileRead: what was read while the files changed is used neither at the first look nor later.
func TestChangedWhileRead(t *testing.T) {
	t.Parallel()
	l := newLooker(t, "")
	m := ModelConfig{Name: "m"}
	// Each step is a look: the stamps before and after the reading, and the template that the reading finds.
	steps := []struct{ before, after, template, want string }{
		{"a", "b", "half", "MODEL_STATE_FAILED"},
		{"b", "b", "whole", "whole"}, // b was seen after the reading and is seen again
		{"c", "c", "unread", "whole"},
		{"c", "d", "half", "whole"},
		{"e", "e", "unread", "whole"},
		{"e", "e", "next", "next"},
	}
	for i, step := range steps {
		stamps := []string{step.before, step.after}
		l.look(m, func() string {
			stamp := stamps[0]
			stamps = stamps[1:]
			return stamp
		}, func() (*modelfile.Files, error) {
			return &modelfile.Files{Templates: map[string]string{"default": step.template}}, nil
		})
		require.Equal(t, step.want, l.text(t), "step %d", i)
	}
}

// TestSilentWorker: a worker that was away is believed at once when it is back, unless its model was ready all along.
func TestSilentWorker(t *testing.T) {
	t.Parallel()
	l := newLooker(t, "")
	m := ModelConfig{Name: "m"}
	answer := func(template string) {
		files := &modelfile.Files{Templates: map[string]string{"default": template}}
		if template == "" {
			files.Unsupported = "none"
		}
		l.look(m, func() string { return template }, func() (*modelfile.Files, error) { return files, nil })
	}
	l.silent(m, errors.New("away"))
	require.Equal(t, "MODEL_STATE_FAILED", l.text(t))
	answer("")
	require.Equal(t, templatev1.ModelState_MODEL_STATE_UNSUPPORTED.String(), l.text(t))
	l.silent(m, errors.New("away"))
	require.Equal(t, "MODEL_STATE_FAILED", l.text(t))
	answer("")
	require.Equal(t, "MODEL_STATE_UNSUPPORTED", l.text(t), "the same answer counts again")
	l.silent(m, errors.New("away"))
	answer("one")
	require.Equal(t, "one", l.text(t))
	l.silent(m, errors.New("away"))
	require.Equal(t, "one", l.text(t), "a model that was ready stays")
	answer("two")
	require.Equal(t, "one", l.text(t))
	answer("two")
	require.Equal(t, "two", l.text(t))
}

// TestNoIntervalLooksUntilInUse: without an interval a model whose template is broken at first is looked at until it is
// in use, and never again.
func TestNoIntervalLooksUntilInUse(t *testing.T) {
	t.Parallel()
	l := newLooker(t, "{% if %}")
	synctest.Test(t, func(t *testing.T) {
		l.cfg.ReloadInterval = -1
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.run(ctx)
		}()
		synctest.Wait()
		require.Equal(t, "MODEL_STATE_FAILED", l.text(t))
		l.put(t, "forced.jinja", "mended")
		time.Sleep(time.Minute) // the bubble's clock
		synctest.Wait()
		require.Equal(t, "mended", l.text(t))
		<-done
	})
}
