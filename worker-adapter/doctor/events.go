package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/mirror"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/vllm"
	"github.com/kvmesh/kvmesh/worker-adapter/internal/zmq"
)

const (
	bindIt   = `start vLLM with "endpoint":"tcp://*:5557" in --kv-events-config`
	replayIt = `add "replay_endpoint":"tcp://*:5558" to --kv-events-config`
)

// events looks at each rank's publisher.
func (e *examination) events() {
	sources, err := e.client.Sources(e.ctx)
	if err != nil {
		if e.target.Endpoint == "" {
			e.add(Fail, "events", "the worker does not tell where it publishes",
				"give --endpoint here and events.endpoint to the adapter; turn events on with "+vllm.EnableEvents)
			return
		}
		sources, e.byFlag = e.given(), true
	}
	if !e.byFlag && e.target.Endpoint+e.target.Replay != "" {
		e.add(Warn, "events", "--endpoint and --replay are not used: the worker itself tells where it publishes", "leave them out")
	}
	for rank, src := range sources {
		e.source(rank, src)
	}
}

// given are the endpoints of the command line, one port per rank.
func (e *examination) given() (out []vllm.Source) {
	for rank := range max(1, len(e.metrics.Ranks)) {
		live, err := zmq.ForRank(e.target.Endpoint, rank)
		if err != nil {
			e.add(Fail, "events", err.Error(), "give --endpoint as tcp://host:port")
			return nil
		}
		src := vllm.Source{Enabled: true, Endpoint: live}
		if e.target.Replay != "" {
			if src.Replay, err = zmq.ForRank(e.target.Replay, rank); err != nil {
				e.add(Fail, "events", err.Error(), "give --replay as tcp://host:port")
				return nil
			}
		}
		out = append(out, src)
	}
	return out
}

// source looks at one rank's.
func (e *examination) source(rank int, src vllm.Source) {
	subject := fmt.Sprintf("events of rank %d", rank)
	switch {
	case !src.Enabled || src.Publisher == "null" || src.Endpoint == "":
		e.add(Fail, subject, "they are off", "start vLLM with "+vllm.EnableEvents)
		return
	case src.Publisher != "" && !zmq.Binds(src.Endpoint):
		e.add(Fail, subject, "the publisher connects to "+src.Endpoint+" instead of binding it: nobody hears it", bindIt)
		return
	}
	if !e.byFlag {
		e.topic(subject, src.Topic)
	}
	live := zmq.Reach(src.Endpoint, e.client.Host())
	if err := e.listen(live); err != nil {
		e.add(Fail, subject, err.Error(), e.reachIt(err))
		return
	}
	e.ok(subject, "published at %s", live)
	if src.Replay == "" {
		change := replayIt
		if e.byFlag {
			change = "give --replay, where vLLM has a replay_endpoint; else " + replayIt
		}
		e.add(Warn, subject, "no replay: a lost event costs the knowledge of the whole cache", change)
		return
	}
	e.replay(subject, rank, zmq.Reach(src.Replay, e.client.Host()))
}

// topic looks whether an adapter with the given events.topic hears messages of this topic.
func (e *examination) topic(subject, topic string) {
	if !strings.HasPrefix(topic, e.target.Topic) {
		e.add(Fail, subject, fmt.Sprintf("their topic %q does not begin with %q: such an adapter hears nothing", topic, e.target.Topic),
			fmt.Sprintf("set the adapter's events.topic to %q, or leave it out: it then hears all topics", topic))
	}
}

// reachIt says what to do about a publisher that is not heard.
func (e *examination) reachIt(err error) string {
	switch {
	case errors.Is(err, zmq.ErrSocket) && e.byFlag:
		return "give the publisher's address as --endpoint: this one is another socket's, perhaps the replay's"
	case errors.Is(err, zmq.ErrSocket):
		return "give vLLM different ports as endpoint and replay_endpoint: another socket answers at this one"
	case e.byFlag:
		return "compare --endpoint with vLLM's endpoint; if they are equal, " + bindIt + ", and make the port reachable from here"
	}
	return bindIt + ", and make the port reachable from here"
}

