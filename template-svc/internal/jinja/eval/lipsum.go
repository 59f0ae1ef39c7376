package eval

import (
	"strconv"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// lipsum and random draw from a fixed sequence: a prompt that differs from
// render to render would never meet a cached block.

// loremWords feed lipsum.
const loremWords = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor incididunt ut labore " +
	"et dolore magna aliqua enim ad minim veniam quis nostrud exercitation ullamco laboris nisi"

var lipsumSignature = newSignature("generate_lorem_ipsum", 0, "n", "html", "min", "max")

// lipsum makes filler text. Jinja2 draws it at random; here a render always
// gives the same.
func lipsum(r *run, a *args) (value.Value, error) {
	b, err := lipsumSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	var size [3]int64
	for i, def := range []int64{5, 20, 100} {
		arg := b[[]int{0, 2, 3}[i]]
		if size[i], err = asInt(arg, def); err != nil {
			return value.Value{}, err
		}
	}
	asHTML := isMissing(b[1]) || b[1].Truth()
	words := strings.Fields(loremWords)
	if size[1] >= size[2] {
		return value.Value{}, valueError("empty range for randrange() (" + strconv.FormatInt(size[1], 10) + ", " +
			strconv.FormatInt(size[2], 10) + ", " + strconv.FormatInt(size[2]-size[1], 10) + ")")
	}
	p := value.Printer{Meter: &r.m}
	for i := range size[0] {
		if err := lipsumParagraph(r, &p, words, size[1]+int64(r.random(uint64(size[2]-size[1]))), i > 0, asHTML); err != nil {
			return value.Value{}, err
		}
	}
	return value.StrOfBytes(p.Buf).WithMarkup(asHTML), nil
}

// lipsumParagraph writes one paragraph of n words.
func lipsumParagraph(r *run, p *value.Printer, words []string, n int64, follows, asHTML bool) error {
	open, end := "\n\n", "."
	if asHTML {
		open, end = "\n<p>", ".</p>"
	}
	if !follows {
		open = strings.TrimLeft(open, "\n")
	}
	if err := p.Write(open); err != nil {
		return err
	}
	for i := range n {
		w := words[r.random(uint64(len(words)))]
		if i == 0 {
			w = value.Capitalize(w)
		} else {
			w = " " + w
		}
		if err := r.m.Step(); err != nil {
			return err
		}
		if err := p.Write(w); err != nil {
			return err
		}
	}
	return p.Write(end)
}

// random gives a number below n from a fixed sequence (xorshift).
func (r *run) random(n uint64) uint64 {
	r.seed ^= r.seed << 13
	r.seed ^= r.seed >> 7
	r.seed ^= r.seed << 17
	return r.seed % n
}
