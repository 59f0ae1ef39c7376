// Package media knows which text vLLM puts into a conversation for an image, audio or video part.
//
// Templates in the openai content format write such text themselves. For all others vLLM does, and what it writes is
// code of the model's class: the table is made from those classes (internal/chat/testdata/make_media.py).
package media

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed placeholders.tsv
var placeholders string

// Modality is image, audio or video.
type Modality string

// The modalities of vLLM's chat requests.
const (
	Image Modality = "image"
	Audio Modality = "audio"
	Video Modality = "video"
)

// Model holds one architecture's placeholders. A nil Model stands for an architecture that the table lacks.
type Model struct{ texts map[Modality]string }

// none marks a modality for which the model adds no text.
const none = "-"

// Of finds an architecture as config.json names it; nil when vLLM 0.32 has no multimodal model of that name.
func Of(architecture string) *Model {
	if architecture == "" {
		return nil
	}
	m := &Model{texts: map[Modality]string{}}
	for line := range strings.Lines(placeholders) {
		rest, ok := strings.CutPrefix(line, architecture+"\t")
		if !ok {
			continue
		}
		modality, text, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), "\t")
		m.texts[Modality(modality)] = text
	}
	if len(m.texts) == 0 {
		return nil
	}
	return m
}

// Text gives the placeholder of the n-th item (from 1) of its kind; empty where the model adds none. ok is false for
// a modality that the model does not take.
func (m *Model) Text(modality Modality, n int) (text string, ok bool) {
	text, ok = m.texts[modality]
	if text == none {
		return "", ok
	}
	return strings.ReplaceAll(text, "{i}", strconv.Itoa(n)), ok
}
