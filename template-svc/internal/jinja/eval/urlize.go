package eval

import (
	"regexp"
	"sort"
	"strings"

	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/pyerr"
	"github.com/kvmesh/kvmesh/template-svc/internal/jinja/value"
)

// urlize splits at whitespace and looks at each word by itself, with
// patterns that take linear time.

// The shapes that urlize knows: web addresses, mail addresses, schemes.
var (
	webPattern = regexp.MustCompile(`(?i)^(?:(?:https?://|www\.)(?:(?:[\pL\pN_%-]+\.)+)?(?:[a-z]{2,63}|xn--[\pL\pN_%]{2,59})` +
		`|(?:[\pL\pN_%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)` +
		`|https?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\]))` +
		`(?::\d{1,5})?(?:[/?#]\S*)?$`)
	mailPattern   = regexp.MustCompile(`^\S+@[\pL\pN_][\pL\pN_.-]*\.[\pL\pN_]+$`)
	schemePattern = regexp.MustCompile(`^(?:[\pL\pN_.+-]{2,}:(?:/){0,2})$`)
	headPattern   = regexp.MustCompile(`^(?:[(<]|&lt;)+`)
	tailPattern   = regexp.MustCompile(`(?:[)>.,\n]|&gt;)+$`)
)

var urlizeSignature = &signature{
	name: "do_urlize", required: 1, hidden: 1,
	params: []string{"value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes"},
}

// linker holds what urlize puts into each link.
type linker struct {
	limit   int // of the shown address, -1 for none
	rel     string
	target  string
	schemes []string
}

// urlizeFilter is urlize: web and mail addresses of an escaped text as
// links.
func urlizeFilter(r *run, a *args) (value.Value, error) {
	b, err := urlizeSignature.bind(a)
	if err != nil {
		return value.Value{}, err
	}
	l := linker{limit: -1}
	if given(b[1]) {
		n, err := asInt(b[1], 0)
		if err != nil {
			return value.Value{}, err
		}
		l.limit = int(min(max(n, 0), 1<<30))
	}
	rel := map[string]bool{"noopener": true}
	for _, w := range value.SplitSpace(b[4].Text(), -1) {
		rel[w] = true
	}
	if b[2].Truth() {
		rel["nofollow"] = true
	}
	words := sortedNames(rel)
	sort.Strings(words)
	l.rel = ` rel="` + value.Escape(strings.Join(words, " ")) + `"`
	if b[3].IsStr() && b[3].AsStr() != "" {
		l.target = ` target="` + value.Escape(b[3].AsStr()) + `"`
	}
	if given(b[5]) {
		if err := l.addSchemes(r, b[5]); err != nil {
			return value.Value{}, err
		}
	}
	s, err := escaped(r, b[0])
	if err != nil {
		return value.Value{}, err
	}
	if err := r.m.Work(wordSteps * len(s)); err != nil {
		return value.Value{}, err
	}
	p := value.Printer{Meter: &r.m}
	for s != "" {
		end := strings.IndexFunc(s, value.IsSpace)
		if end == 0 {
			end = strings.IndexFunc(s, func(c rune) bool { return !value.IsSpace(c) })
		}
		if end < 0 {
			end = len(s)
		}
		if err := r.m.Work(end); err != nil {
			return value.Value{}, err
		}
		if err := p.Write(l.word(s[:end])); err != nil {
			return value.Value{}, err
		}
		s = s[end:]
	}
	return value.StrOfBytes(p.Buf).WithMarkup(r.autoescape), nil
}

// addSchemes reads extra_schemes: FilterArgumentError for what is no
// scheme.
func (l *linker) addSchemes(r *run, v value.Value) error {
	return iterate(r, v, func(v value.Value) error {
		if !schemePattern.MatchString(v.Text()) {
			shown, err := value.ReprOf(&r.m, v)
			if err != nil {
				return err
			}
			return pyerr.New(pyerr.FilterArgument, shown+" is not a valid URI scheme prefix.")
		}
		l.schemes = append(l.schemes, v.Text())
		return r.m.Bytes(cellBytes)
	})
}

// word links one word, brackets and closing punctuation left outside.
func (l *linker) word(word string) string {
	head := headPattern.FindString(word)
	middle := word[len(head):]
	tail := tailPattern.FindString(middle)
	middle = middle[:len(middle)-len(tail)]
	for _, pair := range [...][2]string{{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}} {
		open := strings.Count(middle, pair[0])
		if open <= strings.Count(middle, pair[1]) {
			continue
		}
		end := 0
		for range min(open, strings.Count(tail, pair[1])) {
			end += strings.Index(tail[end:], pair[1]) + len(pair[1])
		}
		middle += tail[:end]
		tail = tail[end:]
	}
	return head + l.link(middle) + tail
}

// link makes a link of an address, or gives the text back.
func (l *linker) link(s string) string {
	isWeb := strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")
	switch {
	case webPattern.MatchString(s):
		href := s
		if !isWeb {
			href = "https://" + s
		}
		return `<a href="` + href + `"` + l.rel + l.target + `>` + l.shown(s) + `</a>`
	case strings.HasPrefix(s, "mailto:") && mailPattern.MatchString(s[7:]):
		return `<a href="` + s + `">` + s[7:] + `</a>`
	case strings.Contains(s, "@") && !strings.HasPrefix(s, "www.") && !strings.HasPrefix(s, "@") &&
		!strings.Contains(s, ":") && mailPattern.MatchString(s):
		return `<a href="mailto:` + s + `">` + s + `</a>`
	}
	for _, scheme := range l.schemes {
		if s != scheme && strings.HasPrefix(s, scheme) {
			s = `<a href="` + s + `"` + l.rel + l.target + `>` + s + `</a>`
		}
	}
	return s
}

// shown is the address as shown, cut to the limit.
func (l *linker) shown(s string) string {
	if l.limit >= 0 && value.RuneCount(s) > l.limit {
		return s[:value.Offset(s, l.limit)] + "..."
	}
	return s
}
