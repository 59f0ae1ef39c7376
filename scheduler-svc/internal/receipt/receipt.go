// Package receipt keeps why each request went where it went: a ring bounded by count and bytes, found by request id. It
// holds names, numbers and hashes of nothing: no text of a prompt can be in it.
package receipt

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
	"github.com/kvmesh/kvmesh/scheduler-svc/internal/policy"
)

// Record is one decision. Result is guarded by the store once the record is in it; the rest does not change.
type Record struct {
	RequestID       string
	Time            time.Time
	Model           string
	Attempt         uint32
	Kind            schedulerv1.AttemptKind
	PromptTokens    uint32
	Units           uint32
	Policy          string
	Terms           []string // names of Candidate.Terms
	Candidates      []Candidate
	Excluded        []Excluded
	Chosen          bool // Candidates[0] was chosen
	Reason          string
	Certainty       schedulerv1.Certainty
	CertaintyReason string
	PredictedTokens uint32
	QueuedMS        uint32
	Result          Result
}

// Candidate is one target as the policy saw it.
type Candidate struct {
	Key             feed.Key
	HitTokens       uint32
	ExpectedTokens  uint32
	QueuedTokens    uint32
	Inflight        uint32
	Waiting         uint32
	KVUse           float64
	Cost            float64
	Terms           [policy.MaxTerms]float64
	Certainty       schedulerv1.Certainty
	CertaintyReason string // constant texts only
}

// Excluded is a target that was no candidate.
type Excluded struct {
	Key    feed.Key
	Reason string
}

// Result is what became known later.
type Result struct {
	Outcome      schedulerv1.Outcome
	ActualTokens uint32
	HasActual    bool
	TTFTUS       uint32
	OutputTokens uint32
}

// recordBytes and candidateBytes are the sizes of the structs with their share of headers, rounded up.
const (
	recordBytes    = 512
	candidateBytes = 192
	excludedBytes  = 64
)

func (r *Record) size() int64 {
	return int64(recordBytes + len(r.RequestID) + len(r.Model) + len(r.Reason) +
		candidateBytes*len(r.Candidates) + excludedBytes*len(r.Excluded))
}

// Limits bound a store. MaxBytes counts the records as they lie in memory.
type Limits struct {
	MaxRecords int
	MaxBytes   int64
}

// Store is safe for concurrent use.
type Store struct {
	limits Limits

	mu    sync.Mutex
	ring  []*Record // oldest at head
	head  int
	count int
	bytes int64
	byID  map[string][]*Record
}

// NewStore returns an empty store.
func NewStore(l Limits) *Store {
	return &Store{limits: l, ring: make([]*Record, l.MaxRecords), byID: map[string][]*Record{}}
}

// Put keeps a record; the oldest ones make room.
func (s *Store) Put(r *Record) {
	if s.limits.MaxRecords == 0 || r.RequestID == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += r.size()
	for s.count > 0 && (s.count == len(s.ring) || s.bytes > s.limits.MaxBytes) {
		s.dropOldest()
	}
	s.ring[(s.head+s.count)%len(s.ring)] = r
	s.count++
	s.byID[r.RequestID] = append(s.byID[r.RequestID], r)
}

func (s *Store) dropOldest() {
	old := s.ring[s.head]
	s.ring[s.head] = nil
	s.head = (s.head + 1) % len(s.ring)
	s.count--
	s.bytes -= old.size()
	left := s.byID[old.RequestID][1:] // of one id the oldest is first
	if len(left) == 0 {
		delete(s.byID, old.RequestID)
		return
	}
	s.byID[old.RequestID] = left
}

// Settle adds what became known at the end.
func (s *Store) Settle(r *Record, result Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Result = result
}

// JSON returns a record as one line of its sink.
func (s *Store) JSON(r *Record) ([]byte, error) {
	s.mu.Lock()
	p := r.Proto()
	s.mu.Unlock()
	raw, err := protojson.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("marshal receipt: %w", err)
	}
	return raw, nil
}

// Get returns the receipts of a request, one per attempt in order of time.
func (s *Store) Get(requestID string) []*schedulerv1.Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*schedulerv1.Receipt
	for _, r := range s.byID[requestID] {
		out = append(out, r.Proto())
	}
	return out
}

// Size returns the number of records and their bytes.
func (s *Store) Size() (records int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count, s.bytes
}
