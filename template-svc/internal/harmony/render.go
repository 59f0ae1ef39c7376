package harmony

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// maxCuts bounds the pieces of a prompt, as the tokenizer service does.
const maxCuts = 65536

// names are the special tokens of gpt-oss's tokenizer.
var names = regexp.MustCompile(`<\|(?:startoftext|endoftext|return|constrain|channel|start|end|message|call|` +
	`endofprompt|reserved_[0-9]+)\|>`)

// openLen is the length of "<|", after which special tokens in plain text are cut.
const openLen = 2

// writer makes the text.
type writer struct {
	out  strings.Builder
	cuts []uint32
}

// message writes one message. Calls go from the author to a recipient; tools answer on a channel to the assistant.
func (w *writer) message(m message) {
	w.special("<|start|>")
	w.plain(m.author)
	if m.kind != "" {
		w.plain(" to=" + m.recipient)
	}
	if m.channel != "" {
		w.special("<|channel|>")
		w.plain(m.channel)
	}
	switch {
	case m.kind != "":
		w.plain(" " + m.kind)
	case m.recipient != "":
		w.plain(" to=" + m.recipient)
	}
	w.special("<|message|>")
	for i, text := range m.contents {
		if i > 0 {
			w.cut(w.out.Len())
		}
		w.plain(text)
	}
	if m.kind != "" {
		w.special("<|call|>")
		return
	}
	w.special("<|end|>")
}

// special writes a special token.
func (w *writer) special(token string) { w.out.WriteString(token) }

// plain writes text that is no special token even where it reads like one. The worker encodes it without looking for
// any. Cut after its first two characters such text is none, and the cut changes nothing else: the tokenizer's pattern
// ends a run of punctuation before a letter in any case.
func (w *writer) plain(text string) {
	for _, at := range names.FindAllStringIndex(text, -1) {
		w.cut(w.out.Len() + at[0] + openLen)
	}
	w.out.WriteString(text)
}

func (w *writer) cut(at int) {
	if len(w.cuts) == 0 || int(w.cuts[len(w.cuts)-1]) < at {
		w.cuts = append(w.cuts, uint32(min(at, math.MaxUint32)))
	}
}

func (w *writer) prompt() (Prompt, error) {
	if len(w.cuts) > maxCuts {
		return Prompt{}, fmt.Errorf("%w: the conversation has too many parts", ErrCannot)
	}
	return Prompt{Text: []byte(w.out.String()), Cuts: w.cuts}, nil
}
