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

// decision is one request with its views and what a scorer needs of both.
type decision struct {
	req   *Request
	views []View
	at    []Scored // eligible targets; Scored.Target is still an index into views
}

func (d *decision) view(s *Scored) *View { return &d.views[s.Target] }

type ranked struct {
	name     string
	scorer   scorer
	terms    []string
	patience float64
	hits     hits
}

func (p *ranked) Name() string { return p.name }

func (p *ranked) Rank(req *Request, views []View, out *Ranking) {
	out.Scored, out.Terms, out.Session = out.Scored[:0], p.terms, false
	for i := range views {
		if Eligible(req, &views[i]) == NotBarred {
			out.Scored = append(out.Scored, Scored{Target: i, tie: mix(req.Seed ^ mix(views[i].ID))})
		}
	}
	if len(out.Scored) == 0 {
		return
	}
	d := decision{req: req, views: views, at: out.Scored}
	p.scorer.score(&d, out.Scored)
	order(out.Scored)
	out.Session = p.keepSession(&d, out.Scored)
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

// order sorts by cost, then by the seeded tie. NaN sorts last.
func order(s []Scored) {
	for i := range s {
		if math.IsNaN(s[i].Cost) {
			s[i].Cost = math.Inf(1)
		}
	}
	if len(s) > 24 {
		slices.SortFunc(s, func(a, b Scored) int {
			return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.tie, b.tie))
		})
		return
	}
	for i := 1; i < len(s); i++ {
		x, j := s[i], i
		for ; j > 0 && (x.Cost < s[j-1].Cost || x.Cost == s[j-1].Cost && x.tie < s[j-1].tie); j-- {
			s[j] = s[j-1]
		}
		s[j] = x
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
