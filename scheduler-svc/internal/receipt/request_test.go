package receipt

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// logged is a line as a reader sees it.
type logged struct {
	TimestampMS  float64  `json:"timestamp_ms"`
	Model        string   `json:"model"`
	InputLength  int      `json:"input_length"`
	OutputLength int      `json:"output_length"`
	BlockTokens  int      `json:"block_tokens"`
	CachedTokens *int     `json:"cached_tokens"`
	TTFTMS       *float64 `json:"ttft_ms"`
	HashIDs      []string `json:"hash_ids"`
}

func TestRequestLines(t *testing.T) {
	t.Parallel()
	at, cached, ttft := time.UnixMilli(1_764_547_200_123), 32, 212.5
	for _, row := range []struct {
		name string
		req  Request
		want logged
	}{
		{
			"everything",
			Request{
				Time: at, Model: `a "quoted" name`, InputTokens: 50, OutputTokens: 9, UnitTokens: 16, CachedTokens: 32,
				TTFT: 212_500 * time.Microsecond, Units: []uint64{1, 1<<64 - 1, 0x89abcdef01234567},
			},
			logged{
				1_764_547_200_123, `a "quoted" name`, 50, 9, 16, &cached, &ttft,
				[]string{"0000000000000001", "ffffffffffffffff", "89abcdef01234567"},
			},
		},
		{
			"what is not known is not there",
			Request{Time: at, Model: "m", InputTokens: 5, UnitTokens: 16, CachedTokens: -1},
			logged{1_764_547_200_123, "m", 5, 0, 16, nil, nil, []string{}},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			raw, err := row.req.JSON()
			require.NoError(t, err)
			var got logged
			require.NoError(t, json.Unmarshal(raw, &got), string(raw))
			require.Equal(t, row.want, got)
		})
	}
}

// TestHashesKeepTheirBits: sixteen digits each, none rounded as a JSON number would be.
func TestHashesKeepTheirBits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	req := Request{CachedTokens: -1}
	for range 500 {
		req.Units = append(req.Units, r.Uint64()>>r.IntN(64))
	}
	raw, err := req.JSON()
	require.NoError(t, err)
	var got logged
	require.NoError(t, json.Unmarshal(raw, &got))
	for i, u := range req.Units {
		require.Equal(t, fmt.Sprintf("%016x", u), got.HashIDs[i])
	}
}
