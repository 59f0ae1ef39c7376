package kvevents_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/internal/kvevents"
)

// array32 is the header of an array that claims n elements, map32 that of a map.
func array32(n int) []byte { return binary.BigEndian.AppendUint32([]byte{0xdd}, uint32(n)) }
func map32(n int) []byte   { return binary.BigEndian.AppendUint32([]byte{0xdf}, uint32(n)) }

// text is a short msgpack string.
func text(s string) []byte { return append([]byte{0xa0 | byte(len(s))}, s...) }

// join is a payload of these parts behind the head of a batch.
func join(parts ...[]byte) []byte {
	return append([]byte{0x93, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0}, bytes.Join(parts, nil)...)
}

// TestBombs: payloads that promise or nest much cost no more memory than a real step of that size, and no event of the
// rest is lost where the rest can be found.
//
// It measures the memory of the process, so nothing runs beside it.
func TestBombs(t *testing.T) {
	const over, deep = 1<<19 + 1, 1 << 14 // more than a batch may have, and how deep it goes
	field := func(name string) []byte { return append(text("type"), append(text("BlockStored"), text(name)...)...) }
	cleared := append([]byte{0x91}, text("AllBlocksCleared")...)
	many := func(one []byte, n int) []byte { return bytes.Repeat(one, n) }
	rows := []struct {
		name    string
		payload []byte
		fails   bool
		events  int
	}{
		{"an array of 2^32 events", join(array32(1<<32 - 1)), true, 0},
		{"a map of 2^32 fields", join([]byte{0x91}, map32(1<<32-1)), true, 0},
		{"nesting without end", join(many([]byte{0x91}, deep)), true, 0},
		{"nested maps", join([]byte{0x91}, many([]byte{0x81, 0xa0}, deep), []byte{0xc0}), false, 0},
		{"a deep event between two", join([]byte{0x93}, cleared, many([]byte{0x91}, deep), []byte{0xc0}, cleared, []byte{0}), false, 2},
		{"events that are none", join(array32(deep), many([]byte{0xc0}, deep), []byte{0}), false, 0},
		{"hashes that are none", join([]byte{0x92, 0x82}, field("block_hashes"), array32(deep), many([]byte{0xc0}, deep), cleared, []byte{0}), false, 1},
		{"too many hashes", join([]byte{0x92, 0x82}, field("block_hashes"), array32(over), many([]byte{1}, over), cleared, []byte{0}), false, 1},
		{"too many blocks' extra keys", join([]byte{0x92, 0x82}, field("extra_keys"), array32(over), many([]byte{0xc0}, over), cleared, []byte{0}), false, 1},
		{"too many keys of one block", join([]byte{0x92, 0x82}, field("extra_keys"), []byte{0x91}, array32(over), many([]byte{0xa0}, over), cleared, []byte{0}), false, 1},
		{"too many clears", join(array32(over), many(cleared, over), []byte{0}), true, 1 << 17},
		{"a string of 4 GB", join([]byte{0x91, 0x81, 0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}), true, 0},
		{"an extension of 4 GB", join([]byte{0x91, 0x81}, text("x"), []byte{0xc9, 0xff, 0xff, 0xff, 0xff, 1}), true, 0},
	}
	for _, row := range rows {
		var b kvevents.Batch
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		err := kvevents.Decode(row.payload, &b)
		runtime.ReadMemStats(&after)
		require.Equal(t, row.fails, err != nil, "%s: %v", row.name, err)
		require.Len(t, b.Events, row.events, row.name)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<28), row.name)
	}
}
