//go:build race

package feed

// runs is the number of seeded worlds under the race detector, which makes each twenty times as dear and finds nothing in
// worlds of one goroutine each; the same command runs all of them without it.
const runs = 200
