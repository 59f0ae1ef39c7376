package chat

import (
	"slices"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/media"
)

// composer makes one text of a message's parts for templates in the string format, as vLLM does: texts joined by line
// ends, and the placeholders of media in front, unless the message holds them already or the server interleaves.
type composer struct {
	texts []string
	// stored holds each modality's placeholders in the order of its first item.
	stored []storage
}

// storage is the items of one modality that have placeholders.
type storage struct {
	modality media.Modality
	items    []item
}

// add appends a text; empty ones vanish.
func (c *composer) add(text string) {
	if text != "" {
		c.texts = append(c.texts, text)
	}
}

// place remembers an item. With interleaving a marker, which is part of vLLM's behaviour, keeps its place.
func (c *composer) place(i item, interleave bool) {
	if interleave {
		c.texts = append(c.texts, marker(i.modality))
	}
	if i.text == "" {
		return
	}
	for k := range c.stored {
		if c.stored[k].modality == i.modality {
			c.stored[k].items = append(c.stored[k].items, i)
			return
		}
	}
	c.stored = append(c.stored, storage{i.modality, []item{i}})
}

// marker is what vLLM writes for an item until it knows the placeholder; a client's own text of that form counts too.
func marker(m media.Modality) string { return "<##" + strings.ToUpper(string(m)) + "##>" }

// text joins what was added.
func (c *composer) text(interleave bool) (string, error) {
	if len(c.stored) == 0 {
		return strings.Join(c.texts, "\n"), nil
	}
	texts := c.texts
	if interleave {
		var err error
		if texts, err = c.interleaved(); err != nil {
			return "", err
		}
	}
	text := strings.Join(texts, "\n")
	var parts []string
	for _, p := range c.placeholders() {
		missing := p.count - strings.Count(text, p.text)
		if missing < 0 {
			return "", refuse("messages", "the text holds more placeholders than there are media items")
		}
		parts = append(parts, slices.Repeat([]string{p.text}, missing)...)
	}
	if text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n"), nil
}

// interleaved puts placeholders where their markers stand.
func (c *composer) interleaved() ([]string, error) {
	used := map[string]int{}
	out := slices.Clone(c.texts)
	for i, text := range out {
		for _, s := range c.stored {
			if text != marker(s.modality) {
				continue
			}
			if used[text] == len(s.items) {
				return nil, refuse("messages", "the text holds more placeholders than there are media items")
			}
			out[i] = s.items[used[text]].text
			used[text]++
		}
	}
	return out, nil
}

// counted is a placeholder and how many items have it.
type counted struct {
	text  string
	count int
}

// placeholders lists distinct placeholders in order.
func (c *composer) placeholders() []counted {
	var out []counted
	known := map[string]int{}
	for _, s := range c.stored {
		for _, i := range s.items {
			at, ok := known[i.text]
			if !ok {
				at = len(out)
				known[i.text] = at
				out = append(out, counted{text: i.text})
			}
			out[at].count++
		}
	}
	return out
}

// firstKind begins a second plane of private characters, one for each distinct placeholder of a message.
const firstKind = 0x100000

// marked replaces the placeholders in a composed text by the sentinels of their items, in one pass over the text.
func (c *composer) marked(text string) string {
	kinds, queues := map[string]rune{}, map[rune][]item{}
	var pairs []string
	for k, p := range c.placeholders() {
		kinds[p.text] = rune(firstKind + k)
		pairs = append(pairs, p.text, string(kinds[p.text]))
	}
	for _, s := range c.stored {
		for _, i := range s.items {
			queues[kinds[i.text]] = append(queues[kinds[i.text]], i)
		}
	}
	var out strings.Builder
	for _, r := range strings.NewReplacer(pairs...).Replace(text) {
		if queue := queues[r]; len(queue) > 0 {
			out.WriteString(queue[0].sentinel())
			queues[r] = queue[1:]
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}
