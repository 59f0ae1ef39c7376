package templatesvc

import (
	"fmt"
	"net/url"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja"
)

// Config is the section "template" of a deployment's file.
type Config struct {
	// Models are the models whose requests can be rendered.
	Models []ModelConfig `yaml:"models" doc:"Models by id, with their folders and the workers' template settings."`
	// RenderTimeout bounds one render; the gateway falls back to routing without a prompt when it passes.
	RenderTimeout time.Duration `yaml:"render_timeout" doc:"Longest time for one render."`
	// ReloadInterval is how often the model folders are looked at for changes; negative means never again after a load.
	// Changed files are read when two looks in a row see them alike, and thrown away if they change while they are
	// read: a file that is written in place is not read half. Files that are renamed into place are safe however they were written.
	ReloadInterval time.Duration `yaml:"reload_interval" doc:"How often model folders are looked at for changes, which are read once two looks see them alike; negative for never again after a load."`
	// TimeZone is the workers' time zone, for templates that print the date; empty means this machine's.
	TimeZone string `yaml:"time_zone" doc:"Time zone of the workers, such as UTC or Europe/Zurich; empty for this machine's."`
	// Limits bounds templates, which are programs of others.
	Limits LimitConfig `yaml:"limits" doc:"Bounds on templates; 0 takes the default."`
}

// ModelConfig is one model, with the settings its workers were started with.
type ModelConfig struct {
	// Name is the model id that requests use.
	Name string `yaml:"name" doc:"Model id as the workers serve it."`
	// Path is a model folder or a Hugging Face cache folder.
	Path string `yaml:"path" doc:"Model folder in Hugging Face layout, or a cache folder."`
	// Worker is a vLLM server that is asked for the template where there are no files.
	Worker string `yaml:"worker" doc:"Base URL of a worker to ask for the template, instead of a path; it needs --enable-tokenizer-info-endpoint."`
	// Architecture stands for config.json where there is none.
	Architecture string `yaml:"architecture" doc:"With worker: the model's architecture as in config.json, for media and formats that are not Jinja."`
	// ChatTemplate is the worker's --chat-template: a file.
	ChatTemplate string `yaml:"chat_template" doc:"File given to the workers as --chat-template; empty for the model's own."`
	// VLLMVersion picks older message rules for requests that name no worker; empty means the newest known.
	VLLMVersion string `yaml:"vllm_version" doc:"Version of the workers' vLLM, such as 0.30.0; empty for the newest rules."`
	// ContentFormat is the worker's --chat-template-content-format.
	ContentFormat string `yaml:"content_format" doc:"auto, string or openai, as --chat-template-content-format."`
	// DefaultKwargs is the worker's --default-chat-template-kwargs: a JSON object.
	DefaultKwargs string `yaml:"default_kwargs" doc:"JSON object given as --default-chat-template-kwargs."`
	// InterleaveMMStrings is the worker's --interleave-mm-strings.
	InterleaveMMStrings bool `yaml:"interleave_mm_strings" doc:"True with --interleave-mm-strings."`
	// TrustRequestTemplate is the worker's --trust-request-chat-template.
	TrustRequestTemplate bool `yaml:"trust_request_template" doc:"True with --trust-request-chat-template."`
	// ExcludeToolsWhenNone is the worker's --exclude-tools-when-tool-choice-none.
	ExcludeToolsWhenNone bool `yaml:"exclude_tools_when_none" doc:"True with --exclude-tools-when-tool-choice-none."`
}

// LimitConfig mirrors the engine's limits; zero means the default.
type LimitConfig struct {
	SourceBytes int   `yaml:"source_bytes" doc:"Longest template source in bytes."`
	Depth       int   `yaml:"depth" doc:"Deepest nesting of source, values, macro calls and recursive loops."`
	Steps       int64 `yaml:"steps" doc:"Statements, rounds and calls of one render."`
	MadeBytes   int64 `yaml:"made_bytes" doc:"Bytes of text and lists made in one render."`
	JSONDepth   int   `yaml:"json_depth" doc:"Deepest nesting of JSON members and of tojson."`
	// PaddingBytes bounds one padding, PowerBits one integer: both are made by a few characters of a template.
	PaddingBytes int64 `yaml:"padding_bytes" doc:"Widest single padding or indent."`
	PowerBits    int64 `yaml:"power_bits" doc:"Largest integer a template may compute, in bits."`
}

// validate refuses negative limits: no render could pass them.
func (c LimitConfig) validate(faults *conf.Faults) {
	for name, v := range map[string]int64{
		"source_bytes": int64(c.SourceBytes), "depth": int64(c.Depth), "steps": c.Steps, "made_bytes": c.MadeBytes,
		"json_depth": int64(c.JSONDepth), "padding_bytes": c.PaddingBytes, "power_bits": c.PowerBits,
	} {
		faults.Require(v >= 0, "limits."+name, "must not be negative")
	}
}

// SetDefaults fills what is empty.
func (c *Config) SetDefaults() {
	conf.Default(&c.RenderTimeout, time.Second)
	conf.Default(&c.ReloadInterval, 10*time.Second)
	for i := range c.Models {
		conf.Default(&c.Models[i].ContentFormat, "auto")
	}
}

// Validate reports every fault at once, each with its path.
func (c *Config) Validate() error {
	var faults conf.Faults
	seen := map[string]bool{}
	for i, m := range c.Models {
		at := fmt.Sprintf("models[%d]", i)
		faults.Require(m.Name != "", at+".name", "must not be empty")
		faults.Require(m.Path != "" || m.ChatTemplate != "" || m.Worker != "", at+".path", "must name a model folder")
		faults.Require(m.Path == "" || m.Worker == "", at, "set one of path and worker")
		faults.Require(m.Worker == "" || isHTTP(m.Worker), at+".worker", "not an http or https address")
		faults.Require(!seen[m.Name], at+".name", "%q is there twice", m.Name)
		seen[m.Name] = true
		switch m.ContentFormat {
		case "", "auto", jinja.FormatString, jinja.FormatOpenAI:
		default:
			faults.Add(at+".content_format", "%q is none of auto, string, openai", m.ContentFormat)
		}
	}
	c.Limits.validate(&faults)
	faults.Require(c.RenderTimeout > 0, "render_timeout", "must be positive")
	if _, err := time.LoadLocation(c.TimeZone); err != nil {
		faults.Add("time_zone", "%v", err)
	}
	return faults.Err()
}

// isHTTP tests for a base address.
func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// limits gives the engine's limits.
func (c LimitConfig) limits() jinja.Limits {
	return jinja.Limits{
		SourceBytes: c.SourceBytes, Depth: c.Depth, Steps: c.Steps, MadeBytes: c.MadeBytes, JSONDepth: c.JSONDepth,
		PaddingBytes: c.PaddingBytes, PowerBits: c.PowerBits,
	}
}
