package wire

import "fmt"

// Count formats a number of things: "1 worker", "2 workers".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
