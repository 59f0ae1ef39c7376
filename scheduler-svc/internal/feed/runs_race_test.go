//go:build race

package feed

// runs is the number of seeded worlds under the race detector, which makes each ten times as dear; the same command
// runs all of them without it.
const runs = 1_000
