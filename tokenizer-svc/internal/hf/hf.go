// Package hf is the one package that links the tokenizer engines: the Hugging Face crate through daulet/tokenizers
// (Reference) and fastokens (Fast), both in one static archive built by tools/libtokenizers.
//
// Text crosses with its length, so NUL is an ordinary byte; ids land in the caller's buffer; a panic or an error of an
// engine comes back as one of the errors below and never carries text. Without cgo, or with the build tag nohf, every
// load returns ErrUnavailable and nothing links against the archive.
package hf

import "errors"

// Kind names an engine.
type Kind uint32

const (
	// Reference is the Hugging Face crate: exact by definition, about 1 µs per token.
	Reference Kind = 0
	// Fast is fastokens: about 100 times faster, used where a check against Reference passes.
	Fast Kind = 1
)

// String returns the name used in metrics and in the API.
func (k Kind) String() string {
	if k == Fast {
		return "fast"
	}
	return "reference"
}

var (
	// ErrUnavailable says that this binary was built without the native engines.
	ErrUnavailable = errors.New("this build has no tokenizer engines (it was made with CGO_ENABLED=0 or the tag nohf)")
	// ErrPanic says that the engine panicked on this input; it stays usable.
	ErrPanic = errors.New("the tokenizer engine panicked on this input")
	// ErrEngine says that the engine refused this input.
	ErrEngine = errors.New("the tokenizer engine refused this input")
	// ErrClosed says that the engine was closed before the call.
	ErrClosed = errors.New("the tokenizer engine is closed")
	// ErrLoad wraps the engine's own words when it cannot use a tokenizer file.
	ErrLoad = errors.New("the engine cannot use this tokenizer")

	// errThread says that the calling thread may not hold fastokens state; Threads runs the call elsewhere.
	errThread = errors.New("thread refused")
)

// maxErrorBytes bounds the message an engine may give for a failed load.
const maxErrorBytes = 1024
