// Command scheduler-svc is the scheduler as a process of its own.
package main

import (
	"context"
	"os"

	schedulersvc "github.com/kvmesh/kvmesh/scheduler-svc"
	"github.com/kvmesh/kvmesh/services/kit/boot"
)

func main() {
	os.Exit(boot.Main(boot.Spec[schedulersvc.Config]{
		Name: "scheduler", Title: "kvmesh's scheduler: who holds which block, and where a request should go.",
		ServerAddress: "tcp://127.0.0.1:8081", AdminAddress: "tcp://127.0.0.1:8082", UsesBus: true,
		New: func(ctx context.Context, cfg schedulersvc.Config, deps boot.Deps) (boot.Service, error) {
			return schedulersvc.New(ctx, cfg, schedulersvc.Deps{
				Log: deps.Log, Registerer: deps.Registerer, Bus: deps.Bus, Now: deps.Clock,
			})
		},
	}))
}
