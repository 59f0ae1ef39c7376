// Command template-svc is the template service as a process of its own.
package main

import (
	"context"
	"os"

	"github.com/kvmesh/kvmesh/services/kit/boot"
	templatesvc "github.com/kvmesh/kvmesh/template-svc"
)

func main() {
	os.Exit(boot.Main(boot.Spec[templatesvc.Config]{
		Name: "template", Title: "kvmesh's template service: chat requests to prompts.",
		ServerAddress: "tcp://127.0.0.1:8081", AdminAddress: "tcp://127.0.0.1:8082",
		New: func(ctx context.Context, cfg templatesvc.Config, deps boot.Deps) (boot.Service, error) {
			return templatesvc.New(ctx, cfg, templatesvc.Deps{Log: deps.Log, Registerer: deps.Registerer})
		},
	}))
}
