//go:build !race

package feed

// runs is the number of seeded worlds of the test.
const runs = 12_000
