package index

import (
	"math/rand/v2"
	"slices"
)

// life fills an index as workers do: conversations arrive at two of the workers each, are computed in steps of up to
// stepUnits, answered a unit at a time while others are, come back for more turns on either worker, and are evicted from
// their tails when room is needed, the least recently used first. After some turnovers of every cache the index is as
// scattered as it will ever be.
type life struct {
	r       *rand.Rand
	mix     talkMix
	index   *Index
	workers []*lifeWorker
	most    int // conversations that a worker starts to run
}

type lifeWorker struct {
	stream  *Stream
	room    int
	held    map[*talk]int // units of each conversation, a prefix
	idle    []*talk       // the least recently used first
	running []*talk
	pending int // units of running that are not computed
}

// talk is a conversation: its units, those still to be answered among them.
type talk struct {
	units []uint64
	busy  int // workers that run it
}

const (
	stepUnits    = 512 // a step of 8,192 tokens
	lifeMaxUnits = 2500
)

// talkMix is how conversations grow, in units.
type talkMix struct {
	first  int // most of a first prompt; a thirty-second of it is the least
	turn   int // most that a later turn adds beside the answer before it; an eighth of it is the least
	answer int // mean
}

// traceMix has the means of the public conversation trace: prompts of 12,035 tokens, two fifths of them known, answers of
// 343. chatMix has short turns and long answers: every sixth unit that is held came alone.
var (
	traceMix = talkMix{first: 1024, turn: 480, answer: 21}
	chatMix  = talkMix{first: 512, turn: 80, answer: 24}
)

// newLife has workers of room units each.
func newLife(mix talkMix, workers, room int) *life {
	l := &life{mix: mix, r: rand.New(rand.NewPCG(uint64(room), 9)), index: New(Config{MaxUnits: 2 * workers * room}), most: min(32, max(1, room/4000))}
	for range workers {
		l.workers = append(l.workers, &lifeWorker{stream: l.index.Open(), room: room, held: map[*talk]int{}})
	}
	return l
}

func (l *life) grow(t *talk, least, most int) {
	for range least + l.r.IntN(most-least) {
		t.units = append(t.units, l.r.Uint64())
	}
}

// run goes on until every worker has computed so many units.
func (l *life) run(units int) {
	for done := 0; done < units*len(l.workers); {
		w := l.workers[l.r.IntN(len(l.workers))]
		for len(w.running) < l.most {
			l.arrive(w)
		}
		done += l.step(w)
	}
}

// arrive starts a turn: of a conversation that the worker has, or of a new one, here and on another worker.
func (l *life) arrive(w *lifeWorker) {
	if n := len(w.idle); n > 0 && l.r.IntN(10) < 6 {
		i := n - 1 - l.r.IntN(n)/2 // the recent half comes back
		t := w.idle[i]
		if len(t.units) < lifeMaxUnits && t.busy == 0 {
			w.idle = slices.Delete(w.idle, i, i+1)
			l.grow(t, l.mix.turn/8, l.mix.turn)
			l.start(w, t)
			return
		}
	}
	t := &talk{}
	l.grow(t, l.mix.first/32, l.mix.first)
	l.start(w, t)
	if other := l.workers[l.r.IntN(len(l.workers))]; other != w && len(other.running) < l.most {
		l.start(other, t)
	}
}

func (l *life) start(w *lifeWorker, t *talk) {
	t.busy++
	w.running = append(w.running, t)
}

// step computes what fits into a step, then a unit of each answer, and returns the units computed.
func (l *life) step(w *lifeWorker) int {
	var added []uint64
	budget := stepUnits
	answering := w.running[:0]
	for _, t := range w.running {
		have := w.held[t]
		n := min(budget, len(t.units)-have)
		if n <= 0 && have >= len(t.units) && l.r.IntN(l.mix.answer) == 0 { // the answer ends
			t.busy--
			w.idle = append(w.idle, t)
			continue
		}
		if n <= 0 && have >= len(t.units) && budget > 0 {
			if t.busy == 1 || w.held[t] == len(t.units) {
				t.units = append(t.units, l.r.Uint64())
				n = 1
			}
		}
		budget -= n
		added = append(added, t.units[have:have+n]...)
		w.held[t] = have + n
		answering = append(answering, t)
	}
	w.running = answering
	w.stream.Remove(Device, l.evict(w, len(added)))
	w.stream.Add(Device, added)
	w.room -= len(added)
	return len(added)
}

// evict makes room for units, and returns what left, tails first.
func (l *life) evict(w *lifeWorker, need int) []uint64 {
	var gone []uint64
	for w.room+len(gone) < need {
		t := w.idle[0]
		n := min(w.held[t], need-w.room-len(gone))
		have := w.held[t]
		tail := slices.Clone(t.units[have-n : have])
		slices.Reverse(tail)
		gone = append(gone, tail...)
		if w.held[t] -= n; w.held[t] == 0 {
			delete(w.held, t)
			w.idle = w.idle[1:]
		}
	}
	w.room += len(gone)
	return gone
}

// chains returns what the workers hold: conversations of at least 32 units, in random order.
func (l *life) chains() [][]uint64 {
	seen := map[*talk]int{}
	for _, w := range l.workers {
		for t, n := range w.held {
			seen[t] = max(seen[t], n)
		}
	}
	var out [][]uint64
	for t, n := range seen {
		if n >= 32 {
			out = append(out, t.units[:n])
		}
	}
	l.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
