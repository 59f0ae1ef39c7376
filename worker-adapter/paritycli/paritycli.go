// Package paritycli is the command `kvmesh parity`: does kvmesh make a worker's prompts as the worker does?
package paritycli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
	"github.com/kvmesh/kvmesh/services/kit/rpc"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/parity"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
)

// Command compares workers. It mounts into a kong grammar; its Run ends with the context.
type Command struct {
	Workers   []string `arg:"" optional:"" name:"url" help:"Base addresses of vLLM servers to compare now; none shows what the mesh's adapters found last."`
	Mesh      string   `help:"REST address of the mesh, for what its adapters found." default:"http://127.0.0.1:8080"`
	Template  string   `help:"gRPC address of the template service." default:"tcp://127.0.0.1:8181"`
	Tokenizer string   `help:"gRPC address of the tokenizer service." default:"tcp://127.0.0.1:8281"`
	MeshKey   string   `name:"mesh-key" help:"A key of the mesh, where it asks for one." env:"KVMESH_KEY"`
	APIKey    string   `name:"api-key" help:"The workers' key." env:"KVMESH_WORKER_API_KEY"`

	// Out takes the report; nil is standard output.
	Out io.Writer `kong:"-"`
}

// ErrDiffers means that at least one comparison failed.
var ErrDiffers = errors.New("prompts differ: token ids must not be sent to these workers, and cache hits are lost")

// ErrNothing means that not one comparison could be made.
var ErrNothing = errors.New("no prompt could be compared, see above; without addresses the command shows what the " +
	"mesh's own adapters found; --template and --tokenizer take the addresses of these services (a mesh in one process " +
	"opens them with --set template.server.address=tcp://127.0.0.1:8181 " +
	"--set tokenizer.server.address=tcp://127.0.0.1:8281)")

// Run compares and prints a table. The error is ErrDiffers when prompts differ, ErrNothing when none was compared.
func (c *Command) Run(ctx context.Context) error {
	if c.Out == nil {
		c.Out = os.Stdout
	}
	if len(c.Workers) == 0 {
		return c.found(ctx)
	}
	template, err := dial(c.Template)
	if err != nil {
		return err
	}
	defer func() { _ = template.Close() }()
	tokenizer, err := dial(c.Tokenizer)
	if err != nil {
		return err
	}
	defer func() { _ = tokenizer.Close() }()
	p := parity.Prober{
		Template: templatev1.NewTemplateServiceClient(template), Tokenizer: tokenizerv1.NewTokenizerServiceClient(tokenizer),
		Clock: time.Now,
	}
	differs := false
	for _, url := range c.Workers {
		bad, compared, err := c.worker(ctx, url, p)
		if err != nil {
			return err
		}
		if !compared {
			return fmt.Errorf("%w (asked the template service at %s and the tokenizer service at %s)", ErrNothing, c.Template,
				c.Tokenizer)
		}
		differs = differs || bad
	}
	if differs {
		return ErrDiffers
	}
	return nil
}

// dial connects to a service.
func dial(address string) (rpc.Conn, error) {
	return rpc.Dial(address, rpc.ClientConfig{}, rpc.ClientDeps{Log: slog.New(slog.DiscardHandler)})
}

// worker compares one worker and prints its table.
func (c *Command) worker(ctx context.Context, url string, p parity.Prober) (differs, compared bool, err error) {
	client, err := vllm.NewClient(url, c.APIKey)
	if err != nil {
		return false, false, err
	}
	defer client.Close()
	models, err := client.Models(ctx)
	if err != nil {
		return false, false, fmt.Errorf("ask %s for its models: %w", url, err)
	}
	base, ok := vllm.Base(models)
	if !ok {
		return false, false, fmt.Errorf("%s lists no base model", url)
	}
	version, err := client.Version(ctx)
	if err != nil && !errors.Is(err, vllm.ErrNoRoute) {
		return false, false, fmt.Errorf("ask %s for its version: %w", url, err)
	}
	p.Worker = client
	found := p.Probe(ctx, base.ID, version)
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tmodel %s\tvLLM %s\n", url, base.ID, version)
	differs, compared = table(w, found.Results)
	fmt.Fprintf(w, "  token ids\t%s\t\n", yesNo(found.TokenIDs))
	if err := w.Flush(); err != nil {
		return differs, compared, err
	}
	for _, r := range found.Results {
		if shown := found.Contexts[r.GetFeature()]; shown != "" {
			fmt.Fprintf(c.Out, "  %s: %s\n", r.GetFeature(), shown)
		}
	}
	return differs, compared, nil
}

// table prints results and sums them up.
func table(w io.Writer, results []*workerv1.ParityResult) (differs, compared bool) {
	for _, r := range results {
		state := strings.ToLower(strings.TrimPrefix(r.GetState().String(), "PARITY_STATE_"))
		if r.GetState() == workerv1.ParityState_PARITY_STATE_UNSPECIFIED {
			state = "unknown"
		} else {
			compared = true
		}
		differs = differs || r.GetState() == workerv1.ParityState_PARITY_STATE_DIFFERS
		fmt.Fprintf(w, "  %s\t%s\t%s\n", r.GetFeature(), state, r.GetDetail())
	}
	return differs, compared
}

// yesNo is how a switch reads.
func yesNo(on bool) string {
	if on {
		return "can be sent"
	}
	return "are not sent"
}
