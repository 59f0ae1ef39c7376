package workeradapter

import (
	"context"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Binary is the adapter as a process of its own. Its section of the deployment's file is "adapter".
func Binary() boot.Spec[Config] {
	return boot.Spec[Config]{
		Name: "adapter", Title: "kvmesh's adapter of one vLLM worker: its card, its load, its cache.",
		ServerAddress: defaultAdvertise, AdminAddress: "tcp://127.0.0.1:8082", UsesBus: true,
		New: func(ctx context.Context, cfg Config, deps boot.Deps) (boot.Service, error) {
			d := Deps{Log: deps.Log, Registerer: deps.Registerer, Clock: deps.Clock, Bus: deps.Bus}
			if cfg.Parity.Template != "" && cfg.Parity.Tokenizer != "" {
				template, err := deps.Dial(cfg.Parity.Template, rpc.ClientConfig{})
				if err != nil {
					return nil, err
				}
				tokenizer, err := deps.Dial(cfg.Parity.Tokenizer, rpc.ClientConfig{})
				if err != nil {
					return nil, err
				}
				d.Template = templatev1.NewTemplateServiceClient(template)
				d.Tokenizer = tokenizerv1.NewTokenizerServiceClient(tokenizer)
			}
			return New(ctx, cfg, d)
		},
	}
}
