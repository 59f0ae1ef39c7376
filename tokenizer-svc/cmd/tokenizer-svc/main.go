// Command tokenizer-svc is the tokenizer service as a process of its own.
package main

import (
	"context"
	"os"

	"github.com/kvmesh/kvmesh/services/kit/boot"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
)

func main() {
	os.Exit(boot.Main(boot.Spec[tokenizersvc.Config]{
		Name: "tokenizer", Title: "kvmesh's tokenizer service: prompts to token ids and unit hashes.",
		ServerAddress: "tcp://127.0.0.1:8081", AdminAddress: "tcp://127.0.0.1:8082",
		New: func(ctx context.Context, cfg tokenizersvc.Config, deps boot.Deps) (boot.Service, error) {
			return tokenizersvc.New(ctx, cfg, tokenizersvc.Deps{Log: deps.Log, Registerer: deps.Registerer})
		},
	}))
}
