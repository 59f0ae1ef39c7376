package route

import (
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"

	"github.com/kvmesh/kvmesh/scheduler-svc/internal/feed"
)

// sessions remembers where a session's requests went. Keys are hashes: a session's name is the client's text. Its home
// lasts while its hits last: after three answers in a row that found nothing in the cache there, it may move.
type sessions struct {
	mu    sync.Mutex
	homes map[uint64]*residence
	ring  []uint64 // in order of first use; the oldest makes room
	at    int
}

type residence struct {
	key    feed.Key
	misses int
}

// maxMisses in a row end a session's home.
const maxMisses = 3

func newSessions(capacity int) *sessions {
	return &sessions{homes: map[uint64]*residence{}, ring: make([]uint64, max(1, capacity))}
}

// key is 0 for a request without a session.
func (s *sessions) key(req *schedulerv1.RouteRequest) uint64 {
	if req.GetSession() == "" {
		return 0
	}
	return max(1, xxh3.HashStringSeed(req.GetSession(), xxh3.HashString(req.GetModel())))
}

func (s *sessions) home(req *schedulerv1.RouteRequest) (feed.Key, bool) {
	key := s.key(req)
	if key == 0 {
		return feed.Key{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.homes[key]
	if r == nil || r.misses >= maxMisses {
		return feed.Key{}, false
	}
	return r.key, true
}

// sent makes the target the session's home.
func (s *sessions) sent(req *schedulerv1.RouteRequest, to feed.Key) {
	key := s.key(req)
	if key == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.homes[key]; r != nil {
		if r.key != to || r.misses >= maxMisses {
			*r = residence{key: to}
		}
		return
	}
	delete(s.homes, s.ring[s.at])
	s.ring[s.at] = key
	s.at = (s.at + 1) % len(s.ring)
	s.homes[key] = &residence{key: to}
}

// served tells whether an answer found the session's prefix in the cache. Only requests that went home count: the first
// one has nothing to find.
func (s *sessions) served(key uint64, wentHome, hit bool) {
	if key == 0 || !wentHome {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.homes[key]
	switch {
	case r == nil:
	case hit:
		r.misses = 0
	default:
		r.misses++
	}
}
