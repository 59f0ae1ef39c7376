package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// meshVariable is the all-in-one binary; with it the whole mesh is a third arm: rendering, tokenising, hashing, routing and
// events in the same process as the gateway.
const meshVariable = "KVMESH_BENCH_MESH"

// clockTick is the unit of /proc/PID/stat on Linux.
const clockTick = 10 * time.Millisecond

// startMesh runs the binary in front of the mock worker and waits until it is ready.
func startMesh(binary, upstream, dir string) (*process, error) {
	model, err := filepath.Abs(filepath.Join("..", "..", "deploy", "demo-model"))
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := fmt.Sprintf("bus: {url: embedded}\ngateway: {address: %q, server: {address: \"mem://gateway\"}}\n"+
		"mesh:\n  admin: {address: \"tcp://127.0.0.1:0\"}\n  models: [{name: bench, path: %q}]\n  workers: [{id: w0, url: \"http://%s\"}]\n",
		addr, model, upstream)
	path := filepath.Join(dir, "mesh.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, "up", "--config", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{addr: addr, cmd: cmd, in: in, outside: true}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := p.waitReady(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("%w: %s", err, out.String())
	}
	return p, nil
}

func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return ln.Addr().String(), ln.Close()
}

// waitReady polls the ready path.
func (p *process) waitReady(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get("http://" + p.addr + "/ready")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("the mesh did not get ready")
		case <-tick.C:
		}
	}
}

// usageFromProc reads CPU time and resident KB of a process that cannot be asked.
func (p *process) usageFromProc() (time.Duration, int, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 22 {
		return 0, 0, errors.New("odd /proc/PID/stat")
	}
	var ticks, pages int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ticks += n
	}
	pages, err = strconv.ParseInt(fields[21], 10, 64)
	return time.Duration(ticks) * clockTick, int(pages) * os.Getpagesize() / 1024, err
}
