package fakevllm_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

// BenchmarkStream reports what one streamed token costs worker and client together: engine step, event, HTTP.
func BenchmarkStream(b *testing.B) {
	s, err := fakevllm.New(fakevllm.Config{Instant: true, MaxModelLen: 1 << 20, NumGPUBlocks: 1 << 17}, fakevllm.Deps{})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	const tokens = 1000
	body := `{"messages":[{"role":"user","content":"q"}],"max_tokens":1000,"ignore_eos":true,"stream":true}`
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		res, err := http.Post("http://"+s.Addr()+"/v1/chat/completions", "application/json", strings.NewReader(body))
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(b, err)
		_ = res.Body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tokens, "ns/token")
	cancel()
	require.NoError(b, <-done)
	http.DefaultClient.CloseIdleConnections()
}
