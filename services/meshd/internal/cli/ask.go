package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"
)

// answerLimit bounds one question to a mesh, maxAnswerBytes its answer.
const (
	answerLimit    = 30 * time.Second
	maxAnswerBytes = 64 << 20
)

// meshFlags say which mesh is asked.
type meshFlags struct {
	URL  string `help:"REST address of the mesh." default:"http://127.0.0.1:8080" env:"KVMESH_URL"`
	Key  string `help:"API key, where the mesh wants one." env:"KVMESH_KEY"`
	JSON bool   `name:"json" help:"Print the mesh's own JSON."`
}

// ask sends a request and gives the body of a good answer.
func (f meshFlags) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(f.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if f.Key != "" {
		req.Header.Set("Authorization", "Bearer "+f.Key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("nobody answers at %s: is the mesh up? (%w)", f.URL, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the mesh answers %s: %s", resp.Status, message(raw))
	}
	return raw, nil
}

// message takes the sentence out of an OpenAI error object.
func message(raw []byte) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &body) == nil && body.Error.Message != "" {
		return body.Error.Message
	}
	return strings.TrimSpace(string(raw))
}

// indent prints JSON for reading.
func indent(out io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, b.String())
	return err
}

// modelsCommand is `kvmesh models`.
type modelsCommand struct{ meshFlags }

// Run lists the models.
func (c *modelsCommand) Run(ctx context.Context, p *Process) error {
	raw, err := c.ask(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return err
	}
	if c.JSON {
		return indent(p.Stdout, raw)
	}
	var list struct {
		Data []struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent"`
			Length *int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tPARENT\tMAX TOKENS")
	for _, m := range list.Data {
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.ID, orDash(m.Parent), orDash(m.Length))
	}
	return w.Flush()
}

// orDash prints a value that may be absent.
func orDash[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}

// workersCommand is `kvmesh workers`.
type workersCommand struct{ meshFlags }

// workerRow is the part of a worker's view that is listed.
type workerRow struct {
	Card struct {
		ID          string `json:"worker_id"`
		URL         string `json:"http_url"`
		State       string `json:"state"`
		EventState  string `json:"event_state"`
		EventDetail string `json:"event_detail"`
		Version     string `json:"version"`
	} `json:"card"`
	Rank      int         `json:"rank"`
	Certainty string      `json:"certainty"`
	Units     json.Number `json:"units"`
	Inflight  int         `json:"inflight"`
	Breaker   string      `json:"breaker"`
}

// Run lists the workers.
func (c *workersCommand) Run(ctx context.Context, p *Process) error {
	raw, err := c.ask(ctx, http.MethodGet, "/kvmesh/v1/workers", nil)
	if err != nil {
		return err
	}
	if c.JSON {
		return indent(p.Stdout, raw)
	}
	var list struct {
		Workers []workerRow `json:"workers"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WORKER\tRANK\tSTATE\tEVENTS\tCERTAINTY\tUNITS\tIN FLIGHT\tBREAKER\tVERSION\tADDRESS")
	for _, r := range list.Workers {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.Card.ID, r.Rank, word(r.Card.State),
			word(r.Card.EventState), word(r.Certainty), r.Units, r.Inflight, r.Breaker, r.Card.Version, r.Card.URL)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range list.Workers {
		if r.Card.EventDetail != "" {
			fmt.Fprintf(p.Stdout, "%s: %s\n", r.Card.ID, r.Card.EventDetail)
		}
	}
	return nil
}

// word turns WORKER_STATE_READY into ready.
func word(enum string) string {
	for _, prefix := range []string{"WORKER_STATE_", "EVENT_STATE_", "CERTAINTY_", "OUTCOME_", "ATTEMPT_KIND_"} {
		if rest, ok := strings.CutPrefix(enum, prefix); ok {
			return strings.ReplaceAll(strings.ToLower(rest), "_", " ")
		}
	}
	return enum
}

// routeCommand is `kvmesh route`.
type routeCommand struct {
	meshFlags
	Request string `arg:"" help:"JSON file with a chat or completion request; - for standard input."`
}

// Run explains a route.
func (c *routeCommand) Run(ctx context.Context, p *Process) error {
	body, err := readRequest(c.Request, p.Stdin)
	if err != nil {
		return err
	}
	raw, err := c.ask(ctx, http.MethodPost, "/kvmesh/v1/explain", body)
	if err != nil {
		return err
	}
	if c.JSON {
		return indent(p.Stdout, raw)
	}
	var answer struct {
		Receipt receiptView `json:"receipt"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	return answer.Receipt.print(p.Stdout)
}

func readRequest(path string, in io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(in, maxAnswerBytes))
	}
	return os.ReadFile(path)
}

// receiptCommand is `kvmesh receipt`.
type receiptCommand struct {
	meshFlags
	ID string `arg:"" help:"Request id, as in the x-request-id header."`
}

// Run shows a receipt.
func (c *receiptCommand) Run(ctx context.Context, p *Process) error {
	raw, err := c.ask(ctx, http.MethodGet, "/kvmesh/v1/receipts/"+url.PathEscape(c.ID), nil)
	if err != nil {
		return err
	}
	if c.JSON {
		return indent(p.Stdout, raw)
	}
	var answer struct {
		Receipts []receiptView `json:"receipts"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	for i := range answer.Receipts {
		if err := answer.Receipts[i].print(p.Stdout); err != nil {
			return err
		}
	}
	return nil
}
