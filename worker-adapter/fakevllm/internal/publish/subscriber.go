package publish

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// subscriber is the queue between the engine and one SUB peer.
type subscriber struct {
	topic []byte

	mu     sync.Mutex
	topics []string // prefixes asked for, with repetition
	queue  []message
	wake   chan struct{} // capacity 1
}

// subscribed tells whether the peer has asked for anything yet.
func (s *subscriber) subscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.topics) > 0
}

// push queues a message if a prefix matches; with hwm > 0 a full queue loses it, as libzmq's PUB does.
func (s *subscriber) push(m message, hwm int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.topics, func(t string) bool { return strings.HasPrefix(string(s.topic), t) }) {
		return
	}
	if hwm > 0 && len(s.queue) >= hwm {
		return
	}
	s.queue = append(s.queue, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// command handles one message of the peer: 1 and a prefix subscribes, 0 and a prefix takes one subscription back.
func (s *subscriber) command(frame []byte) {
	if len(frame) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := string(frame[1:])
	switch frame[0] {
	case 1:
		s.topics = append(s.topics, prefix)
	case 0:
		if i := slices.Index(s.topics, prefix); i >= 0 {
			s.topics = slices.Delete(s.topics, i, i+1)
		}
	}
}

// take empties the queue.
func (s *subscriber) take() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queue
	s.queue = nil
	return q
}

// serveSubscriber runs one PUB connection: this goroutine writes, another reads subscriptions until the peer goes.
func (p *Publisher) serveSubscriber(ctx context.Context, conn *peer) {
	s := &subscriber{topic: []byte(p.opts.Topic), wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.subs[s] = struct{}{}
	p.mu.Unlock()
	gone := make(chan struct{})
	defer func() {
		p.mu.Lock()
		delete(p.subs, s)
		p.mu.Unlock()
		conn.close()
		<-gone
	}()
	go func() {
		defer close(gone)
		for {
			frames, err := conn.receive()
			if err != nil {
				return
			}
			for _, f := range frames {
				s.command(f)
			}
		}
	}()
	var seq [8]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			return
		case <-s.wake:
		}
		for _, m := range s.take() {
			binary.BigEndian.PutUint64(seq[:], m.seq)
			if conn.send(s.topic, seq[:], m.payload) != nil {
				return
			}
		}
	}
}
