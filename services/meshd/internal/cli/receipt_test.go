package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReceiptInWords(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ raw, want string }{
		"explained": {
			`{"model":"m","prompt_tokens":40,"policy":"cost","chosen":{"worker_id":"w0","rank":1},"reason":"least cost",` +
				`"certainty":"CERTAINTY_EXACT","candidates":[{"target":{"worker_id":"w0","rank":1},"hit_tokens":32,"cost":1.5}]}`,
			"w0 rank 1 for 40 tokens of m: least cost (policy cost, exact)\n" +
				"CANDIDATE  PREDICTED HIT  COST\nw0 rank 1  32             1.5\n",
		},
		"a hedge that ended": {
			`{"model":"m","attempt":2,"kind":"ATTEMPT_KIND_HEDGE","policy":"cost","chosen":{"worker_id":"w1"},"reason":"r",` +
				`"certainty":"CERTAINTY_FALLBACK","certainty_reason":"media","outcome":"OUTCOME_OK","actual_hit_tokens":0,` +
				`"excluded":[{"target":{"worker_id":"w0"},"reason":"excluded"}]}`,
			"attempt 2: hedge: w1 rank 0 for 0 tokens of m: r (policy cost, fallback, media)\n" +
				"ended ok; predicted 0 cached tokens, the worker says 0\n" +
				"CANDIDATE  PREDICTED HIT  COST\nw0 rank 0 is no candidate: excluded\n",
		},
		"held back": {
			`{"model":"m","prompt_tokens":4,"policy":"cost","chosen":{"worker_id":"w0"},"reason":"r","certainty":"CERTAINTY_EXACT",` +
				`"queued_ms":120}`,
			"w0 rank 0 for 4 tokens of m: r (policy cost, exact)\n" +
				"waited 120 ms in the scheduler's queue: every worker was full (scheduler.worker.max_inflight)\n" +
				"CANDIDATE  PREDICTED HIT  COST\n",
		},
		"nobody": {
			`{"model":"m","reason":"no worker","certainty":"CERTAINTY_EXACT","policy":"cost"}`,
			"nobody for 0 tokens of m: no worker (policy cost, exact)\nCANDIDATE  PREDICTED HIT  COST\n",
		},
	} {
		var r receiptView
		require.NoError(t, json.Unmarshal([]byte(row.raw), &r), name)
		var out bytes.Buffer
		require.NoError(t, r.print(&out), name)
		require.Equal(t, row.want, out.String(), name)
	}
}
