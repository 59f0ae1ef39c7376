// Command gateway is the OpenAI-compatible edge as a process of its own.
package main

import (
	"os"

	"github.com/kvmesh/kvmesh/gateway"
	"github.com/kvmesh/kvmesh/services/kit/boot"
)

func main() {
	os.Exit(boot.Main(boot.Spec[gateway.Config]{
		Name: "gateway", Title: "kvmesh's gateway: OpenAI's API in front of vLLM workers.",
		ServerAddress: "tcp://127.0.0.1:8081", AdminAddress: "tcp://127.0.0.1:8082", New: gateway.Boot,
	}))
}
