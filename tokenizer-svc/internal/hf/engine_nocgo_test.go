//go:build !cgo || nohf

package hf_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/hf"
)

func TestEverythingSaysUnavailable(t *testing.T) {
	t.Parallel()
	threads := hf.NewThreads(2)
	defer threads.Close()
	for _, kind := range []hf.Kind{hf.Reference, hf.Fast} {
		_, err := hf.Load(kind, []byte("{}"), threads)
		require.ErrorIs(t, err, hf.ErrUnavailable)
		_, err = hf.LoadTiktoken(kind, nil, nil, threads)
		require.ErrorIs(t, err, hf.ErrUnavailable)
	}
	var engine hf.Engine
	_, err := engine.AppendIDs(nil, []byte("x"), false)
	require.ErrorIs(t, err, hf.ErrUnavailable)
	_, err = engine.AppendText(nil, []uint32{1}, false)
	require.ErrorIs(t, err, hf.ErrUnavailable)
	require.Zero(t, engine.VocabSize())
	require.Zero(t, hf.AdmittedThreads())
	engine.Close()
}
