package signal_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kvmesh/kvmesh/services/kit/signal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnarmedIgnores(t *testing.T) { //nolint:paralleltest // it counts allocations
	var s signal.Signal[int]
	s.Fire(1)
	require.Zero(t, s.Pending())
	require.Zero(t, testing.AllocsPerRun(100, func() { s.Fire(1) }))
}

func TestArmedKeepsEventsInOrder(t *testing.T) {
	t.Parallel()
	var s signal.Signal[int]
	s.Arm(2)
	for i := range 3 {
		s.Fire(i) // the third finds no room and is dropped
	}
	require.Equal(t, 2, s.Pending())
	require.Equal(t, 0, s.Wait(t))
	require.Equal(t, 1, s.Wait(t))
	go s.Fire(7)
	require.Equal(t, 7, s.Wait(t))
}
