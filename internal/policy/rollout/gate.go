package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Count of the requests that instances have answered, and of those of them that failed.
type Count struct{ Requests, Failed uint64 }

// The rule of Worse. Of 1800 simulated rollouts of what fails as often as before (between
// none and half of its requests), each looked at 300 times, it stopped 6: see the tests.
const (
	// leastFailed is as many as make a router leave an instance alone for a while
	// (route.OutlierAfter): of one that always fails, there may be no more for minutes.
	leastFailed = 5
	sigmas      = 2.576
	// MemoryOfCounts is how many requests of the new revision are remembered: what was
	// said of more counts half, of both sides alike, so that what goes wrong late is seen
	// as soon as what goes wrong at once.
	MemoryOfCounts = 4000
)

// Add counts more on one side of a comparison.
func (c *Count) Add(more Count) {
	more.Failed = min(more.Failed, more.Requests)
	c.Requests, c.Failed = c.Requests+more.Requests, c.Failed+more.Failed
}

// Fade lets what is long ago count less where the counts of the new side (after) have grown
// beyond the memory.
func Fade(before, after *Count) {
	for after.Requests > MemoryOfCounts {
		for _, c := range []*Count{before, after} {
			c.Requests, c.Failed = c.Requests/2, c.Failed/2
		}
	}
}

// between are the bounds of the share that fails, by Wilson's interval of 99 %: (0, 1) of
// nothing.
func (c Count) between() (low, high float64) {
	if c.Requests == 0 {
		return 0, 1
	}
	n, p := float64(c.Requests), float64(min(c.Failed, c.Requests))/float64(c.Requests)
	z2 := sigmas * sigmas
	middle, half := p+z2/(2*n), sigmas*math.Sqrt(p*(1-p)/n+z2/(4*n*n))
	return max(0, (middle-half)/(1+z2/n)), min(1, (middle+half)/(1+z2/n))
}

// share that fails, in words.
func (c Count) String() string {
	if c.Requests == 0 {
		return "of none"
	}
	part := strings.TrimSuffix(strconv.FormatFloat(100*float64(c.Failed)/float64(c.Requests), 'f', 1, 64), ".0")
	return fmt.Sprintf("%d of %d failed (%s%%)", c.Failed, c.Requests, part)
}

// Exceeds is what Worse says, without the words.
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

// Worse says in words that more of the requests to a new revision fail than may, and than
// of those to the revision before in the same time; "" where that is not certain. bound is a
// part of 1. What failed as often before is not the new revision's doing. Where nothing was
// asked of the revision before, the bound decides alone.
func Worse(bound float64, before, after Count) string {
	if !Exceeds(bound, before, after) {
		return ""
	}
	return fmt.Sprintf("of the requests to the new revision %s, of those to the one before %s; more than %s are too "+
		"many (max_errors)",
		after, before, percent(bound))
}

func percent(part float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(100*part, 'f', 2, 64), "0"), ".") + "%"
}
