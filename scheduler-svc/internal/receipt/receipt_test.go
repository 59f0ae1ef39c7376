package receipt

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
)

func record(id string, attempt uint32) *Record {
	return &Record{
		RequestID: id, Attempt: attempt, Time: time.Unix(100, 5), Model: "m", PromptTokens: 50, Units: 3, Policy: "cost",
		Terms: []string{"queue", "prefill"}, Chosen: true, Reason: "queue is less by 2", PredictedTokens: 32,
		Certainty: schedulerv1.Certainty_CERTAINTY_DEGRADED, CertaintyReason: "gap", QueuedMS: 4,
		Candidates: []Candidate{{
			Key: feed.Key{Worker: "w", Rank: 1}, HitTokens: 32, ExpectedTokens: 16, QueuedTokens: 7, Inflight: 2, Waiting: 1,
			KVUse: 0.5, Cost: 3, Terms: [8]float64{1, 2}, Certainty: schedulerv1.Certainty_CERTAINTY_DEGRADED,
		}},
		Excluded: []Excluded{{Key: feed.Key{Worker: "x"}, Reason: "asleep"}},
	}
}

func TestReceiptTellsEverything(t *testing.T) {
	t.Parallel()
	s := NewStore(Limits{MaxRecords: 10, MaxBytes: 1 << 20})
	r := record("id", 1)
	s.Put(r)
	s.Settle(r, Result{
		Outcome: schedulerv1.Outcome_OUTCOME_OK, ActualTokens: 16, HasActual: true, TTFTUS: 900, OutputTokens: 8,
	})
	want := &schedulerv1.Receipt{
		RequestId: "id", Time: timestamppb.New(time.Unix(100, 5)), Model: "m", Attempt: 1, PromptTokens: 50, Units: 3,
		Policy: "cost", Reason: "queue is less by 2", Certainty: schedulerv1.Certainty_CERTAINTY_DEGRADED,
		CertaintyReason: "gap", PredictedHitTokens: 32, ActualHitTokens: proto.Uint32(16), QueuedMs: 4,
		Outcome: schedulerv1.Outcome_OUTCOME_OK, TtftUs: 900, OutputTokens: 8,
		Chosen: &schedulerv1.Target{WorkerId: "w", Rank: 1},
		Candidates: []*schedulerv1.Candidate{{
			Target: &schedulerv1.Target{WorkerId: "w", Rank: 1}, HitTokens: 32, ExpectedHitTokens: 16, QueuedTokens: 7,
			Inflight: 2, Cost: 3, Waiting: 1, KvUse: 0.5, Certainty: schedulerv1.Certainty_CERTAINTY_DEGRADED,
			Terms: []*schedulerv1.CostTerm{{Name: "queue", Value: 1}, {Name: "prefill", Value: 2}},
		}},
		Excluded: []*schedulerv1.Excluded{{Target: &schedulerv1.Target{WorkerId: "x"}, Reason: "asleep"}},
	}
	require.Empty(t, cmp.Diff([]*schedulerv1.Receipt{want}, s.Get("id"), protocmp.Transform()))
}

func TestAttemptsStayInOrder(t *testing.T) {
	t.Parallel()
	s := NewStore(Limits{MaxRecords: 3, MaxBytes: 1 << 20})
	for n := range uint32(3) {
		s.Put(record("id", n+1))
	}
	require.Len(t, s.Get("id"), 3)
	s.Put(record("other", 1))
	got := s.Get("id")
	require.Len(t, got, 2)
	require.Equal(t, uint32(2), got[0].GetAttempt())
	require.Empty(t, s.Get("unknown"))
}

func TestStoreIsBoundedByCountAndBytes(t *testing.T) {
	t.Parallel()
	one := record("0000", 1).size()
	rows := []struct {
		name   string
		limits Limits
		want   int
	}{
		{"count", Limits{MaxRecords: 7, MaxBytes: 1 << 30}, 7},
		{"bytes", Limits{MaxRecords: 1000, MaxBytes: 5*one + one/2}, 5},
		{"off", Limits{}, 0},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(row.limits)
			for i := range 100 {
				s.Put(record(fmt.Sprintf("%04d", i), 1))
			}
			records, bytes := s.Size()
			require.Equal(t, row.want, records)
			require.Equal(t, int64(row.want)*one, bytes)
			require.Len(t, s.byID, row.want)
			require.Empty(t, s.Get("0001"))
			require.Len(t, s.Get("0099"), min(1, row.want))
		})
	}
}

func TestNamelessRequestsLeaveNoReceipt(t *testing.T) {
	t.Parallel()
	s := NewStore(Limits{MaxRecords: 7, MaxBytes: 1 << 30})
	s.Put(record("", 1))
	records, _ := s.Size()
	require.Zero(t, records)
}

func lines(t *testing.T, path string) []string {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var out []string
	for sc := bufio.NewScanner(f); sc.Scan(); {
		require.True(t, json.Valid(sc.Bytes()), "line %d", len(out))
		out = append(out, sc.Text())
	}
	return out
}

// receipts returns the sink of a store.
func receipts(path string, maxBytes int64, h slog.Handler) *Sink[*Record] {
	return NewSink(SinkConfig{Path: path, MaxBytes: maxBytes, What: "receipts"}, NewStore(Limits{}).JSON, slog.New(h))
}

func TestSinkWritesWhatIsBufferedAtTheEnd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "receipts.ndjson")
	s := receipts(path, 1<<20, slog.DiscardHandler)
	for i := range 20 {
		s.Write(record(fmt.Sprint("r", i), 1))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Run(ctx))
	got := lines(t, path)
	require.Len(t, got, 20)
	require.True(t, strings.Contains(got[3], `"r3"`))
	require.Zero(t, s.Dropped())
}

func TestSinkDropsRatherThanWaits(t *testing.T) {
	t.Parallel()
	s := receipts(filepath.Join(t.TempDir(), "r"), 1, slog.DiscardHandler)
	for range sinkBuffer + 3 {
		s.Write(record("x", 1))
	}
	require.Equal(t, uint64(3), s.Dropped())
	var none *Sink[*Record]
	none.Write(record("x", 1))
	require.NoError(t, none.Run(t.Context()))
	require.Zero(t, none.Dropped())
	require.Nil(t, receipts("", 1, slog.DiscardHandler))
}

func TestSinkRotates(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r")
	s := receipts(path, 1<<20, slog.DiscardHandler)
	f, err := s.open()
	require.NoError(t, err)
	require.NoError(t, s.write(f, record("x", 1)))
	s.cfg.MaxBytes = 2 * f.size
	for range 2 {
		require.NoError(t, s.write(f, record("x", 1)))
		if f.size >= s.cfg.MaxBytes {
			f, err = s.rotate(f)
			require.NoError(t, err)
		}
	}
	f.close()
	require.Len(t, lines(t, path+".1"), 2)
	require.Len(t, lines(t, path), 1)
}

func TestSinkThatCannotOpenSaysSoAndEnds(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	s := receipts(filepath.Join(t.TempDir(), "no", "such", "dir"), 1, slog.NewTextHandler(&log, nil))
	require.NoError(t, s.Run(t.Context()))
	require.Contains(t, log.String(), "receipts are written no more")
}
