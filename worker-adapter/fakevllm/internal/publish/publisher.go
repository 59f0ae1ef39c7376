// Package publish is the ZeroMQ side of a vLLM worker's KV events: a PUB socket whose messages are
// [topic, 8-byte big-endian sequence number, payload], and a ROUTER that replays what a bounded buffer still holds.
//
// The ZMTP protocol is go-zeromq's. Its socket layer is not used: per-subscriber high-water marks, replies with either
// framing, a close that leaves no goroutine and a bind at a known moment need the connections themselves.
//
// Numbers begin at 0 in every process and there is no other mark of a new one. A message that a subscriber's full queue
// or a fault loses has used up its number, so a consumer sees a gap, and can fill it from the replay socket as long as
// the buffer reaches back that far.
package publish

import (
	"fmt"
	"sync"

	"github.com/go-zeromq/zmq4"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// Options are the fields of vLLM's --kv-events-config for one data-parallel rank, with the format switches.
type Options struct {
	Endpoint       string
	ReplayEndpoint string // "" serves no replay
	// BindHost stands for "*" when a socket is bound; "" is every interface.
	BindHost    string
	BufferSteps int // batches kept for replay
	HWM         int // messages queued per subscriber; above it messages are dropped silently
	Topic       string
	Rank        int
	Encoding    kvevent.Options
	// ReplayTopic puts the topic frame into replies, as vLLM 0.26 and later do.
	ReplayTopic bool
}

// Faults are switches that may be set while the publisher runs.
type Faults struct {
	// DropOneIn loses every n-th live message; the sequence number is used up and replay still has it. 0 is off.
	DropOneIn int
	// Stopped publishes and numbers nothing: the worker's cache changes unseen.
	Stopped bool
	// WrongBind connects the PUB socket instead of binding it, as vLLM does for tcp://127.0.0.1:5557.
	WrongBind bool
}

type message struct {
	seq     uint64
	payload []byte
}

// Publisher owns both sockets of one rank. Its methods may be called by any goroutine.
type Publisher struct {
	opts Options
	life sync.Mutex // held over opening and closing sockets

	mu       sync.Mutex // guards what follows
	seq      uint64
	ring     []message // at most BufferSteps, oldest first
	subs     map[*subscriber]struct{}
	faults   Faults
	endpoint string // with the real port
	replayAt string
	pub      *hub
	router   *hub
}

// Start opens the sockets. Ports of value 0 are chosen by the system and kept over Restart.
func Start(o Options) (*Publisher, error) {
	p := &Publisher{opts: o, subs: map[*subscriber]struct{}{}, endpoint: o.Endpoint, replayAt: o.ReplayEndpoint}
	p.life.Lock()
	err := p.open()
	p.life.Unlock()
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// open needs life.
func (p *Publisher) open() error {
	if err := p.openPub(); err != nil {
		return err
	}
	_, at := p.Endpoints()
	if at == "" {
		return nil
	}
	p.router = newHub(zmq4.Router, p.serveReplay)
	network, addr, err := dialAddr(at)
	if err != nil {
		return err
	}
	if err := p.router.listen(network, bindAt(addr, p.opts.BindHost)); err != nil {
		return fmt.Errorf("bind replay endpoint %q: %w", at, err)
	}
	p.mu.Lock()
	p.replayAt = resolve(at, p.router.listener)
	p.mu.Unlock()
	return nil
}

// openPub needs life.
func (p *Publisher) openPub() error {
	p.pub = newHub(zmq4.Pub, p.serveSubscriber)
	at, _ := p.Endpoints()
	network, addr, err := dialAddr(at)
	if err != nil {
		return err
	}
	p.mu.Lock()
	wrong := p.faults.WrongBind
	p.mu.Unlock()
	if wrong || !Binds(p.opts.Endpoint) {
		p.pub.dial(network, addr)
		return nil
	}
	if err := p.pub.listen(network, bindAt(addr, p.opts.BindHost)); err != nil {
		return fmt.Errorf("bind event endpoint %q: %w", at, err)
	}
	p.mu.Lock()
	p.endpoint = resolve(at, p.pub.listener)
	p.mu.Unlock()
	return nil
}

// Endpoints returns the two endpoints with the ports in use; replay is "" if there is none.
func (p *Publisher) Endpoints() (live, replay string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoint, p.replayAt
}

// Publish numbers and sends one batch. It never blocks on a subscriber. A batch without events is not sent.
func (p *Publisher) Publish(b *kvevent.Batch) {
	if len(b.Events) == 0 {
		return
	}
	payload := kvevent.Append(nil, b, p.opts.Encoding)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.Stopped {
		return
	}
	m := message{seq: p.seq, payload: payload}
	p.seq++
	if len(p.ring) >= p.opts.BufferSteps {
		drop := len(p.ring) - p.opts.BufferSteps + 1
		p.ring = p.ring[drop:]
	}
	p.ring = append(p.ring, m)
	if n := uint64(p.faults.DropOneIn); n > 0 && m.seq%n == n-1 {
		return
	}
	for s := range p.subs {
		s.push(m, p.opts.HWM)
	}
}

// SetFaults replaces the switches; a change of WrongBind closes the PUB socket and opens it the other way.
func (p *Publisher) SetFaults(f Faults) error {
	p.life.Lock()
	defer p.life.Unlock()
	p.mu.Lock()
	rebind := f.WrongBind != p.faults.WrongBind
	p.faults = f
	p.mu.Unlock()
	if !rebind {
		return nil
	}
	p.pub.stop()
	return p.openPub()
}

// Restart does what a new worker process does: both sockets close and open again at the same ports, the replay buffer
// is empty and numbering begins at 0.
func (p *Publisher) Restart() error {
	p.life.Lock()
	defer p.life.Unlock()
	p.stop()
	p.mu.Lock()
	p.seq, p.ring = 0, nil
	p.mu.Unlock()
	return p.open()
}

// Subscribers is the number of connections that asked for some topic.
func (p *Publisher) Subscribers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for s := range p.subs {
		if s.subscribed() {
			n++
		}
	}
	return n
}

// Close ends both sockets and waits for their goroutines.
func (p *Publisher) Close() {
	p.life.Lock()
	defer p.life.Unlock()
	p.stop()
}

// stop needs life.
func (p *Publisher) stop() {
	for _, h := range [...]*hub{p.pub, p.router} {
		if h != nil {
			h.stop()
		}
	}
}
