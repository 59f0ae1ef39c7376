package policy

import (
	"cmp"
	"math"
	"slices"
)

// scorer fills the cost and terms of the eligible targets; ranked does the rest.
type scorer interface {
	terms() []string
	score(d *decision, out []Scored)
}

// decision is one request with its views. While it is scored, Scored.Target is an index into the views.
type decision struct {
	req   *Request
	views []View
}

func (d *decision) view(s *Scored) *View { return &d.views[s.Target] }

type ranked struct {
	name     string
	scorer   scorer
	terms    []string
	units    string
	patience float64
	hits     hits
}

func (p *ranked) Name() string { return p.name }

func (p *ranked) Rank(req *Request, views []View, out *Ranking) {
	out.Scored, out.Terms, out.Session, out.units = out.Scored[:0], p.terms, false, p.units
	for i := range views {
		if Eligible(req, &views[i]) == NotBarred {
			out.Scored = append(out.Scored, Scored{Target: i, tie: mix(req.Seed ^ mix(views[i].ID))})
		}
	}
	if len(out.Scored) == 0 {
		return
	}
	d := &out.scratch
	*d = decision{req: req, views: views}
	p.scorer.score(d, out.Scored)
	out.order()
	out.Session = p.keepSession(d, out.Scored)
	*d = decision{}
	for i := range out.Scored {
		out.Scored[i].Target = views[out.Scored[i].Target].Target
	}
}

// Eligible returns why the target cannot take the request, or NotBarred. A prompt that leaves no room for its first
// token can never be admitted.
func Eligible(req *Request, v *View) Bar {
	if v.Bar == NotBarred && v.KVCapacityTokens > 0 && req.PromptTokens >= v.KVCapacityTokens {
		return BarCapacity
	}
	return v.Bar
}

// keepSession moves the session's home to the front unless the best target is faster by more than the patience.
func (p *ranked) keepSession(d *decision, s []Scored) bool {
	for i := range s {
		if !d.view(&s[i]).SessionHome {
			continue
		}
		home, best := p.hits.ttft(d.req, d.view(&s[i])), p.hits.ttft(d.req, d.view(&s[0]))
		if home > best+p.patience {
			return false
		}
		kept := s[i]
		copy(s[1:i+1], s[:i])
		s[0] = kept
		return true
	}
	return false
}

// key is what a ranking is sorted by; small, so that sorting moves little.
type key struct {
	cost float64
	tie  uint64
	at   int
}

func (a key) before(b key) bool { return a.cost < b.cost || a.cost == b.cost && a.tie < b.tie }

// order sorts the ranking by cost, then by the seeded tie. NaN sorts last.
func (r *Ranking) order() {
	r.keys = r.keys[:0]
	for i := range r.Scored {
		s := &r.Scored[i]
		if math.IsNaN(s.Cost) {
			s.Cost = math.Inf(1)
		}
		r.keys = append(r.keys, key{s.Cost, s.tie, i})
	}
	sortKeys(r.keys)
	r.spare = r.spare[:0]
	for _, k := range r.keys {
		r.spare = append(r.spare, r.Scored[k.at])
	}
	r.Scored, r.spare = r.spare, r.Scored
}

// fewKeys is up to where insertion beats the library's sort.
const fewKeys = 24

func sortKeys(keys []key) {
	if len(keys) > fewKeys {
		slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.tie, b.tie)) })
		return
	}
	for i := 1; i < len(keys); i++ {
		x, j := keys[i], i
		for ; j > 0 && x.before(keys[j-1]); j-- {
			keys[j] = keys[j-1]
		}
		keys[j] = x
	}
}

// mix is a bijective 64-bit finaliser: close inputs give unrelated outputs.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
