// Package casetest runs executable cases of OpenAI API behaviour: a client's request, what scripted workers answer, what
// the client must get and what the workers must have received. The cases' format is kvmesh-openai-cases/1; a folder of
// cases has a README that explains it.
package casetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Case is one case. Bodies stay source text.
type Case struct {
	ID       string     `json:"id"`
	Group    string     `json:"group"`
	Title    string     `json:"title"`
	Basis    string     `json:"basis"`
	Why      string     `json:"why"`
	Level    string     `json:"level"`
	Source   []string   `json:"source"`
	Covers   []string   `json:"covers"`
	Requires []string   `json:"requires"`
	Setup    Setup      `json:"setup"`
	Request  Request    `json:"request"`
	Client   ClientPlan `json:"client"`
	Repeat   Repeat     `json:"repeat"`
	Worker   WorkerPlan `json:"worker"`
	Expect   Expect     `json:"expect"`
}

// Setup is what a case asks of the mesh's configuration.
type Setup struct {
	APIKeys              []string          `json:"api_keys"`
	WorkerAPIKey         string            `json:"worker_api_key"`
	ModelAliases         map[string]string `json:"model_aliases"`
	MaxBodyBytes         int64             `json:"max_body_bytes"`
	MaxChoices           int               `json:"max_choices"`
	MaxInflightPerWorker int               `json:"max_inflight_per_worker"`
	QueueLimit           *int              `json:"queue_limit"`
	QueueTimeoutMS       int               `json:"queue_timeout_ms"`
	Occupy               int               `json:"occupy"`
	RequestTimeoutMS     int               `json:"request_timeout_ms"`
	StreamIdleTimeoutMS  int               `json:"stream_idle_timeout_ms"`
	KeepaliveMS          int               `json:"keepalive_ms"`
	Retries              *int              `json:"retries"`
	RequestsPerMinute    int               `json:"requests_per_minute"`
	TokenizerDelayMS     int               `json:"tokenizer_delay_ms"`
	TemplateDelayMS      int               `json:"template_delay_ms"`
	TokenizerDown        bool              `json:"tokenizer_down"`
	TemplateDown         bool              `json:"template_down"`
	ChatTemplate         string            `json:"chat_template"`
	// HedgeDelayMS and ContinueStreams are the project's own: the schema of the shared cases does not have them.
	HedgeDelayMS    int  `json:"hedge_delay_ms"`
	ContinueStreams bool `json:"continue_streams"`
}

// Request is the client's request.
type Request struct {
	Method  string                     `json:"method"`
	Path    string                     `json:"path"`
	Headers map[string]json.RawMessage `json:"headers"`
	Chunked bool                       `json:"chunked"`
	Body    json.RawMessage            `json:"body"`
	RawBody *string                    `json:"raw_body"`
	HexBody string                     `json:"hex_body"`
	BodyGen *BodyGen                   `json:"body_gen"`
}

// BodyGen makes a long body.
type BodyGen struct {
	Template string `json:"template"`
	Fill     struct {
		Kind        string `json:"kind"`
		Unit        string `json:"unit"`
		ToBodyBytes int    `json:"to_body_bytes"`
		Count       int    `json:"count"`
		Join        string `json:"join"`
		Open        string `json:"open"`
		Core        string `json:"core"`
		Close       string `json:"close"`
		Depth       int    `json:"depth"`
	} `json:"fill"`
}

// ClientPlan is how the client misbehaves.
type ClientPlan struct {
	Disconnect *struct {
		AfterMS     int `json:"after_ms"`
		AfterEvents int `json:"after_events"`
	} `json:"disconnect"`
	Pause *struct {
		AfterEvents int `json:"after_events"`
		MS          int `json:"ms"`
	} `json:"pause"`
}

// Repeat sends the request many times.
type Repeat struct {
	Times          int  `json:"times"`
	Concurrency    int  `json:"concurrency"`
	SameConnection bool `json:"same_connection"`
	GapMS          int  `json:"gap_ms"`
}

// WorkerPlan is the fleet and its script.
type WorkerPlan struct {
	Models      []string          `json:"models"`
	Loras       map[string]string `json:"loras"`
	IdleCloseMS int               `json:"idle_close_ms"`
	Fleet       []Member          `json:"fleet"`
	Answers     []Answer          `json:"answers"`
}

// defaultModel is what workers serve whose case says nothing else.
const defaultModel = "acme/tiny-chat"

// AllModels are the base models of the plan's workers; a name may be there twice.
func (p *WorkerPlan) AllModels() []string {
	out := append([]string{defaultModel}, p.Models...)
	for _, m := range p.Fleet {
		out = append(out, m.Models...)
	}
	return out
}

// Member is one worker.
type Member struct {
	Name    string            `json:"name"`
	State   string            `json:"state"`
	Models  []string          `json:"models"`
	Loras   map[string]string `json:"loras"`
	Answers []Answer          `json:"answers"`
}

// Answer is one scripted answer.
type Answer struct {
	Kind         string                     `json:"kind"`
	DelayMS      int                        `json:"delay_ms"`
	Status       int                        `json:"status"`
	Headers      map[string]json.RawMessage `json:"headers"`
	Body         json.RawMessage            `json:"body"`
	RawBody      *string                    `json:"raw_body"`
	HexBody      string                     `json:"hex_body"` // the project's own
	Gzip         bool                       `json:"gzip"`
	Steps        []Step                     `json:"steps"`
	End          string                     `json:"end"`
	Auto         string                     `json:"auto"`
	Pieces       []string                   `json:"pieces"`
	Finish       string                     `json:"finish"`
	PromptTokens int                        `json:"prompt_tokens"`
	GapMS        int                        `json:"gap_ms"`
	Fault        string                     `json:"fault"`
}

// Step is one network write of a scripted stream, or a pause.
type Step struct {
	JSON   json.RawMessage `json:"json"`
	Raw    *string         `json:"raw"`
	Hex    string          `json:"hex"`
	WaitMS int             `json:"wait_ms"`
	Done   bool            `json:"done"`
	Gen    *struct {
		Count    int             `json:"count"`
		JSON     json.RawMessage `json:"json"`
		GapMS    int             `json:"gap_ms"`
		PadBytes int             `json:"pad_bytes"`
	} `json:"gen"`
}

// Load reads all cases of a folder, or of one file.
func Load(path string) ([]Case, error) {
	files := []string{path}
	if !strings.HasSuffix(path, ".json") {
		var err error
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	var out []Case
	for _, f := range files {
		if filepath.Base(f) == "schema.json" {
			continue
		}
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var doc struct {
			Format string `json:"format"`
			Cases  []Case `json:"cases"`
		}
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fmt.Errorf("read cases of %s: %w", f, err)
		}
		if doc.Format != "kvmesh-openai-cases/1" {
			return nil, fmt.Errorf("%s has the unknown format %q", f, doc.Format)
		}
		out = append(out, doc.Cases...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no cases in %s", path)
	}
	return out, nil
}

// compact is source text without the white space between tokens.
func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// headerLines is the values of a header in a case: null for none, text, or a list.
func headerLines(raw json.RawMessage) []string {
	var one string
	if json.Unmarshal(raw, &one) == nil && string(raw) != "null" {
		return []string{one}
	}
	var many []string
	_ = json.Unmarshal(raw, &many)
	return many
}