// replayChange says what to do about a replay that fails although an endpoint is known.
func (e *examination) replayChange(err error) string {
	switch {
	case errors.Is(err, zmq.ErrSocket) && e.byFlag:
		return "give the replay socket's address as --replay: this one is another socket's, perhaps the publisher's"
	case e.byFlag:
		return "compare --replay with vLLM's replay_endpoint, and make its port reachable from here"
	}
	return "make the port of vLLM's replay_endpoint reachable from here, and look for another process at it"
}

// silent reports whether a rank has computed more tokens than all its requests could without filling a block, and so
// must have published events.
func (e *examination) silent(rank int) bool {
	if rank >= len(e.metrics.Ranks) || e.metrics.BlockTokens == 0 {
		return false
	}
	m := e.metrics.Ranks[rank]
	requests := m.Finished + float64(m.Running+m.Waiting) + 1
	return m.PromptTokens-m.CachedTokens+m.OutputTokens > 2*requests*float64(e.metrics.BlockTokens)
}

// listen is nil when a publisher answers at the endpoint.
func (e *examination) listen(endpoint string) error {
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	h := handshake{end: cancel, err: errors.New("nobody answered in time")}
	if err := zmq.Subscribe(ctx, zmq.Subscription{Endpoint: endpoint}, &h); err != nil {
		return err
	}
	return h.err
}

// handshake ends with the first word of a connection. Subscribe calls it from one goroutine and has returned before it
// is read.
type handshake struct {
	end func()
	err error
}

func (h *handshake) Connected() {
	h.err = nil
	h.end()
}

func (h *handshake) Disconnected(err error) {
	h.err = err
	h.end()
}

func (h *handshake) Updated(zmq.Update) {}

// replay fetches what a rank's publisher keeps and looks at what it says.
func (e *examination) replay(subject string, rank int, endpoint string) {
	m := mirror.New(mirror.Config{Model: "doctor"})
	var b kvevents.Batch
	batches, holes, broken := 0, 0, 0
	next := uint64(0)
	err := zmq.Replay(e.ctx, zmq.Request{Endpoint: endpoint}, func(u zmq.Update) error {
		if batches > 0 && u.Seq != next {
			holes++
		}
		if batches == 0 && e.byFlag && u.Topic != nil {
			e.topic(subject, string(u.Topic))
		}
		batches, next = batches+1, u.Seq+1
		if err := kvevents.Decode(u.Payload, &b); err != nil {
			broken++
		}
		m.Apply(&b)
		return nil
	})
	st := m.Stats()
	switch {
	case err != nil:
		e.add(Warn, subject, err.Error(), e.replayChange(err))
		return
	case batches == 0 && e.silent(rank):
		e.add(Fail, subject, "the worker has computed prompts and published nothing",
			"check that prefix caching is on, and restart vLLM: its publisher is stuck")
		return
	case broken > 0 || st.Skipped > 0:
		e.add(Warn, subject, fmt.Sprintf("%d of %d batches and %d events cannot be read", broken, batches, st.Skipped),
			"report vLLM's version: its event format is new")
	case holes > 0:
		e.add(Warn, subject, fmt.Sprintf("%d holes in %d replayed batches", holes, batches), "raise buffer_steps")
	default:
		e.ok(subject, "replay of %d batches at %s", batches, endpoint)
	}
	switch {
	case st.Groups > 1 && !st.Ruled:
		e.add(Warn, subject, "hybrid model, and the kind of a cache group is not known: no hit is claimed",
			"start vLLM 0.23 or later; if it is, report the model")
	case st.Groups > 1:
		e.add(Warn, subject, fmt.Sprintf("hybrid model with %d cache groups: only the ends of cached prompts can be hit",
			st.Groups), "nothing: the mesh predicts by that rule; prompts that grow at their end profit most")
	}
}
