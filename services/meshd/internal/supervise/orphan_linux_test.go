package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/kittest"
)

// supervisorEnv makes the test binary a supervisor of sleeping processes.
const supervisorEnv = "SUPERVISE_SLEEPERS"

func TestMain(m *testing.M) {
	if n := os.Getenv(supervisorEnv); n != "" {
		count, _ := strconv.Atoi(n)
		if err := superviseSleepers(count); err != nil {
			fmt.Println(err)
		}
		return
	}
	kittest.Leak(m)
}

// superviseSleepers starts n processes, prints their ids, and waits to be killed. Threads come and go meanwhile: none of
// them may take a process with it.
func superviseSleepers(n int) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	path, err := exec.LookPath("sleep")
	if err != nil {
		return err
	}
	var rows []Process
	for i := range n {
		rows = append(rows, Process{
			Name: fmt.Sprint("sleeper-", i), Command: []string{filepath.Base(path), "600"}, Ready: lis.Addr().String(),
		})
	}
	set := New(filepath.Dir(path), rows, os.Stderr)
	for _, row := range rows { // each from a thread of its own that ends
		var started sync.WaitGroup
		started.Go(func() {
			runtime.LockOSThread()
			err = errors.Join(err, set.StartOne(context.Background(), row.Name))
		})
		started.Wait()
	}
	for _, r := range set.procs {
		fmt.Println(r.cmd.Process.Pid)
	}
	fmt.Println("end", err)
	runtime.KeepAlive(lis) // a listener that nothing refers to is closed with the next collection
	select {}
}

// TestSupervisorsDeathEndsItsProcesses: a supervisor that is killed leaves nothing behind.
func TestSupervisorsDeathEndsItsProcesses(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), supervisorEnv+"=3")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var pids []int
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "end") {
		pid, err := strconv.Atoi(lines.Text())
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	require.Equal(t, "end <nil>", lines.Text())
	require.Len(t, pids, 3)
	for _, pid := range pids {
		require.True(t, sleeps(pid), "%d lives while its supervisor does", pid)
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	for _, pid := range pids {
		kittest.Eventually(t, func() error {
			if sleeps(pid) {
				return fmt.Errorf("process %d outlives its supervisor", pid)
			}
			return nil
		})
	}
}

// sleeps is true while a process of that number is one of the sleepers; a zombie has no command line.
func sleeps(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.HasSuffix(string(text), "sleep\x00600\x00")
}

// TestStopAndRestart: what ends by itself is told and started again; what was stopped stays so.
func TestStopAndRestart(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer lis.Close()
	path, err := exec.LookPath("sleep")
	require.NoError(t, err)
	row := func(name string, needs ...string) Process {
		return Process{
			Name: name, Command: []string{filepath.Base(path), "600"}, Ready: lis.Addr().String(), Needs: needs,
		}
	}
	set := New(filepath.Dir(path), []Process{row("a"), row("b", "a")}, os.Stderr)
	require.NoError(t, set.Check())
	require.NoError(t, set.Start(t.Context()))
	said := make(chan string, 4)
	tending, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		set.Tend(tending, func(text string) { said <- text })
	}()
	first := set.pid("a")
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.Contains(t, kittest.Recv(t, said), "a ended by itself")
	kittest.Eventually(t, func() error {
		if now := set.pid("a"); now == 0 || now == first {
			return errors.New("not started again")
		}
		return nil
	})
	stop()
	kittest.Closed(t, done)
	require.NoError(t, set.Signal("b", syscall.SIGKILL))
	require.NoError(t, set.Wait(t.Context(), "b"))
	require.ErrorContains(t, set.Signal("b", syscall.SIGTERM), "does not run")
	require.NoError(t, set.Stop(t.Context()))
	require.Zero(t, set.pid("a"))
	require.Empty(t, said)
	_, err = set.row("c")
	require.Error(t, err)
	require.ErrorContains(t, set.StartOne(t.Context(), "c"), "no process")
	require.ErrorContains(t, New(filepath.Dir(path), []Process{row("b", "a")}, os.Stderr).Start(t.Context()), "needs a")
	require.ErrorContains(t, New(t.TempDir(), []Process{row("a")}, os.Stderr).Check(), "make build")
}

// pid is a process's number, or 0.
func (s *Set) pid(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.procs[name]; r != nil {
		return r.cmd.Process.Pid
	}
	return 0
}
