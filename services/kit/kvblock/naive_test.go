package kvblock_test

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/kvmesh/kvmesh/services/kit/kvblock"
)

// The naive model spells the scheme out: everything is written number by number into a fresh buffer and hashed.

func naiveRoot(n kvblock.Namespace) uint64 {
	var b bytes.Buffer
	for _, s := range []string{n.Model, n.LoRA} {
		b.Write(binary.AppendUvarint(nil, uint64(len(s))))
		b.WriteString(s)
	}
	return xxh3.HashSeed(b.Bytes(), 0x6b766d6573683031)
}

func naiveExtra(x kvblock.Extra) []byte {
	var b bytes.Buffer
	record := func(tag byte, s string) {
		b.WriteByte(tag)
		put(&b, uint64(len(s)), 4)
		b.WriteString(s)
	}
	if x.Salt != "" {
		record(1, x.Salt)
	}
	for _, it := range x.Items {
		record(2, it.Key)
		put(&b, uint64(it.OffsetTokens), 8)
	}
	return b.Bytes()
}

func naiveChain(root uint64, ids []uint32, tokens int, extraOf func(int) []byte) []uint64 {
	if tokens != 16 {
		var b bytes.Buffer
		put(&b, uint64(tokens), 8)
		root = xxh3.HashSeed(b.Bytes(), root)
	}
	var out []uint64
	prev := root
	for unit := 0; (unit+1)*tokens <= len(ids); unit++ {
		var b bytes.Buffer
		put(&b, prev, 8)
		for _, id := range ids[unit*tokens : (unit+1)*tokens] {
			put(&b, uint64(id), 4)
		}
		b.Write(extraOf(unit))
		prev = xxh3.HashSeed(b.Bytes(), root)
		out = append(out, prev)
	}
	return out
}

// put writes the low n bytes of v, lowest first.
func put(b *bytes.Buffer, v uint64, n int) {
	for range n {
		b.WriteByte(byte(v))
		v >>= 8
	}
}

func saltFirst(salt string) func(int) []byte {
	return func(unit int) []byte {
		if unit > 0 {
			return nil
		}
		return naiveExtra(kvblock.Extra{Salt: salt})
	}
}
