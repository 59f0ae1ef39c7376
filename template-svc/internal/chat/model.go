package chat

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
	"github.com/kvmesh/kvmesh/template-svc/internal/media"
)

// Options are the settings of the workers that serve a model, as their command line gives them.
type Options struct {
	// Format is "auto", "string" or "openai" (--chat-template-content-format); empty means auto.
	Format string
	// DefaultKwargs is a dict or None (--default-chat-template-kwargs).
	DefaultKwargs value.Value
	// TrustRequestTemplate lets a request bring its own template (--trust-request-chat-template).
	TrustRequestTemplate bool
	// ExcludeToolsWhenNone leaves tools out with tool_choice none (--exclude-tools-when-tool-choice-none).
	ExcludeToolsWhenNone bool
	// Media holds the placeholders of the model's architecture; nil when it is not known to take media.
	Media *media.Model
	// Interleave puts placeholders between texts instead of before them (--interleave-mm-strings).
	Interleave bool
	// Limits bounds every template of the model.
	Limits jinja.Limits
	// Now is the clock of strftime_now in the workers' time zone; nil means time.Now.
	Now func() time.Time
}

// Model renders the requests of one model. It is immutable and safe for concurrent use.
type Model struct {
	opts      Options
	templates map[string]*compiled
	// forced is set when a template was given on the worker's command line: it beats the model's own.
	forced  *compiled
	special []jinja.Var
	// requested holds templates that requests bring.
	requested *sourceCache
	readers   sync.Pool // of *jinja.JSONReader
}

// ProcessorTemplate names a multimodal processor's template among the sources: it beats the tokenizer's own, save for
// requests with tools.
const ProcessorTemplate = "(processor)"

// compiled is a template and what was found out about it.
type compiled struct {
	name            string
	tmpl            *jinja.Template
	undeclared      map[string]bool
	quotesDeveloper bool
	namesContent    bool
	timeDependent   bool
	format          string // what vLLM detects
	formatOld       string // what vLLM before 0.28 detects
}

// compile parses a source and examines it.
func compile(name, source string, limits jinja.Limits) (*compiled, error) {
	t, err := jinja.Compile(source, limits)
	if err != nil {
		return nil, err
	}
	c := &compiled{
		name: name, tmpl: t, undeclared: make(map[string]bool),
		quotesDeveloper: strings.Contains(source, `"developer"`) || strings.Contains(source, `'developer'`),
		namesContent:    strings.Contains(source, "content"),
		timeDependent:   strings.Contains(source, "strftime_now"),
		format:          t.ContentFormat(),
		formatOld:       t.ContentFormatOld(),
	}
	for _, n := range t.Undeclared() {
		c.undeclared[n] = true
	}
	// vLLM looks for undeclared names in an environment without these two globals.
	for _, global := range []string{"raise_exception", "strftime_now"} {
		if strings.Contains(source, global) {
			c.undeclared[global] = true
		}
	}
	return c, nil
}

// New makes a model of its templates by name and of its named special tokens. A non-empty forced source is used for
// every request, as --chat-template does.
func New(sources map[string]string, forced string, special []jinja.Var, opts Options) (*Model, error) {
	m := &Model{
		opts: opts, special: special, templates: make(map[string]*compiled, len(sources)),
		requested: newSourceCache(),
	}
	for name, source := range sources {
		c, err := compile(name, source, opts.Limits)
		if err != nil {
			return nil, err
		}
		m.templates[name] = c
	}
	if forced != "" {
		c, err := compile("forced", forced, opts.Limits)
		if err != nil {
			return nil, err
		}
		m.forced = c
	}
	return m, nil
}

// Names lists the model's templates.
func (m *Model) Names() []string {
	out := make([]string, 0, len(m.templates)+1)
	if m.forced != nil {
		out = append(out, m.forced.name)
	}
	for name := range m.templates {
		out = append(out, name)
	}
	return out
}

// DefaultFormat is the content format of the template that a request without tools gets.
func (m *Model) DefaultFormat() string {
	t, err := m.choose(&Request{}, settings{kwargs: value.NewDict(0)}, false)
	if err != nil {
		return ""
	}
	return m.format(t, Rules{})
}

