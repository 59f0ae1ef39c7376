package zmq

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// replayTotal bounds a replay; 10,000 batches over loopback take well under a second.
	replayTotal = 30 * time.Second
	// DefaultIdle bounds the silence within one. A publisher answers between two steps, up to 0.16 s were seen; a lost
	// end marker looks like silence.
	DefaultIdle = 3 * time.Second
	// connectMin is the least that a connection and its greeting get, however short the silence may be.
	connectMin = 500 * time.Millisecond
	// endSeq is the sequence number of the end marker, -1 as signed.
	endSeq = 1<<64 - 1
)

// ErrReplayCut means that the replay ended without its end marker: what came may not be all.
var ErrReplayCut = errors.New("replay ended without its end marker")

// Request says what to replay.
type Request struct {
	// Endpoint is the ROUTER's.
	Endpoint string
	// Start is the first number wanted.
	Start uint64
	// Idle is the longest silence, before the connection stands and within the replay; 0 is 3 s.
	Idle time.Duration
}

// Replay asks a publisher's ROUTER for all batches from a number on that it still has, and calls each in order. It
// understands both framings: with the topic (vLLM 0.26 and later) and without it. It returns nil after the end marker.
func Replay(ctx context.Context, r Request, each func(Update) error) error {
	if r.Idle == 0 {
		r.Idle = DefaultIdle
	}
	ctx, cancel := context.WithTimeout(ctx, replayTotal)
	defer cancel()
	greet, greeted := context.WithTimeout(ctx, max(r.Idle, connectMin))
	c, err := dial(greet, r.Endpoint, "DEALER")
	greeted()
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := c.send(nil, binary.BigEndian.AppendUint64(nil, r.Start)); err != nil {
		return fmt.Errorf("ask for replay at %s: %w", r.Endpoint, err)
	}
	var m Message
	for {
		if err := c.SetReadDeadline(time.Now().Add(r.Idle)); err != nil {
			return fmt.Errorf("replay from %s: %w", r.Endpoint, err)
		}
		if err := c.read(&m); err != nil {
			return fmt.Errorf("replay from %s: %w", r.Endpoint, replayFault(err))
		}
		u, end, ok := replayed(m.Frames)
		if end {
			return nil
		}
		if !ok {
			continue
		}
		if err := each(u); err != nil {
			return err
		}
	}
}

// replayFault tells a cut replay from a protocol fault.
func replayFault(err error) error {
	var ne net.Error
	if errors.As(err, &ne) {
		return fmt.Errorf("%w (%w)", ErrReplayCut, err)
	}
	return err
}

// replayed reads one reply: delimiter, then topic (or not), seq, payload.
func replayed(frames [][]byte) (u Update, end, ok bool) {
	if len(frames) < 3 || len(frames) > 4 || len(frames[0]) != 0 {
		return u, false, false
	}
	seq, payload := frames[len(frames)-2], frames[len(frames)-1]
	if len(seq) != seqBytes {
		return u, false, false
	}
	u = Update{Seq: binary.BigEndian.Uint64(seq), Payload: payload}
	if len(frames) == 4 {
		u.Topic = frames[1]
	}
	return u, u.Seq == endSeq && len(payload) == 0, true
}
