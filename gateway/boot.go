package gateway

import (
	"context"

	"google.golang.org/grpc"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"
)

// Boot makes the gateway of a binary of its own: it reaches the services at the addresses of Config.Services.
func Boot(ctx context.Context, cfg Config, deps boot.Deps) (boot.Service, error) {
	cfg.SetDefaults()
	var conns [3]grpc.ClientConnInterface
	for i, target := range []string{cfg.Services.Template, cfg.Services.Tokenizer, cfg.Services.Scheduler} {
		conn, err := deps.Dial(target, cfg.Services.Client)
		if err != nil {
			return nil, err
		}
		conns[i] = conn
	}
	return New(ctx, cfg, Deps{
		Log: deps.Log, Registerer: deps.Registerer, Tracer: deps.Tracer, Clock: deps.Clock,
		Template:  templatev1.NewTemplateServiceClient(conns[0]),
		Tokenizer: tokenizerv1.NewTokenizerServiceClient(conns[1]),
		Scheduler: schedulerv1.NewSchedulerServiceClient(conns[2]),
	})
}
