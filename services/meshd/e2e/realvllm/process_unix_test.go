//go:build realvllm && unix

package realvllm

import (
	"os/exec"
	"syscall"
)

// group gives a program a process group: vLLM's engine is a child of its server.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// kill ends the program and its children without a goodbye, and waits.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}
