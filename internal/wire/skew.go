package wire

import (
	"fmt"
	"time"
)

// MaxSkew is how far two clocks may be apart before it is said: more than a report
// takes on a bad link, less than what confuses people who read two logs.
const MaxSkew = 5 * time.Second

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
