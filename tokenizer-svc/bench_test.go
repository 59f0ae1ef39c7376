package tokenizersvc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/kittest"
	tokenizersvc "github.com/kvmesh/kvmesh/tokenizer-svc"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/fixture"
)

// BenchmarkEncodeRPC is the whole method, hashes and metrics included, for a conversation of 20 messages whose last one
// is new in every round. The transport is not in it.
func BenchmarkEncodeRPC(b *testing.B) {
	cfg := defaults()
	cfg.Models = []tokenizersvc.ModelConfig{{Name: "demo", Path: fixture.Demo(b)}}
	cfg.AuditEvery = -1
	s, err := tokenizersvc.New(b.Context(), cfg, tokenizersvc.Deps{
		Log: kittest.Logger(b), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(b, err)
	done := make(chan error, 1)
	ctx, cancel := newContext(b)
	go func() { done <- s.Run(ctx) }()
	kittest.Eventually(b, func() error { return s.Ready(ctx) })
	var seen strings.Builder
	for i := range 20 {
		fmt.Fprintf(&seen, "<|im_start|>user\nMessage %d: %s<|im_end|>\n", i, strings.Repeat("the weather at sea is calm. ", 50))
	}
	for _, ids := range []bool{false, true} {
		b.Run(fmt.Sprintf("ids=%v", ids), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				text := fmt.Appendf(nil, "%s<|im_start|>user\nquestion %d<|im_end|>\n<|im_start|>assistant\n", seen.String(), i)
				_, err := s.Encode(ctx, &tokenizerv1.EncodeRequest{Model: "demo", Text: text, WantTokenIds: ids})
				require.NoError(b, err)
			}
		})
	}
	cancel()
	require.NoError(b, <-done)
}
