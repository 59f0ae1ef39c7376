// Command worker-adapter is the adapter of one vLLM process as a process of its own.
package main

import (
	"os"

	"github.com/kvmesh/kvmesh/services/kit/boot"
	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"
)

func main() { os.Exit(boot.Main(workeradapter.Binary())) }
