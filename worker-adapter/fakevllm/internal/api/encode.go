package api

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/pyjson"
)

// appendString writes a JSON string.
func appendString(dst []byte, s string) []byte { return pyjson.AppendString(dst, s) }

// appendInts writes a list of ids without spaces.
func appendInts(dst []byte, ids []uint32) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, uint64(id), 10)
	}
	return append(dst, ']')
}

// appendIDs writes the ids if they were asked for, else null.
func appendIDs(dst []byte, ids []uint32, want bool) []byte {
	if !want {
		return append(dst, "null"...)
	}
	return appendInts(dst, ids)
}

// appendInt writes what stands before a number, usually its key, and the number.
func appendInt(dst []byte, key string, n int) []byte {
	return strconv.AppendInt(append(dst, key...), int64(n), 10)
}

// randomHex returns n random bytes in hex; identifiers are random as vLLM's are.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, says its documentation
	return hex.EncodeToString(b)
}
