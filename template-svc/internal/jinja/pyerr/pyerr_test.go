package pyerr

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestError(t *testing.T) {
	t.Parallel()
	e := Newf(Type, "%d%%", 5)
	require.Equal(t, "TypeError: 5%", e.Error())
	require.Equal(t, "5%s", New(Value, "5%s").Message)
	require.True(t, Is(fmt.Errorf("render: %w", e), Type))
	require.False(t, Is(e, Value))
	require.False(t, Is(errors.New("x"), Type))
}

func TestAt(t *testing.T) {
	t.Parallel()
	e := New(Type, "m")
	require.Same(t, e, At(e, 3, 4))
	require.Equal(t, "TypeError: m (line 3, column 4)", e.Error())
	_ = At(e, 5, 6)
	require.Equal(t, 3, e.Line, "the innermost place wins")
	plain := errors.New("x")
	require.Same(t, plain, At(plain, 1, 1))
	require.NoError(t, At(nil, 1, 1))
}
