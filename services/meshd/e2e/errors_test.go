package e2e

import "fmt"

func errStatus(a answer) error { return fmt.Errorf("status %d: %s", a.status, a.body) }

func errCount(what string, got, want int) error {
	return fmt.Errorf("%s: %d, want %d", what, got, want)
}
