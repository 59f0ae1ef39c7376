package kvevents

import "fmt"

// MaxBatchBytes bounds the payload that Decode takes: 64 MiB, ten times the largest prefill step of a million tokens.
const MaxBatchBytes = 64 << 20

// maxItems bounds the hashes of a batch and its extra keys, maxEvents its events: such a thing takes up to 256 bytes here
// and as few as one on the wire. A step of a million tokens stores 62,500 blocks of 16 and evicts as many, one event each.
const (
	maxItems  = 1 << 19
	maxEvents = 1 << 17
)

// internedMax bounds the strings kept across batches (media, LoRA names, attention kinds).
const internedMax = 1024

// interner keeps the few strings that come again in every batch.
type interner struct{ known map[string]string }

// get returns b as a string, from memory if it was seen before.
func (in *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in.known[string(b)]; ok {
		return s
	}
	s := string(b)
	if in.known == nil {
		in.known = make(map[string]string)
	}
	if len(in.known) < internedMax {
		in.known[s] = s
	}
	return s
}

// Decode reads one payload into b and reuses b's memory. An error means that the payload is no batch or ends inside a
// value; events decoded before that point stay in b. The payload is not kept.
func Decode(payload []byte, b *Batch) error {
	b.reset()
	if len(payload) > MaxBatchBytes {
		return fmt.Errorf("decode event batch of %d bytes: limit is %d", len(payload), MaxBatchBytes)
	}
	d := decoder{reader: reader{buf: payload}, batch: b}
	if err := d.header(); err != nil {
		return fmt.Errorf("decode event batch at byte %d: %w", d.pos, err)
	}
	return nil
}

// reset empties b and keeps its memory.
func (b *Batch) reset() {
	b.Seconds, b.Rank, b.Skipped = 0, NoRank, 0
	b.Events = b.Events[:0]
	b.hashes, b.ids, b.counts = b.hashes[:0], b.ids[:0], b.counts[:0]
	b.extras, b.keys = b.extras[:0], b.keys[:0]
}

// decoder fills one batch.
type decoder struct {
	reader
	batch *Batch
}

// header reads the outer array.
func (d *decoder) header() error {
	n, err := d.array()
	if err != nil {
		return err
	}
	if n < 2 {
		return fmt.Errorf("%w: a batch has a time and events", errShape)
	}
	if d.batch.Seconds, err = d.float(); err != nil {
		return err
	}
	if err := d.events(); err != nil {
		return err
	}
	if n < 3 || d.isNil() {
		return nil
	}
	rank, neg, err := d.integer()
	if err == nil && !neg && rank <= maxRank {
		d.batch.Rank = int(rank)
	}
	return nil
}

// maxRank bounds ranks and groups: beyond it a number is taken as nonsense.
const maxRank = 1<<16 - 1

// events reads the list. An event of an unknown class or an odd shape is passed over by structure.
func (d *decoder) events() error {
	n, err := d.array()
	if err != nil {
		return err
	}
	for range n {
		start := d.pos
		var ev Event
		if err := d.event(&ev); err != nil {
			d.pos = start
			if err := d.skip(); err != nil {
				return err
			}
			d.batch.Skipped++
			continue
		}
		if len(d.batch.Events) == maxEvents {
			return errTooMany
		}
		d.batch.Events = append(d.batch.Events, ev)
	}
	return nil
}

// event reads one event in either form.
func (d *decoder) event(ev *Event) error {
	c, err := d.peek()
	if err != nil {
		return err
	}
	if c&0xf0 == 0x80 || c == cMap16 || c == cMap32 {
		return d.mapEvent(ev)
	}
	return d.arrayEvent(ev)
}

// mapEvent reads the form of vLLM 0.24 and later. The class name comes first on the wire, but any order is taken.
func (d *decoder) mapEvent(ev *Event) error {
	n, err := d.object()
	if err != nil {
		return err
	}
	for range n {
		key, _, err := d.text()
		if err != nil {
			return err
		}
		if err := d.value(ev, fieldOf(key)); err != nil {
			return err
		}
	}
	if ev.Kind == 0 {
		return errShape
	}
	return nil
}

// arrayEvent reads the form by position. Elements beyond the known ones are skipped.
func (d *decoder) arrayEvent(ev *Event) error {
	n, err := d.array()
	if err != nil {
		return err
	}
	if n == 0 {
		return errShape
	}
	if err := d.value(ev, fieldType); err != nil {
		return err
	}
	for i := range n - 1 {
		f := fieldUnknown
		if order := ev.Kind.order(); i < len(order) {
			f = order[i]
		}
		if err := d.value(ev, f); err != nil {
			return err
		}
	}
	return nil
}
