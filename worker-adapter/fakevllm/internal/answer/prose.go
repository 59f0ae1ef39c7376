// Package answer makes up what the simulated model says: readable sentences, JSON that satisfies a schema, calls of
// tools. Everything is a function of a seed, so the same prompt gets the same answer on every worker and every run.
package answer

import "strings"

// Rand is a splitmix64 sequence; the zero value is a valid seed.
type Rand uint64

// Next returns the next number of the sequence.
func (r *Rand) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a number from 0 to n-1.
func (r *Rand) Below(n int) int { return int(r.Next() % uint64(n)) }

// Seed mixes token ids and further numbers into a seed (FNV-1a over their bytes).
func Seed(ids []uint32, more ...uint64) Rand {
	h := uint64(0xcbf29ce484222325)
	for _, id := range ids {
		h = (h ^ uint64(id)) * 0x100000001b3
	}
	for _, n := range more {
		h = (h ^ n) * 0x100000001b3
	}
	r := Rand(h)
	r.Next()
	return r
}

var (
	openings = [...]string{
		"This answer comes from a simulated worker.", "No model was asked; this text is made up.",
		"Here is what a simulation has to say.", "A simulated model answers in plain sentences.",
	}
	subjects = [...]string{
		"The cache", "A long prompt", "The first block", "Every worker", "The scheduler", "A shared prefix",
		"The queue", "One token", "The decode phase", "A quiet server", "The next request", "Each rank",
	}
	verbs = [...]string{
		"keeps", "returns", "follows", "waits for", "remembers", "reuses", "counts", "carries", "announces", "meets",
	}
	objects = [...]string{
		"the same words", "a part of the answer", "its own history", "the oldest block", "a steady rhythm",
		"what came before", "the shortest path", "a little time", "the whole conversation", "one step at a time",
	}
	endings = [...]string{
		"", " before the rest arrives", " without being asked", " when the load is low", " and nothing is lost",
		" as long as memory lasts", " in the order of arrival",
	}
)

// Words returns whole sentences of about n words or up to twice as many. Each call goes on where the last one ended.
func (r *Rand) Words(n int) string {
	var b strings.Builder
	b.WriteString(openings[r.Below(len(openings))])
	for words := 7; words < n; words += 7 {
		b.WriteByte(' ')
		b.WriteString(subjects[r.Below(len(subjects))])
		b.WriteByte(' ')
		b.WriteString(verbs[r.Below(len(verbs))])
		b.WriteByte(' ')
		b.WriteString(objects[r.Below(len(objects))])
		b.WriteString(endings[r.Below(len(endings))])
		b.WriteByte('.')
	}
	return b.String()
}

// Thought is what stands before an answer when the model is asked to think.
func (r *Rand) Thought() string {
	return "The request is clear and the answer can be short. I will use " + objects[r.Below(len(objects))] + "."
}
