package fakevllm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// healthLimit bounds the question of the health command.
const healthLimit = 3 * time.Second

// HealthCommand asks the worker that runs with the same configuration whether it serves: what an image's health check
// runs. Its exit code is the answer.
type HealthCommand struct {
	Config string `help:"The worker's configuration file, as serve reads it." type:"path"`
	Listen string `help:"The worker's HTTP address; wins over the file."`
}

// Run asks /health, as a load balancer asks vLLM, and prints "ready", or fails with the reason.
func (c *HealthCommand) Run(ctx context.Context) error {
	cfg, err := readConfig(c.Config)
	if err != nil {
		return err
	}
	over(&cfg.Listen, c.Listen)
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil || port == "0" {
		return errors.New("health: name the worker's address with --listen or in the file: its port is unknown")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // all interfaces are no place to dial
	}
	return askHealth(ctx, net.JoinHostPort(host, port))
}

// askHealth asks one worker once.
func askHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", http.NoBody)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("nobody answers at %s: %w", address, err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not healthy: it answers %s", address, resp.Status)
	}
	_, err = fmt.Fprintln(os.Stdout, "ready")
	return err
}
