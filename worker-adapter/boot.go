package workeradapter

import (
	"context"

	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/boot"
	"github.com/kvmesh/kvmesh/services/kit/rpc"
)

// Boot makes the adapter of a binary of its own.
func Boot(ctx context.Context, cfg Config, deps boot.Deps) (boot.Service, error) {
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
		d.Template, d.Tokenizer = templatev1.NewTemplateServiceClient(template), tokenizerv1.NewTokenizerServiceClient(tokenizer)
	}
	return New(ctx, cfg, d)
}
