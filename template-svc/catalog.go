package templatesvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sort"
	"sync"
	"time"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	"github.com/kvmesh/kvmesh/services/kit/steady"
	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
	"github.com/kvmesh/kvmesh/template-svc/internal/harmony"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
	"github.com/kvmesh/kvmesh/template-svc/internal/media"
	"github.com/kvmesh/kvmesh/template-svc/internal/modelfile"
	"github.com/kvmesh/kvmesh/template-svc/internal/served"
)

// catalog holds the configured models. Entries are replaced whole, so a request that began with one ends with it.
type catalog struct {
	cfg    Config
	now    func() time.Time
	log    *slog.Logger
	worker served.Client
	mu     sync.RWMutex
	byID   map[string]entry
	// files and told belong to the goroutine of run: each model's files as looked at, and what was last told of it.
	files map[string]*steady.Files
	told  map[string]string
}

// askTimeout bounds a question to a worker.
const askTimeout = 5 * time.Second

// renderer makes prompts of one model's chat requests: by its templates, or in a format of its own.
type renderer interface {
	Render(ctx context.Context, req *chat.Request) (chat.Result, error)
	Names() []string
	DefaultFormat() string
}

// entry is one model's state; model is nil unless it is ready.
type entry struct {
	model renderer
	// version is the workers' as configured; a request's own wins.
	version string
	state   templatev1.ModelState
	detail  string
}

func newCatalog(cfg Config, now func() time.Time, log *slog.Logger) *catalog {
	c := &catalog{
		cfg: cfg, now: now, log: log, byID: map[string]entry{}, files: map[string]*steady.Files{}, told: map[string]string{},
		worker: served.Client{HTTP: &http.Client{Timeout: askTimeout, Transport: &http.Transport{}}},
	}
	for _, m := range cfg.Models {
		c.byID[m.Name] = entry{state: templatev1.ModelState_MODEL_STATE_LOADING}
		c.files[m.Name] = &steady.Files{}
	}
	return c
}

// get gives a model's entry; ok is false for one that is not configured.
func (c *catalog) get(id string) (entry, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.byID[id]
	return e, ok
}

// ids lists the configured models in order.
func (c *catalog) ids() []string {
	out := make([]string, 0, len(c.cfg.Models))
	for _, m := range c.cfg.Models {
		out = append(out, m.Name)
	}
	sort.Strings(out)
	return out
}

// loading lists models whose files have not been read yet.
func (c *catalog) loading() []string {
	var out []string
	for _, id := range c.ids() {
		if e, _ := c.get(id); e.state == templatev1.ModelState_MODEL_STATE_LOADING {
			out = append(out, id)
		}
	}
	return out
}

// untilReady is the time between looks while a model is not in use yet, where no interval is set.
const untilReady = 5 * time.Second

// run reads all models, then looks for changed files until ctx ends. One bad model never stops the others.
func (c *catalog) run(ctx context.Context) {
	defer c.worker.HTTP.CloseIdleConnections()
	c.refresh(ctx)
	every := c.cfg.ReloadInterval
	if every <= 0 {
		every = untilReady
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if c.cfg.ReloadInterval <= 0 && c.settled() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.refresh(ctx)
		}
	}
}

// settled reports whether every model is in use or is known to have no template that can be used.
func (c *catalog) settled() bool {
	for _, id := range c.ids() {
		e, _ := c.get(id)
		if e.model == nil && e.state != templatev1.ModelState_MODEL_STATE_UNSUPPORTED {
			return false
		}
	}
	return true
}

// refresh looks at every model and reads those whose files changed and stand still (package steady). A model that was
// ready stays in use when its new files are bad. Models of files come first: asking a worker that does not answer takes
// its time.
func (c *catalog) refresh(ctx context.Context) {
	for _, m := range c.cfg.Models {
		if m.Worker == "" {
			c.look(m, func() string { return fingerprint(m) }, func() (*modelfile.Files, error) { return readFiles(m) })
		}
	}
	for _, m := range c.cfg.Models {
		if m.Worker == "" || ctx.Err() != nil {
			continue
		}
		info, err := c.worker.TokenizerInfo(ctx, m.Worker)
		if err != nil {
			c.silent(m, err)
			continue
		}
		c.look(m, func() string { return string(info) + modelfile.StampOf(m.ChatTemplate) },
			func() (*modelfile.Files, error) { return modelfile.Parse(info, m.Architecture) })
	}
}

// look reads a model if it may be read now, and drops what was read while its files changed.
func (c *catalog) look(m ModelConfig, stamp func() string, read func() (*modelfile.Files, error)) {
	files := c.files[m.Name]
	if !files.Look(stamp()) {
		return
	}
	e := c.load(m, read)
	if !files.Took(stamp()) {
		e = failed(errors.New("the model's files changed while they were read"))
	}
	c.publish(m, e)
}

