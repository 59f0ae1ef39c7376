// Package zmqtest is a worker's event publisher whose every fault is in the test's hands.
package zmqtest

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

// Publisher is a PUB and a ROUTER socket of one process. Restart makes it another process at the same ports.
type Publisher struct {
	t testing.TB
	// OldReplay leaves the topic out of replies, as vLLM before 0.26.
	OldReplay bool

	pub, rep net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	joined *sync.Cond
	subs   map[*zmq.Peer]bool
	all    map[net.Conn]bool
	buffer []zmq.Update
	next   uint64
	mute   bool
	closed bool
}

// Start opens both sockets on ephemeral ports.
func Start(t testing.TB) *Publisher {
	t.Helper()
	p := &Publisher{t: t, subs: map[*zmq.Peer]bool{}, all: map[net.Conn]bool{}}
	p.joined = sync.NewCond(&p.mu)
	p.pub, p.rep = p.listen("127.0.0.1:0"), p.listen("127.0.0.1:0")
	p.serve()
	t.Cleanup(p.Stop)
	return p
}

// listen opens a socket. At a port that it had before it may have to wait: the near end of somebody's connection can have
// taken it.
func (p *Publisher) listen(at string) net.Listener {
	l, err := net.Listen("tcp", at)
	for began := time.Now(); err != nil && time.Since(began) < 10*time.Second; l, err = net.Listen("tcp", at) {
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(p.t, err)
	return l
}

// Endpoints are the addresses of the two sockets.
func (p *Publisher) Endpoints() (live, replay string) {
	return "tcp://" + p.pub.Addr().String(), "tcp://" + p.rep.Addr().String()
}

func (p *Publisher) serve() {
	p.wg.Go(func() { p.accept(p.pub, p.subscriber) })
	p.wg.Go(func() { p.accept(p.rep, p.router) })
}

func (p *Publisher) accept(l net.Listener, handle func(net.Conn)) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		if p.closed { // Stop has closed what it knew of
			p.mu.Unlock()
			_ = nc.Close()
			return
		}
		p.all[nc] = true
		p.mu.Unlock()
		p.wg.Go(func() {
			handle(nc)
			_ = nc.Close()
			p.mu.Lock()
			delete(p.all, nc)
			p.mu.Unlock()
		})
	}
}

// subscriber reads until the connection ends; the first message is the subscription.
func (p *Publisher) subscriber(nc net.Conn) {
	peer, err := zmq.Accept(nc, "PUB")
	if err != nil {
		return
	}
	for {
		if _, err := peer.Recv(); err != nil {
			break
		}
		p.mu.Lock()
		p.subs[peer] = true
		p.joined.Broadcast()
		p.mu.Unlock()
	}
	p.mu.Lock()
	delete(p.subs, peer)
	p.mu.Unlock()
}

// router answers replay requests. Frames other than delimiter and number get no answer at all, as in vLLM.
func (p *Publisher) router(nc net.Conn) {
	peer, err := zmq.Accept(nc, "ROUTER")
	if err != nil {
		return
	}
	for {
		frames, err := peer.Recv()
		if err != nil {
			return
		}
		if len(frames) != 2 || len(frames[0]) != 0 || len(frames[1]) != 8 {
			continue
		}
		start := binary.BigEndian.Uint64(frames[1])
		p.mu.Lock()
		buffer, mute := append([]zmq.Update(nil), p.buffer...), p.mute
		p.mu.Unlock()
		if mute {
			continue
		}
		for _, u := range buffer {
			if u.Seq >= start && p.reply(peer, u.Seq, u.Payload) != nil {
				return
			}
		}
		if p.reply(peer, 1<<64-1, nil) != nil {
			return
		}
	}
}

func (p *Publisher) reply(peer *zmq.Peer, seq uint64, payload []byte) error {
	number := binary.BigEndian.AppendUint64(nil, seq)
	if p.OldReplay {
		return peer.Send(nil, number, payload)
	}
	return peer.Send(nil, nil, number, payload)
}

// WaitSubscriber returns when someone has subscribed.
func (p *Publisher) WaitSubscriber() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.subs) == 0 && !p.closed {
		p.joined.Wait()
	}
}

// Publish sends the next batch and keeps it for replay.
func (p *Publisher) Publish(payload []byte) { p.publish(payload, true, true) }

// Lose uses a number up for a batch that is kept for replay but not sent.
func (p *Publisher) Lose(payload []byte) { p.publish(payload, false, true) }

// Waste uses a number up for a batch that nobody will ever see.
func (p *Publisher) Waste() { p.publish(nil, false, false) }

func (p *Publisher) publish(payload []byte, send, keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := p.next
	p.next++
	if keep {
		p.buffer = append(p.buffer, zmq.Update{Seq: seq, Payload: payload})
	}
	if !send {
		return
	}
	for peer := range p.subs {
		_ = peer.Send([]byte("topic"), binary.BigEndian.AppendUint64(nil, seq), payload)
	}
}

// Forget drops the replay buffer but for its last n batches.
func (p *Publisher) Forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffer = p.buffer[max(0, len(p.buffer)-n):]
}

// Mute makes the replay socket take requests and answer nothing.
func (p *Publisher) Mute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = on
}

// Hangup ends every connection; the process lives on.
func (p *Publisher) Hangup() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for nc := range p.all {
		_ = nc.Close()
	}
}

// Restart is the end of the process and the start of a new one at the same ports: numbers begin at 0.
func (p *Publisher) Restart() {
	live, replay := p.pub.Addr().String(), p.rep.Addr().String()
	p.Stop()
	p.mu.Lock()
	p.buffer, p.next, p.closed = nil, 0, false
	p.subs = map[*zmq.Peer]bool{}
	p.mu.Unlock()
	p.pub, p.rep = p.listen(live), p.listen(replay)
	p.serve()
}

// Stop closes the sockets.
func (p *Publisher) Stop() {
	_, _ = p.pub.Close(), p.rep.Close()
	p.mu.Lock()
	p.closed = true
	p.joined.Broadcast()
	p.mu.Unlock()
	p.Hangup()
	p.wg.Wait()
}
