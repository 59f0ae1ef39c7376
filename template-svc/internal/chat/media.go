package chat

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/zeebo/xxh3"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
	"github.com/kvmesh/kvmesh/template-svc/internal/media"
)

// Media is what is known of a prompt with image, audio or video parts. The worker replaces each placeholder by as many
// tokens as the item needs, so units are exact before the first placeholder and unknown after it.
type Media struct {
	// Keys has one key per media part, in the order of the conversation: equal items have equal keys.
	Keys []string
	// ExactBytes is the length of the text before the first placeholder.
	ExactBytes int
	// Rest is the text after that, with keys in the places of media; those without a place come first.
	Rest []Piece
}

// Piece is text, or the key of a media item: equal items have equal keys.
type Piece struct {
	Text []byte
	Key  string
}

// item is one media part of the conversation.
type item struct {
	number   int
	modality media.Modality
	// text is the placeholder; empty where the model adds none.
	text string
	key  string
}

// firstSentinel begins a plane of private characters: one stands for each media item in the marked rendering.
const firstSentinel = 0xF0000

// maxItems bounds the placeholders that are looked for in a text; vLLM takes 999 of a modality by default.
const maxItems = 4096

func (i item) sentinel() string { return string(rune(firstSentinel + i.number)) }

// modalityOf gives the modality of a media part's type.
func modalityOf(kind string) (media.Modality, bool) {
	switch kind {
	case "image_url", "input_image", "image_pil", "image_embeds":
		return media.Image, true
	case "input_audio", "audio_url", "audio_embeds":
		return media.Audio, true
	case "video_url", "video_embeds":
		return media.Video, true
	}
	return "", false
}

// item counts a media part and finds its placeholder. Raw media and embeddings of one modality are counted apart.
func (n *normaliser) item(kind string, cell, content value.Value) (item, error) {
	modality, ok := modalityOf(kind)
	if !ok || len(n.items) >= maxItems {
		return item{}, refuse("messages", "a content part has an unknown type, or there are too many")
	}
	counted := string(modality)
	if strings.HasSuffix(kind, "_embeds") {
		counted = kind
	}
	if n.counts == nil {
		n.counts = map[string]int{}
	}
	n.counts[counted]++
	i := item{number: len(n.items), modality: modality}
	if n.places != nil {
		if i.text, ok = n.places.Text(modality, n.counts[counted]); !ok {
			return item{}, refuse("messages", "the model takes no %s", modality)
		}
	}
	if !n.mark {
		i.key = keyOf(modality, cell, content)
	}
	n.items = append(n.items, i)
	return i, nil
}

// keyOf tells media items apart by what the request says of them: the uuid, the address, or the data themselves.
func keyOf(modality media.Modality, cell, content value.Value) string {
	var h xxh3.Hasher
	_, _ = h.WriteString(string(modality))
	if id, ok := present(cell, "uuid"); ok && id.IsStr() {
		_, _ = h.WriteString("\x00uuid\x00" + id.AsStr())
	} else {
		writeValue(&h, content)
	}
	sum := h.Sum128().Bytes()
	return hex.EncodeToString(sum[:])
}

// writeValue feeds the texts of a value to the hash; numbers and the like occur only as options beside them.
func writeValue(h *xxh3.Hasher, v value.Value) {
	switch {
	case v.IsStr():
		_, _ = h.WriteString("\x00" + v.AsStr())
	case v.Kind() == value.KindDict:
		for _, e := range v.AsDict().Entries() {
			writeValue(h, e.Key)
			writeValue(h, e.Val)
		}
	case v.Kind() == value.KindList:
		for _, c := range v.Cells() {
			writeValue(h, c)
		}
	}
}

// mediaOf finds how far the prompt is exact. It renders the conversation once more with a sentinel in place of each
// item: both texts agree up to the first placeholder, wherever the template puts it.
func (m *Model) mediaOf(ctx context.Context, t *compiled, s settings, run rendering) (Media, error) {
	n := run.n
	var out Media
	for _, i := range n.items {
		out.Keys = append(out.Keys, i.key)
	}
	marker := normaliser{openai: n.openai, rules: n.rules, places: n.places, interleave: n.interleave, mark: true}
	marked, err := marker.messages(run.list, t.quotesDeveloper)
	if err != nil {
		return out, err
	}
	text, err := m.render(ctx, t, s, conversationOf{marked, run.tools})
	if err != nil {
		return out, err
	}
	pieces := split(text, n.items)
	if first := len(pieces[0].Text); placed(n, run.text, pieces) {
		out.ExactBytes = commonPrefix(run.text, text[:first])
	}
	pieces[0].Text = pieces[0].Text[min(out.ExactBytes, len(pieces[0].Text)):]
	out.Rest = append(unplaced(out.Keys, pieces), pieces...)
	return out, nil
}

// unplaced gives the keys that no piece has.
func unplaced(keys []string, pieces []Piece) []Piece {
	seen := map[string]int{}
	for _, p := range pieces {
		seen[p.Key]++
	}
	var out []Piece
	for _, key := range keys {
		if seen[key]--; seen[key] < 0 {
			out = append(out, Piece{Key: key})
		}
	}
	return out
}

// rendering is a finished run of the template and what it was made of.
type rendering struct {
	n     *normaliser
	list  value.Value
	tools value.Value
	text  []byte
}

// placed reports whether the media's tokens come where the prompt has its placeholders. Where neither the model nor the
// template writes one, the model's processor puts them anywhere, mostly at the very front.
func placed(n *normaliser, text []byte, pieces []Piece) bool {
	if len(pieces) == 1 {
		return false
	}
	if !n.openai {
		for _, i := range n.items {
			if i.text == "" {
				return false
			}
		}
		return true
	}
	var bare []byte
	for _, p := range pieces {
		bare = append(bare, p.Text...)
	}
	return !bytes.Equal(bare, text)
}

// split cuts a marked text at its sentinels. The first piece is always text.
func split(text []byte, items []item) []Piece {
	pieces := []Piece{{}}
	start := 0
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if number := int(r) - firstSentinel; number >= 0 && number < len(items) {
			pieces[len(pieces)-1].Text = text[start:at]
			pieces = append(pieces, Piece{Key: items[number].key}, Piece{})
			start = at + size
		}
		at += size
	}
	pieces[len(pieces)-1].Text = text[start:]
	return pieces
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