// choose picks the template: the request's, the forced one, or one of the model's set.
func (m *Model) choose(req *Request, s settings, hasTools bool) (*compiled, error) {
	own := ""
	if req.ChatTemplate != nil {
		if !m.opts.TrustRequestTemplate {
			return nil, refuse("chat_template", "the worker does not trust templates of requests")
		}
		own = *req.ChatTemplate
	}
	if own == "" && m.forced != nil {
		return m.forced, nil
	}
	if own == "" {
		if kw, ok := s.kwargs.GetStr("chat_template"); ok && kw.IsStr() {
			own = kw.AsStr()
		}
	}
	if named, ok := m.templates[own]; ok && own != "" && own != ProcessorTemplate {
		return named, nil
	}
	if own != "" {
		return m.requested.get(own, m.opts.Limits)
	}
	if t, ok := m.templates[ProcessorTemplate]; ok && !hasTools {
		return t, nil
	}
	if t, ok := m.templates["tool_use"]; ok && hasTools {
		return t, nil
	}
	if t, ok := m.templates["default"]; ok {
		return t, nil
	}
	return nil, refuse("chat_template", "the model has no default template")
}

// format gives the content format that a worker uses with the template.
func (m *Model) format(t *compiled, rules Rules) string {
	switch {
	case m.opts.Format == jinja.FormatString || m.opts.Format == jinja.FormatOpenAI:
		return m.opts.Format
	case rules.Old:
		return t.formatOld
	}
	return t.format
}

// Render gives the prompt of a request. Errors are *Refusal, *jinja.Error (the template's own or Python's) and
// *jinja.LimitError.
func (m *Model) Render(ctx context.Context, req *Request) (Result, error) {
	s, err := m.merge(req)
	if err != nil {
		return Result{}, err
	}
	toolList, err := m.requestTools(req)
	if err != nil {
		return Result{}, err
	}
	t, err := m.choose(req, s, !toolList.IsNone())
	if err != nil {
		return Result{}, err
	}
	reader, _ := m.readers.Get().(*jinja.JSONReader)
	if reader == nil {
		reader = &jinja.JSONReader{}
	}
	out, err := m.renderMessages(ctx, req, reader, chosen{t, s, toolList})
	if err == nil && len(out.Media.Keys) == 0 {
		reader.Forget() // an error may quote a message, a prompt is a copy
		m.readers.Put(reader)
	}
	return out, err
}

// chosen is what a request's messages are rendered with.
type chosen struct {
	*compiled
	settings settings
	tools    value.Value
}

// renderMessages reads the messages without copying them: a request's bytes do not change once it was sent.
func (m *Model) renderMessages(ctx context.Context, req *Request, reader *jinja.JSONReader, c chosen) (Result, error) {
	t, s := c.compiled, c.settings
	list := value.None
	if len(req.MessagesJSON) > 0 {
		var err error
		if list, err = reader.Shared(req.MessagesJSON); err != nil {
			return Result{}, refuse("messages", "is not valid JSON")
		}
	}
	n := normaliser{
		openai: m.format(t, req.Rules) == jinja.FormatOpenAI, rules: req.Rules,
		places: m.opts.Media, interleave: m.opts.Interleave,
	}
	conversation, err := n.messages(list, t.quotesDeveloper)
	if err != nil {
		return Result{}, err
	}
	text, err := m.render(ctx, t, s, conversationOf{conversation, c.tools})
	if err != nil {
		return Result{}, err
	}
	out := Result{Text: text, TemplateName: t.name, Format: n.formatName(), TimeDependent: t.timeDependent}
	if len(n.items) > 0 {
		out.Media, err = m.mediaOf(ctx, t, s, rendering{n: &n, list: list, tools: c.tools, text: text})
	}
	return out, err
}

// conversationOf is what a template is given of a request.
type conversationOf struct {
	messages []value.Value
	tools    value.Value
}

// requestTools normalises tools and checks tool_choice.
func (m *Model) requestTools(req *Request) (value.Value, error) {
	raw, err := parse("tools", req.ToolsJSON)
	if err != nil {
		return value.None, err
	}
	list, err := tools(raw)
	if err != nil {
		return value.None, err
	}
	choice, err := parse("tool_choice", req.ToolChoiceJSON)
	if err != nil {
		return value.None, err
	}
	if err := checkToolChoice(choice, list); err != nil {
		return value.None, err
	}
	if m.opts.ExcludeToolsWhenNone && choice.IsStr() && choice.AsStr() == "none" {
		return value.None, nil
	}
	return list, nil
}

// render runs the template, with the final message marked and cut where it is to be continued.
func (m *Model) render(ctx context.Context, t *compiled, s settings, c conversationOf) ([]byte, error) {
	final := ""
	if s.continueFinal {
		if !t.namesContent {
			return nil, refuse("continue_final_message", "the template does not print content")
		}
		var err error
		if c.messages, final, err = markFinal(c.messages); err != nil {
			return nil, err
		}
	}
	env := jinja.Env{Vars: m.variables(t, s, c), Now: m.opts.Now}
	text, err := t.tmpl.Render(ctx, make([]byte, 0, s.textBytes), env)
	if err != nil || !s.continueFinal {
		return text, err
	}
	return cutFinal(text, final)
}
