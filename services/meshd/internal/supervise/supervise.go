// Package supervise runs a mesh as separate processes on one machine: the binaries that deploy/compose/compose.yaml
// names, with its environment and configuration file, a real NATS server among them. It starts them in the order of
// their needs, starts again what dies, and stops them in reverse.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// startLimit bounds one process's start: a tokenizer's files may be large.
	startLimit = 2 * time.Minute
	// stopGrace is how long a process may drain before it is killed; it is longer than the gateway's drain.
	stopGrace = 40 * time.Second
	// readyPoll is the pause between two looks at a process that starts.
	readyPoll = 50 * time.Millisecond
	// restartPause keeps a process that dies at once from spinning.
	restartPause = time.Second
)

// Process is one row of the table.
type Process struct {
	// Name is the compose file's service.
	Name string
	// Command is a binary's name and its arguments.
	Command []string
	// Env is what the process gets beside the supervisor's own environment, as NAME=value.
	Env []string
	// Needs are processes that are ready before this one starts.
	Needs []string
	// Ready is an admin address (tcp://…), asked at /readyz; or a plain host:port that must accept connections.
	Ready string
}

// Set is a number of running processes.
type Set struct {
	dir   string
	errs  io.Writer
	rows  []Process
	mu    sync.Mutex
	procs map[string]*running
	// ended gets the name of each process that ended without being asked to.
	ended chan string
}

// running is one life of a process. Its goroutine ends when the process has.
type running struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	quit bool          // it was asked to end; guarded by Set.mu
}

// New makes a set of the rows, whose binaries are in dir. Output of the processes goes to errs.
func New(dir string, rows []Process, errs io.Writer) *Set {
	return &Set{dir: dir, rows: rows, errs: errs, procs: map[string]*running{}, ended: make(chan string, len(rows))}
}

// Check names the binaries that are missing.
func (s *Set) Check() error {
	var missing []error
	seen := map[string]bool{}
	for _, row := range s.rows {
		if path := filepath.Join(s.dir, row.Command[0]); !seen[path] {
			seen[path] = true
			if _, err := os.Stat(path); err != nil {
				missing = append(missing, fmt.Errorf("%s is missing: build it with make build", path))
			}
		}
	}
	return errors.Join(missing...)
}

// Start starts every process in turn and waits until each is ready.
func (s *Set) Start(ctx context.Context) error {
	for _, row := range s.rows {
		for _, need := range row.Needs {
			if !s.runs(need) {
				return fmt.Errorf("%s needs %s, which comes later in the table", row.Name, need)
			}
		}
		if err := s.StartOne(ctx, row.Name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) runs(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.procs[name] != nil
}

func (s *Set) row(name string) (Process, error) {
	for _, row := range s.rows {
		if row.Name == name {
			return row, nil
		}
	}
	return Process{}, fmt.Errorf("no process %q", name)
}

// StartOne starts one process and waits until it is ready.
func (s *Set) StartOne(ctx context.Context, name string) error {
	row, err := s.row(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.dir, row.Command[0]), row.Command[1:]...)
	cmd.Env = append(os.Environ(), row.Env...)
	cmd.Stdout, cmd.Stderr = s.errs, s.errs
	cmd.SysProcAttr = attributes()
	r := &running{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go s.live(name, r, started)
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return s.awaitReady(ctx, row, r)
}

// live starts a process, reaps it, and reports an end that nobody asked for. It keeps its thread as long as the process
// lives: Linux tells a child of its parent's death when the thread that started it ends.
func (s *Set) live(name string, r *running, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s.mu.Lock()
	err := r.cmd.Start()
	if err == nil {
		s.procs[name] = r
	}
	s.mu.Unlock()
	started <- err
	if err != nil {
		return
	}
	_ = r.cmd.Wait()
	s.mu.Lock()
	asked := r.quit
	if s.procs[name] == r {
		delete(s.procs, name)
	}
	s.mu.Unlock()
	close(r.done)
	if !asked {
		select {
		case s.ended <- name:
		default: // as many reports as rows wait already
		}
	}
}

// awaitReady polls until the process is ready, ends, or ctx does.
func (s *Set) awaitReady(ctx context.Context, row Process, r *running) error {
	for {
		err := probe(ctx, row.Ready)
		if err == nil {
			return nil
		}
		select {
		case <-r.done:
			return fmt.Errorf("%s ended while starting; its last lines say why", row.Name)
		case <-ctx.Done():
			return fmt.Errorf("%s did not become ready: %w", row.Name, err)
		case <-time.After(readyPoll):
		}
	}
}

// Signal sends a signal to one process; SIGKILL is a crash.
func (s *Set) Signal(name string, sig syscall.Signal) error {
	s.mu.Lock()
	r := s.procs[name]
	if r != nil {
		r.quit = true
	}
	s.mu.Unlock()
	if r == nil {
		return fmt.Errorf("%s does not run", name)
	}
	return r.cmd.Process.Signal(sig)
}

// StopOne ends one process: SIGTERM, and SIGKILL when it outlives the grace or ctx.
func (s *Set) StopOne(ctx context.Context, name string) error {
	s.mu.Lock()
	r := s.procs[name]
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	if err := s.Signal(name, syscall.SIGTERM); err != nil {
		return nil // it has ended in between
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
	}
	_ = r.cmd.Process.Kill()
	<-r.done
	return fmt.Errorf("%s did not end in time and was killed", name)
}

// Wait returns when a process has ended.
func (s *Set) Wait(ctx context.Context, name string) error {
	s.mu.Lock()
	r := s.procs[name]
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop ends all processes, the last started first.
func (s *Set) Stop(ctx context.Context) error {
	var errs []error
	for _, row := range slices.Backward(s.rows) {
		errs = append(errs, s.StopOne(ctx, row.Name))
	}
	return errors.Join(errs...)
}

// Tend starts again what ends by itself, until ctx ends. say is told of each.
func (s *Set) Tend(ctx context.Context, say func(string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-s.ended:
			say(name + " ended by itself; starting it again")
			select {
			case <-ctx.Done():
				return
			case <-time.After(restartPause):
			}
			if err := s.StartOne(ctx, name); err != nil && ctx.Err() == nil {
				say(err.Error())
			}
		}
	}
}
