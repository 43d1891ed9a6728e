package apiv1

import (
	"fmt"
	"time"
)

// SkewProblem says in words that the clock of a node is seconds ahead of (negative:
// behind) the one of who it reports to; "" for 0.
func SkewProblem(node, than string, seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	switch {
	case d > 0:
		return fmt.Sprintf("the clock of %s is %s ahead of that of %s: set both (NTP)", node, d, than)
	case d < 0:
		return fmt.Sprintf("the clock of %s is %s behind that of %s: set both (NTP)", node, -d, than)
	}
	return ""
}
