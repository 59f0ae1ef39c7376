//go:build !cgo || nohf

package hf

// Engine is one loaded tokenizer of one kind; this build has none.
type Engine struct{}

// Load returns ErrUnavailable.
func Load(Kind, []byte, *Threads) (*Engine, error) { return nil, ErrUnavailable }

// LoadTiktoken returns ErrUnavailable.
func LoadTiktoken(_ Kind, _, _ []byte, _ *Threads) (*Engine, error) { return nil, ErrUnavailable }

// AppendIDs returns ErrUnavailable.
func (e *Engine) AppendIDs(dst []uint32, _ []byte, _ bool) ([]uint32, error) {
	return dst, ErrUnavailable
}

// AppendText returns ErrUnavailable.
func (e *Engine) AppendText(dst []byte, _ []uint32, _ bool) ([]byte, error) {
	return dst, ErrUnavailable
}

// VocabSize returns 0.
func (e *Engine) VocabSize() int { return 0 }

// Close does nothing.
func (e *Engine) Close() {}

func (e *Engine) encode(dst []uint32, _ []byte, _ int) ([]uint32, error) { return dst, ErrUnavailable }

func limitThreads(int) {}

// AdmittedThreads returns 0.
func AdmittedThreads() int { return 0 }
