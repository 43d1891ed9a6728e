package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count of the requests that instances have answered, and how many of these failed.
type Count struct{ Requests, Failed uint64 }

// The rule of Worse. It stopped 6 of 1800 simulated rollouts in which the new revision fails as
// often as the old one (0 to 50 % of requests), each judged 300 times: see the tests.
const (
	// leastFailed is the number after which a router ejects an instance (eject.OutlierAfter): one
	// that always fails may have no more failures for minutes.
	leastFailed = 5
	sigmas      = 2.576
	// MemoryOfCounts is how many requests of the new revision are remembered. Beyond it the counts
	// of both sides are halved, so that a late fault is noticed as soon as an early one.
	MemoryOfCounts = 4000
)

// Add adds to one side of a comparison.
func (c *Count) Add(more Count) {
	more.Failed = min(more.Failed, more.Requests)
	c.Requests, c.Failed = c.Requests+more.Requests, c.Failed+more.Failed
}

// Fade halves both counts once those of the new side (after) exceed the memory.
func Fade(before, after *Count) {
	for after.Requests > MemoryOfCounts {
		for _, c := range []*Count{before, after} {
			c.Requests, c.Failed = c.Requests/2, c.Failed/2
		}
	}
}

// between is the 99 % Wilson interval of the failed share; (0, 1) without requests.
func (c Count) between() (low, high float64) {
	if c.Requests == 0 {
		return 0, 1
	}
	n, p := float64(c.Requests), float64(min(c.Failed, c.Requests))/float64(c.Requests)
	z2 := sigmas * sigmas
	middle, half := p+z2/(2*n), sigmas*math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	return max(0, (middle-half)/(1+z2/n)), min(1, (middle+half)/(1+z2/n))
}

// share formats the failed share.
func (c Count) String() string {
	if c.Requests == 0 {
		return "of none"
	}
	part := strings.TrimSuffix(strconv.FormatFloat(100*float64(c.Failed)/float64(c.Requests), 'f', 1, 64), ".0")
	return fmt.Sprintf("%d of %d failed (%s%%)", c.Failed, c.Requests, part)
}

// Exceeds is Worse without the text.
func Exceeds(bound float64, before, after Count) bool {
	if bound >= 1 || after.Failed < leastFailed {
		return false
	}
	low, _ := after.between()
	most := bound
	if before.Requests > 0 {
		_, high := before.between()
		most = max(most, high)
	}
	return low > most
}

// Worse returns a text if a larger share of requests to the new revision fails than bound (0 to 1),
// and than of those to the old one in the same time; "" if that is not certain. A share that failed
// before too is no fault of the new revision. Without requests to the old one, bound alone decides.
func Worse(bound float64, before, after Count) string {
	if !Exceeds(bound, before, after) {
		return ""
	}
	return fmt.Sprintf("of the requests to the new revision %s, of those to the one before %s; more than %s are "+
		"too many (max_errors)",
		after, before, percent(bound))
}

func percent(part float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(100*part, 'f', 2, 64), "0"), ".") + "%"
}
