package engine

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm/internal/kvevent"
)

// Hash names the contents of one full block and of everything before it.
type Hash = kvevent.Hash

// noneHash stands before the first block. It is a constant, as vLLM's is from 0.28 on: a restarted worker gives equal
// prompts equal hashes, and so do all ranks.
func noneHash() Hash { return sha256.Sum256([]byte("fakevllm-none-hash")) }

// Scope is what, beside the tokens, decides whether two sequences may share blocks. The adapter's path is in the hash
// but not in the events, so a name that is loaded from another path gets new hashes.
type Scope struct {
	LoRAID   int // vLLM's number of the adapter; 0 is the base model
	LoRAName string
	LoRAPath string
	Salt     string // cache_salt, enters the first block only
}

// appendHashes extends a chain to all full blocks of tokens. The values are opaque: consumers must map them, not
// compute them.
func appendHashes(chain []Hash, tokens []uint32, blockSize int, scope *Scope) []Hash {
	parent := noneHash()
	if n := len(chain); n > 0 {
		parent = chain[n-1]
	}
	buf := make([]byte, 0, len(parent)+4*blockSize+64)
	for len(chain) < len(tokens)/blockSize {
		i := len(chain) * blockSize
		buf = append(buf[:0], parent[:]...)
		for _, id := range tokens[i : i+blockSize] {
			buf = binary.LittleEndian.AppendUint32(buf, id)
		}
		if scope.LoRAName != "" {
			buf = appendTagged(buf, "lora", scope.LoRAName, scope.LoRAPath)
		}
		if i == 0 && scope.Salt != "" {
			buf = appendTagged(buf, "cache_salt", scope.Salt)
		}
		parent = sha256.Sum256(buf)
		chain = append(chain, parent)
	}
	return chain
}

// appendTagged writes strings with their lengths, so that no two lists of keys give the same bytes.
func appendTagged(buf []byte, parts ...string) []byte {
	for _, s := range parts {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(len(s)))
		buf = append(buf, s...)
	}
	return buf
}

// extras are the keys that the events of block i carry: adapter name, then the salt in block 0.
func (s *Scope) extras(i int) []kvevent.Extra {
	var keys []kvevent.Extra
	if s.LoRAName != "" {
		keys = append(keys, kvevent.Extra{Name: s.LoRAName})
	}
	if i == 0 && s.Salt != "" {
		keys = append(keys, kvevent.Extra{Name: s.Salt})
	}
	return keys
}
