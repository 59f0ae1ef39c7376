package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// arm is one way from the client to the worker: a process, or several.
type arm struct {
	name  string
	addr  string
	admin string // of the first process, for profiles; empty for none
	told  bool   // it hears of the worker's cache
	procs []*process
}

// process is one of the started processes.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser // of a role; nil for other binaries
	out *bufio.Reader
}

// start runs the test binary in a role and returns the address it serves at.
func start(role, upstream string, environ ...string) (*process, string, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, upstreamVariable+"="+upstream)
	cmd.Env = append(cmd.Env, environ...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return nil, "", fmt.Errorf("start %s: %w", role, err)
	}
	return p, strings.TrimSpace(line), nil
}

// launch runs another binary, whose output goes to a file as that of a service does.
func launch(log *os.File, binary string, args ...string) (*process, error) {
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return &process{cmd: cmd}, cmd.Start()
}

// ask has a role do something and waits until it is done.
func (p *process) ask(what string) error {
	if _, err := fmt.Fprintln(p.in, what); err != nil {
		return err
	}
	_, err := p.out.ReadString('\n')
	return err
}

func (p *process) stop() {
	if p.in != nil {
		_ = p.in.Close()
	} else {
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	_ = p.cmd.Wait()
}

// cpu is the CPU time of all processes of the arm.
func (a *arm) cpu() (time.Duration, error) {
	var sum time.Duration
	for _, p := range a.procs {
		d, err := cpuTime(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

func (a *arm) stop() {
	for i := len(a.procs) - 1; i >= 0; i-- {
		a.procs[i].stop()
	}
}

// waitReady polls a path until it answers 200.
func waitReady(ctx context.Context, url string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(url)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.New(url + " did not get ready")
		case <-tick.C:
		}
	}
}
