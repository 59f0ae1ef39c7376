package limit

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	require.Equal(t, Default(), Limits{}.Complete())
	l := Limits{SourceBytes: 1, Depth: 2, Steps: 3, MadeBytes: 4, PaddingBytes: 5, PowerBits: 6, JSONDepth: 7}
	require.Equal(t, l, l.Complete())
	require.Equal(t, 9, Limits{Depth: 9}.Complete().Depth)
}

// kindOf is the kind of a limit's error, "" for none.
func kindOf(t *testing.T, err error) Kind {
	t.Helper()
	if err == nil {
		return ""
	}
	var passed *Error
	require.ErrorAs(t, err, &passed)
	return passed.Kind
}

func TestMeter(t *testing.T) {
	t.Parallel()
	small := Limits{Depth: 2, Steps: 10, MadeBytes: 100, PaddingBytes: 10, PowerBits: 64, JSONDepth: 3, SourceBytes: 1}
	for _, c := range []struct {
		name string
		use  func(m *Meter) error
		want Kind
	}{
		{"steps within", func(m *Meter) error { return repeat(8, m.Step) }, ""},
		{"steps beyond", func(m *Meter) error { return repeat(11, m.Step) }, Steps},
		{"steps at once", func(m *Meter) error { return m.Work(1 << 40) }, Steps},
		{"bytes within", func(m *Meter) error { return m.Bytes(100) }, ""},
		{"bytes beyond", func(m *Meter) error { return repeat(3, func() error { return m.Bytes(40) }) }, Made},
		{"negative bytes", func(m *Meter) error { return m.Bytes(-1) }, Made},
		{"product within", func(m *Meter) error { return m.Product(5, 20) }, ""},
		{"product that would overflow", func(m *Meter) error { return m.Product(1<<40, 1<<40) }, Made},
		{"padding within", func(m *Meter) error { return m.Pad(10) }, ""},
		{"padding beyond", func(m *Meter) error { return m.Pad(11) }, Padding},
		{"bits within", func(m *Meter) error { return m.Bits(64) }, ""},
		{"bits beyond", func(m *Meter) error { return m.Bits(65) }, Power},
		{"scan of little", func(m *Meter) error { return m.Scan(255) }, ""},
		{"scan of much", func(m *Meter) error { return m.Scan(1 << 30) }, Steps},
		{"characters of little", func(m *Meter) error { return m.Chars(255) }, ""},
		{"characters of much", func(m *Meter) error { return m.Chars(256) }, Steps},
		{"depth within", func(m *Meter) error { return repeat(2, m.Enter) }, ""},
		{"depth beyond", func(m *Meter) error { return repeat(3, m.Enter) }, Depth},
		{"depth left", func(m *Meter) error {
			return repeat(9, func() error { defer m.Leave(); return m.Enter() })
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := NewMeter(context.Background(), small)
			require.Equal(t, c.want, kindOf(t, c.use(&m)))
		})
	}
}

func repeat(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// TestStepsAfterError goes on counting: an error that nobody looked at comes
// again with the next step.
func TestStepsAfterError(t *testing.T) {
	t.Parallel()
	m := NewMeter(context.Background(), Limits{Steps: 5}.Complete())
	require.Error(t, m.Work(100))
	require.Error(t, m.Step())
	require.Error(t, m.Step())
}

func TestContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	m := NewMeter(ctx, Default())
	require.NoError(t, repeat(3000, m.Step))
	cancel()
	err := repeat(ctxSteps, m.Step)
	require.Equal(t, Time, kindOf(t, err))
	require.ErrorIs(t, err, context.Canceled)
	require.Contains(t, err.Error(), "template stopped")
}
