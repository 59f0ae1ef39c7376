//go:build unix && !linux

package supervise

import "syscall"

// attributes give a process a group of its own, because a terminal's Ctrl-C is for the supervisor alone, which stops the
// rest in order. Only Linux can end it when the supervisor dies without having stopped it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
