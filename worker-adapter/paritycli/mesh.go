package paritycli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	workerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/worker/v1"
)

const (
	// meshTimeout bounds the question to the mesh.
	meshTimeout = 5 * time.Second
	// maxFleetBytes bounds its answer: a card has a few KiB.
	maxFleetBytes = 64 << 20
)

// found prints what the mesh's adapters found when their workers started and since: it needs nothing but the gateway,
// in one process or in many.
func (c *Command) found(ctx context.Context) error {
	fleet, err := c.fleet(ctx)
	if err != nil {
		return fmt.Errorf("ask the mesh at %s: %w (is it running? --mesh takes its address; give the addresses of workers "+
			"to compare them without a mesh)", c.Mesh, err)
	}
	differs, compared, seen := false, false, map[string]bool{}
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for _, worker := range fleet.GetWorkers() {
		card := worker.GetCard()
		if seen[card.GetWorkerId()] { // another rank of it
			continue
		}
		seen[card.GetWorkerId()] = true
		fmt.Fprintf(w, "%s\tvLLM %s\t%s\n", card.GetWorkerId(), card.GetVersion(), when(card.GetParity()))
		bad, any := table(w, card.GetParity())
		differs, compared = differs || bad, compared || any
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case len(seen) == 0:
		return errors.New("the mesh has no workers")
	case differs:
		return ErrDiffers
	case !compared:
		return ErrNothing
	}
	return nil
}

// fleet asks the gateway for its workers.
func (c *Command) fleet(ctx context.Context) (*schedulerv1.ListWorkersResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, meshTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(c.Mesh, "/")+"/kvmesh/v1/workers", http.NoBody)
	if err != nil {
		return nil, err
	}
	if c.MeshKey != "" {
		req.Header.Set("Authorization", "Bearer "+c.MeshKey)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers with status %d", resp.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxFleetBytes))
	if err != nil {
		return nil, err
	}
	var fleet schedulerv1.ListWorkersResponse
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &fleet); err != nil {
		return nil, errors.New("it does not answer as a mesh")
	}
	return &fleet, nil
}

// when says how old the newest of the results is.
func when(results []*workerv1.ParityResult) string {
	newest := time.Time{}
	for _, r := range results {
		if t := r.GetTested().AsTime(); r.GetTested() != nil && t.After(newest) {
			newest = t
		}
	}
	if newest.IsZero() {
		return "not compared yet"
	}
	return "compared " + newest.UTC().Format(time.RFC3339)
}