// silent is a worker that does not tell its template. A model that was never ready is read with the next answer.
func (c *catalog) silent(m ModelConfig, err error) {
	if e, _ := c.get(m.Name); e.model == nil {
		c.files[m.Name] = &steady.Files{}
	}
	c.publish(m, failed(err))
}

// publish puts a model in use, unless one that is ready would give way to one that is not. What is told once is not
// told again until it changes.
func (c *catalog) publish(m ModelConfig, e entry) {
	c.mu.Lock()
	keep := c.byID[m.Name].model != nil && e.model == nil
	if !keep {
		c.byID[m.Name] = e
	}
	c.mu.Unlock()
	if e.model == nil && c.told[m.Name] == e.detail {
		return
	}
	c.told[m.Name] = e.detail
	level := slog.LevelInfo
	if e.state == templatev1.ModelState_MODEL_STATE_FAILED {
		level = slog.LevelError
	}
	c.log.Log(context.Background(), level, "template model",
		"model", m.Name, "state", e.state.String(), "detail", e.detail, "kept_old", keep)
}

// failed is the entry of a model that could not be read.
func failed(err error) entry {
	return entry{state: templatev1.ModelState_MODEL_STATE_FAILED, detail: err.Error()}
}

// readFiles reads the model's folder, if it has one.
func readFiles(m ModelConfig) (*modelfile.Files, error) {
	if m.Path == "" {
		return &modelfile.Files{}, nil
	}
	return modelfile.Load(m.Path, m.Name)
}

// load reads one model.
func (c *catalog) load(m ModelConfig, read func() (*modelfile.Files, error)) entry {
	files, err := read()
	if err != nil {
		return failed(err)
	}
	if files.Unsupported != "" && m.ChatTemplate == "" {
		return entry{state: templatev1.ModelState_MODEL_STATE_UNSUPPORTED, detail: files.Unsupported}
	}
	if files.Harmony {
		model := &harmony.Model{Now: c.now, ExcludeToolsWhenNone: m.ExcludeToolsWhenNone}
		return entry{model: model, version: m.VLLMVersion, state: templatev1.ModelState_MODEL_STATE_READY}
	}
	forced, err := forcedTemplate(m)
	if err != nil {
		return failed(err)
	}
	opts, err := c.options(m)
	if err != nil {
		return failed(err)
	}
	opts.Media = media.Of(files.Architecture)
	model, err := chat.New(files.Sources(), forced, specialVars(files), opts)
	if err != nil {
		return failed(fmt.Errorf("compile chat template: %w", err))
	}
	return entry{model: model, version: m.VLLMVersion, state: templatev1.ModelState_MODEL_STATE_READY}
}

// options translates the workers' settings.
func (c *catalog) options(m ModelConfig) (chat.Options, error) {
	opts := chat.Options{
		Format: m.ContentFormat, TrustRequestTemplate: m.TrustRequestTemplate,
		ExcludeToolsWhenNone: m.ExcludeToolsWhenNone, Interleave: m.InterleaveMMStrings, Limits: c.cfg.Limits.limits(), Now: c.now,
		DefaultKwargs: value.None,
	}
	if m.DefaultKwargs == "" {
		return opts, nil
	}
	kwargs, err := jinja.FromJSON([]byte(m.DefaultKwargs))
	if err != nil || kwargs.Kind() != value.KindDict {
		return opts, fmt.Errorf("default_kwargs of %q must be a JSON object", m.Name)
	}
	opts.DefaultKwargs = kwargs
	return opts, nil
}

// forcedTemplate reads the file of --chat-template.
func forcedTemplate(m ModelConfig) (string, error) {
	if m.ChatTemplate == "" {
		return "", nil
	}
	source, err := os.ReadFile(m.ChatTemplate)
	if err != nil {
		return "", fmt.Errorf("read chat_template: %w", err)
	}
	return string(source), nil
}

// specialVars gives the named special tokens in transformers' order.
func specialVars(files *modelfile.Files) []jinja.Var {
	var out []jinja.Var
	for _, name := range modelfile.SpecialNames() {
		if text, ok := files.SpecialTokens[name]; ok {
			out = append(out, jinja.Var{Name: name, Value: value.Str(text)})
		}
	}
	return out
}

// fingerprint changes when one of a model's files does.
func fingerprint(m ModelConfig) string {
	return modelfile.Stamp(m.Path, m.Name) + modelfile.StampOf(m.ChatTemplate)
}
