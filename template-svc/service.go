// Package templatesvc is the service that renders chat requests to prompts.
//
// It owns the models' chat templates: it reads them from model folders, applies vLLM's message rules (internal/chat)
// and runs the templates (internal/jinja). It keeps no state of requests and writes no prompt text anywhere.
package templatesvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	"github.com/kvmesh/kvmesh/services/kit/deadline"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/template-svc/internal/chat"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
)

// Deps is what the service is given; the giver closes it.
type Deps struct {
	Log        *slog.Logger
	Registerer prometheus.Registerer
	// Now is the clock of templates that print the date; nil means time.Now.
	Now func() time.Time
}

// Service implements kvmesh.template.v1.TemplateService.
type Service struct {
	templatev1.UnimplementedTemplateServiceServer
	cfg     Config
	catalog *catalog
	renders *prometheus.CounterVec
	good    prometheus.Counter // of renders, bound to its label
	seconds prometheus.Histogram
}

// New makes the service; models are read by Run.
func New(_ context.Context, cfg Config, deps Deps) (*Service, error) {
	cfg.SetDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("template config: %w", err)
	}
	zone, err := time.LoadLocation(cfg.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("time zone: %w", err)
	}
	if cfg.TimeZone == "" {
		zone = time.Local
	}
	now := deps.Now
	if now == nil {
		now = time.Now
	}
	s := &Service{
		cfg:     cfg,
		catalog: newCatalog(cfg, func() time.Time { return now().In(zone) }, deps.Log),
		renders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kvmesh_template_renders_total", Help: "Renders by result.",
		}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kvmesh_template_render_seconds", Help: "Time of one render, message rules included.",
			Buckets: []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1, 1},
		}),
	}
	s.good = s.renders.WithLabelValues("ok")
	for _, c := range []prometheus.Collector{s.renders, s.seconds} {
		if err := deps.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return s, nil
}

// Register adds the service to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { templatev1.RegisterTemplateServiceServer(r, s) }

// Run reads the models and follows their files until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	s.catalog.run(ctx)
	<-ctx.Done()
	return nil
}

// Ready is nil once every model's files have been read, well or not.
func (s *Service) Ready(context.Context) error {
	if left := s.catalog.loading(); len(left) > 0 {
		return fmt.Errorf("templates are still loading: %s", strings.Join(left, ", "))
	}
	return nil
}

// Render answers with the prompt of one chat request.
func (s *Service) Render(ctx context.Context, r *templatev1.RenderRequest) (*templatev1.RenderResponse, error) {
	e, ok := s.catalog.get(r.GetModel())
	if !ok {
		return nil, s.failed(fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "no templates for this model"))
	}
	switch {
	case e.state == templatev1.ModelState_MODEL_STATE_LOADING:
		return nil, s.failed(fault.New(faultv1.Reason_REASON_MODEL_LOADING, "the model's templates are being read"))
	case e.model == nil:
		return nil, s.failed(fault.New(faultv1.Reason_REASON_UNSUPPORTED_MODEL, "%s", e.detail))
	}
	bounded := deadline.With(ctx, s.cfg.RenderTimeout)
	defer bounded.End()
	start := time.Now()
	result, err := e.model.Render(bounded, requestOf(r, e.version))
	s.seconds.Observe(time.Since(start).Seconds())
	if err != nil {
		return nil, s.failed(faultOf(err))
	}
	s.good.Inc()
	return responseOf(result), nil
}

// failed counts a fault.
func (s *Service) failed(f *fault.Error) error {
	s.renders.WithLabelValues(strings.ToLower(fault.Name(f.Reason))).Inc()
	return f
}

// requestOf translates the wire form. version is the workers' where the request names none.
func requestOf(r *templatev1.RenderRequest, version string) *chat.Request {
	if r.GetWorkerVersion() != "" {
		version = r.GetWorkerVersion()
	}
	return &chat.Request{
		MessagesJSON: r.GetMessagesJson(), ToolsJSON: r.GetToolsJson(), ToolChoiceJSON: r.GetToolChoiceJson(),
		ChatTemplateKwargsJSON: r.GetChatTemplateKwargsJson(), DocumentsJSON: r.GetDocumentsJson(),
		ChatTemplate: r.ChatTemplate, AddGenerationPrompt: r.AddGenerationPrompt,
		ContinueFinalMessage: r.ContinueFinalMessage, ReasoningEffort: r.ReasoningEffort,
		Rules: chat.RulesFor(version),
	}
}

// responseOf translates the result.
func responseOf(r chat.Result) *templatev1.RenderResponse {
	out := &templatev1.RenderResponse{
		Text: r.Text, TemplateName: r.TemplateName, TimeDependent: r.TimeDependent, ContentFormat: formatOf(r.Format),
		Cuts: r.Cuts,
	}
	out.ExactBytes, out.MediaKeys = uint32(r.Media.ExactBytes), r.Media.Keys
	for _, p := range r.Media.Rest {
		if p.Key == "" {
			out.Rest = append(out.Rest, &templatev1.PromptPiece{Piece: &templatev1.PromptPiece_Text{Text: p.Text}})
			continue
		}
		out.Rest = append(out.Rest, &templatev1.PromptPiece{Piece: &templatev1.PromptPiece_MediaKey{MediaKey: p.Key}})
	}
	return out
}

// formatOf translates a content format.
func formatOf(format string) templatev1.ContentFormat {
	switch format {
	case jinja.FormatString:
		return templatev1.ContentFormat_CONTENT_FORMAT_STRING
	case jinja.FormatOpenAI:
		return templatev1.ContentFormat_CONTENT_FORMAT_OPENAI
	}
	return templatev1.ContentFormat_CONTENT_FORMAT_UNSPECIFIED
}

// faultOf gives an error of the chat layer its reason. A template's own message may repeat prompt text, so only the
// exception's type travels.
func faultOf(err error) *fault.Error {
	var refusal *chat.Refusal
	var limit *jinja.LimitError
	var raised *jinja.Error
	var unsupported *chat.Unsupported
	switch {
	case errors.As(err, &unsupported):
		return fault.New(faultv1.Reason_REASON_UNSUPPORTED_MODEL, "%s", unsupported.Why)
	case errors.As(err, &refusal):
		return fault.New(faultv1.Reason_REASON_INVALID_REQUEST, "%s", refusal.Message).WithParam(refusal.Param)
	case errors.As(err, &limit):
		return fault.New(faultv1.Reason_REASON_TEMPLATE_LIMIT, "%s", limit.Error())
	case errors.As(err, &raised):
		return fault.New(faultv1.Reason_REASON_TEMPLATE_FAILED, "the template raised %s at line %d", raised.Type, raised.Line)
	}
	return fault.From(err)
}

// ListModels tells which models can be rendered, and why others cannot.
func (s *Service) ListModels(
	context.Context, *templatev1.ListModelsRequest,
) (*templatev1.ListModelsResponse, error) {
	out := &templatev1.ListModelsResponse{}
	for _, id := range s.catalog.ids() {
		e, _ := s.catalog.get(id)
		m := &templatev1.TemplateModel{Model: id, State: e.state, Detail: e.detail}
		if e.model != nil {
			m.TemplateNames = e.model.Names()
			m.ContentFormat = formatOf(e.model.DefaultFormat())
		}
		out.Models = append(out.Models, m)
	}
	return out, nil
}
