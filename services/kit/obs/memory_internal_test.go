package obs

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/conf"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const machine, group = "/proc/meminfo", "/sys/fs/cgroup/memory.max"
	total := "MemTotal:       16777216 kB\nMemFree: 1 kB\n"
	for _, row := range []struct {
		name  string
		own   conf.Bytes
		files map[string]string
		want  int64
	}{
		{name: "configured", own: 5, files: map[string]string{machine: total}, want: 5},
		{name: "machine", files: map[string]string{machine: total, group: "max\n"}, want: 8 << 30},
		{name: "container", files: map[string]string{machine: total, group: "1073741824\n"}, want: 512 << 20},
		{name: "container larger than the machine", files: map[string]string{machine: total, group: "99999999999999\n"}, want: 8 << 30},
		{name: "container alone", files: map[string]string{group: "1073741824\n"}, want: 512 << 20},
		{name: "nothing known", files: nil, want: 0},
		{name: "odd files", files: map[string]string{machine: "MemTotal: x kB", group: "x"}, want: 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := MemoryConfig{Limit: row.own}
			require.Equal(t, row.want, c.limit(func(path string) ([]byte, error) {
				text, ok := row.files[path]
				if !ok {
					return nil, errors.New("no file")
				}
				return []byte(text), nil
			}))
		})
	}
}

func TestMemoryConfig(t *testing.T) {
	t.Parallel()
	var c MemoryConfig
	c.SetDefaults()
	require.NoError(t, c.Validate())
	require.Equal(t, 400, c.GCPercent)
	require.ErrorContains(t, (&MemoryConfig{GCPercent: -1}).Validate(), "gc_percent")
	require.ErrorContains(t, (&MemoryConfig{GCPercent: 1, Limit: -1}).Validate(), "limit")
	require.True(t, named([]string{"A=1", "GOGC=50"}, "GOGC"))
	require.False(t, named([]string{"GOGCX=50"}, "GOGC"))
}
