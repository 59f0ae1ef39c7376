// Command worker-adapter is the adapter of one vLLM process as a process of its own.
package main

import (
	"os"

	workeradapter "github.com/kvmesh/kvmesh/worker-adapter"

	"github.com/kvmesh/kvmesh/services/kit/boot"
)

func main() {
	os.Exit(boot.Main(boot.Spec[workeradapter.Config]{
		Name: "adapter", Title: "kvmesh's adapter of one vLLM worker: its card, its load, its cache.",
		ServerAddress: "tcp://127.0.0.1:8081", AdminAddress: "tcp://127.0.0.1:8082",
		UsesBus: true, New: workeradapter.Boot,
	}))
}
