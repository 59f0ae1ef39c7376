//go:build cgo && !nohf

package hf

// EncodeNaive is the binding's own call, which most programs would make: ids and token strings, copied.
func (e *Engine) EncodeNaive(text string) []uint32 {
	ids, _ := e.binding.Encode(text, false)
	return ids
}
