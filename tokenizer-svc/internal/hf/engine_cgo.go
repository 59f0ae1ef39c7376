//go:build cgo && !nohf

package hf

/*
#include "kvmesh.h"

#cgo noescape kvmesh_encode
#cgo nocallback kvmesh_encode
#cgo noescape kvmesh_decode
#cgo nocallback kvmesh_decode
*/
import "C"

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/daulet/tokenizers"
)

const (
	modeAddSpecial  = 1
	modeForceThread = 2
)

// The sentinels of native/src/entry.rs.
const (
	panicked      = math.MinInt64
	failed        = math.MinInt64 + 1
	threadRefused = math.MinInt64 + 2
)

// Engine is one loaded tokenizer of one kind. It is safe for concurrent use; Close must come after the last call.
type Engine struct {
	kind    Kind
	threads *Threads
	handle  unsafe.Pointer
	// binding owns the handle of a Reference engine.
	binding *tokenizers.Tokenizer
}

// Load reads a tokenizer.json. The error wraps ErrLoad and quotes the engine.
//
// It does not go through the binding's FromBytes, which ends the process when the engine's message holds a NUL.
func Load(kind Kind, json []byte, threads *Threads) (*Engine, error) {
	var message [maxErrorBytes]byte
	n := C.size_t(len(message))
	handle := C.kvmesh_load(C.uint32_t(kind), bytesPtr(json), C.size_t(len(json)), bytesPtr(message[:]), &n)
	return wrap(kind, handle, message[:n], threads)
}

// LoadTiktoken reads a tiktoken ranks file. Spec is JSON: the split pattern and the added tokens with their ids.
func LoadTiktoken(kind Kind, ranks, spec []byte, threads *Threads) (*Engine, error) {
	var message [maxErrorBytes]byte
	n := C.size_t(len(message))
	handle := C.kvmesh_load_tiktoken(C.uint32_t(kind), bytesPtr(ranks), C.size_t(len(ranks)),
		bytesPtr(spec), C.size_t(len(spec)), bytesPtr(message[:]), &n)
	return wrap(kind, handle, message[:n], threads)
}

// wrap makes an engine of what a load returned, or an error of the engine's message.
func wrap(kind Kind, handle unsafe.Pointer, message []byte, threads *Threads) (*Engine, error) {
	if handle == nil {
		return nil, fmt.Errorf("%w: %q", ErrLoad, message)
	}
	e := &Engine{kind: kind, threads: threads, handle: handle}
	if kind == Reference {
		e.binding = adopt(handle)
	}
	return e, nil
}

// adopt gives a handle made by kvmesh_load to the binding, whose type holds nothing but that handle. The array's
// length makes a binding that holds more a compile error.
func adopt(handle unsafe.Pointer) *tokenizers.Tokenizer {
	var t tokenizers.Tokenizer
	var _ [unsafe.Sizeof(handle)]struct{} = [unsafe.Sizeof(t)]struct{}{}
	*(*unsafe.Pointer)(unsafe.Pointer(&t)) = handle
	return &t
}

// AppendIDs appends the ids of text to dst. Invalid UTF-8 counts as U+FFFD. addSpecial runs the post-processor's
// template (BOS and the like).
func (e *Engine) AppendIDs(dst []uint32, text []byte, addSpecial bool) ([]uint32, error) {
	if e.handle == nil {
		return dst, ErrClosed
	}
	mode := 0
	if addSpecial {
		mode = modeAddSpecial
	}
	ids, err := e.encode(dst, text, mode)
	if err == errThread {
		return e.threads.run(e, dst, text, mode|modeForceThread)
	}
	return ids, err
}

// encode calls the engine on this thread. The text and the free part of dst are read and written by the engine only
// while the call runs; cgo keeps them in place meanwhile.
func (e *Engine) encode(dst []uint32, text []byte, mode int) ([]uint32, error) {
	// Real text has 2 to 5 bytes per id; the second round is for the rest.
	dst = slices.Grow(dst, len(text)/2+16)
	for {
		free := dst[len(dst):cap(dst)]
		n := int(C.kvmesh_encode(C.uint32_t(e.kind), e.handle, bytesPtr(text), C.size_t(len(text)), C.uint32_t(mode),
			(*C.uint32_t)(unsafe.SliceData(free)), C.size_t(len(free))))
		if n >= 0 {
			return dst[:len(dst)+n], nil
		}
		if err := sentinel(n); err != nil {
			return dst, err
		}
		dst = slices.Grow(dst, -n)
	}
}

// AppendText appends the text of ids to dst. Ids outside the vocabulary are skipped, as in Python.
func (e *Engine) AppendText(dst []byte, ids []uint32, skipSpecial bool) ([]byte, error) {
	if e.handle == nil {
		return dst, ErrClosed
	}
	dst = slices.Grow(dst, len(ids)*6+16)
	for {
		free := dst[len(dst):cap(dst)]
		n := int(C.kvmesh_decode(C.uint32_t(e.kind), e.handle, (*C.uint32_t)(unsafe.SliceData(ids)), C.size_t(len(ids)),
			C.bool(skipSpecial), bytesPtr(free), C.size_t(len(free))))
		if n >= 0 {
			return dst[:len(dst)+n], nil
		}
		if err := sentinel(n); err != nil {
			return dst, err
		}
		dst = slices.Grow(dst, -n)
	}
}

// VocabSize returns the number of entries, added tokens included. Only a Reference engine knows it.
func (e *Engine) VocabSize() int {
	if e.binding == nil || e.handle == nil {
		return 0
	}
	return int(e.binding.VocabSize())
}

// Close frees the engine's memory. No other call may be running; a second Close does nothing.
func (e *Engine) Close() {
	if e.handle == nil {
		return
	}
	if e.binding != nil {
		_ = e.binding.Close()
	} else {
		C.kvmesh_free_fast(e.handle)
	}
	e.handle = nil
}

// sentinel returns the error that a negative result stands for, nil when it is a size.
func sentinel(n int) error {
	switch {
	case n == panicked:
		return ErrPanic
	case n == threadRefused:
		return errThread
	case n < math.MinInt64+16:
		return ErrEngine
	}
	return nil
}

// bytesPtr returns the address of b's first byte, which may be nil for an empty slice: the size goes with it.
func bytesPtr(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

// limitThreads sets the process's bound.
func limitThreads(n int) { C.kvmesh_limit_threads(C.size_t(n)) }

// AdmittedThreads returns how many threads of the process hold fastokens state, about 16 MiB each per recent model.
func AdmittedThreads() int { return int(C.kvmesh_admitted_threads()) }
