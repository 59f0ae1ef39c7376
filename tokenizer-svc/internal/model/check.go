package model

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/definition"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/probe"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/segment"
)

// affix is what add_special_tokens puts around the ids of a text; known when it is the same for every text.
type affix struct {
	before, after []uint32
	known         bool
}

func equal(a, b []uint32) bool { return slices.Equal(a, b) }

// check encodes the probes, texts of the model's own chat template among them, by every way that Encode may take and
// turns off those that differ from the reference. Only a failing reference is an error.
func (m *Model) check(def *definition.Definition) error {
	added := make([]string, len(def.Added))
	for i, token := range def.Added {
		added[i] = token.Content
	}
	texts := append(probe.Texts(added), probe.OfTemplate(def.Template)...)
	plain, special, err := m.expected(texts)
	if err != nil {
		return err
	}
	m.affix = affixOf(plain, special)
	engine := m.reference
	if m.fast != nil {
		if why := m.checkFast(texts, plain, special); why != "" {
			m.fastRefused.Store(&why)
		} else {
			engine = m.fast
		}
	}
	m.active.Store(&engine)
	return m.checkCuts(def.Cut, texts, plain)
}

// expected encodes the probes with the reference, without and with special tokens.
func (m *Model) expected(texts [][]byte) (plain, special [][]uint32, err error) {
	for i, text := range texts {
		ids, err := m.reference.AppendIDs(nil, text, false)
		if err == nil && len(ids) == 0 && len(bytes.TrimSpace(text)) > 0 && text[0] < 0x80 && text[0] > ' ' {
			err = errEmpty
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reference engine on probe %d: %w", i, err)
		}
		plain = append(plain, ids)
		if ids, err = m.reference.AppendIDs(nil, text, true); err != nil {
			return nil, nil, fmt.Errorf("reference engine on probe %d: %w", i, err)
		}
		special = append(special, ids)
	}
	return plain, special, nil
}

// checkFast returns why the fast engine cannot be used, empty when it gave the same ids for every probe.
func (m *Model) checkFast(texts [][]byte, plain, special [][]uint32) string {
	var ids []uint32
	for i, text := range texts {
		for _, addSpecial := range []bool{false, true} {
			want := plain[i]
			if addSpecial {
				want = special[i]
			}
			var err error
			if ids, err = m.fast.AppendIDs(ids[:0], text, addSpecial); err != nil {
				return fmt.Sprintf("the fast engine fails on probe %d: %v", i, err)
			}
			if !equal(ids, want) {
				return fmt.Sprintf("the fast engine differs from the reference on probe %d", i)
			}
		}
	}
	return ""
}

// checkCuts sets the cutter if pieces give the ids of the whole for every probe.
func (m *Model) checkCuts(cut definition.Cut, texts [][]byte, plain [][]uint32) error {
	m.cutRefused = cut.Refused
	if m.cache == nil {
		m.cutRefused = "segment caching is off"
		return nil
	}
	cutter := segment.NewCutter(cut)
	if cutter == nil {
		return nil
	}
	for i, text := range texts {
		same, err := cutExactly(cutter, m.reference, text, plain[i])
		if err != nil {
			return fmt.Errorf("reference engine on pieces of probe %d: %w", i, err)
		}
		if !same {
			m.cutRefused = fmt.Sprintf("pieces of probe %d do not give the ids of the whole", i)
			return nil
		}
	}
	m.cutter = cutter
	return nil
}

// affixOf finds what special tokens add around every text. The longest text tells it, all others must agree.
func affixOf(plain, special [][]uint32) affix {
	longest := 0
	for i := range plain {
		if len(plain[i]) > len(plain[longest]) {
			longest = i
		}
	}
	extra := len(special[longest]) - len(plain[longest])
	for n := 0; n <= extra; n++ {
		a := affix{before: special[longest][:n], after: special[longest][len(special[longest])-extra+n:], known: true}
		if a.fits(plain, special) {
			return a
		}
	}
	return affix{}
}

// fits reports whether the affix explains every probe.
func (a affix) fits(plain, special [][]uint32) bool {
	for i := range plain {
		if !equal(slices.Concat(a.before, plain[i], a.after), special[i]) {
			return false
		}
	}
	return true
}
