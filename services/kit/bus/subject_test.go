package bus_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/bus"
)

func TestSubjects(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		got  bus.Subject
		want string
	}{
		{"plain", bus.KV("gpt2", "w-1", 3), "kvmesh.kv.gpt2.w-1.3"},
		{"slashes and dots", bus.KV("meta-llama/Llama-3.1-8B", "a", 0), "kvmesh.kv.meta-llama%2FLlama-3%2E1-8B.a.0"},
		{"wildcards", bus.KV("*", ">", 0), "kvmesh.kv.%2A.%3E.0"},
		{"empty", bus.KV("", "", 0), "kvmesh.kv.%.%.0"},
		{"percent", bus.KV("%", "a", 0), "kvmesh.kv.%25.a.0"},
		{"bytes", bus.KV("é \x00", "a", 0), "kvmesh.kv.%C3%A9%20%00.a.0"},
		{"model", bus.KVModel("a.b"), "kvmesh.kv.a%2Eb.*.*"},
		{"all", bus.KVAll(), "kvmesh.kv.>"},
		{"inflight", bus.Inflight("s.1"), "kvmesh.inflight.s%2E1"},
		{"inflight all", bus.InflightAll(), "kvmesh.inflight.*"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, string(row.got))
		})
	}
}

func TestParseKVRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "kvmesh.kv.a.b", "kvmesh.kv.a.b.c", "kvmesh.kv.a.b.1.2", "kvmesh.inflight.a", "kvmesh.kv.a.b.-1",
		"kvmesh.kv.%2.b.1", "kvmesh.kv.%zz.b.1", "kvmesh.kv.%2e.b.1", "kvmesh.kv.a b.b.1", "kvmesh.kv.a.b.4294967296",
	} {
		_, ok := bus.ParseKV(bus.Subject(s))
		require.False(t, ok, s)
	}
}

// FuzzKV: any two names come back, as exactly one token each.
func FuzzKV(f *testing.F) {
	f.Add("meta-llama/Llama-3.1-8B-Instruct", "worker_0", uint32(0))
	f.Add("", "%", uint32(7))
	f.Add("%41", "A", uint32(1<<32-1))
	f.Fuzz(func(t *testing.T, model, worker string, rank uint32) {
		s := bus.KV(model, worker, rank)
		require.Equal(t, 4, strings.Count(string(s), "."))
		require.False(t, strings.ContainsAny(string(s), " *>\t\r\n"))
		got, ok := bus.ParseKV(s)
		require.True(t, ok)
		require.Equal(t, bus.KVName{Model: model, Worker: worker, Rank: rank}, got)
	})
}
