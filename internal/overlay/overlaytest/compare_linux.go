package overlaytest

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Cost of a slice of work: how long it took, and the processor time of all who had
// part in it.
type Cost struct{ Took, CPU time.Duration }

// Compare reports what one way costs in relation to another: the median of the
// ratios of short slices that take turns, and the interval in which the true median
// is with 95 in 100. Anything slower than a slice that happens to the machine meets
// both alike.
func Compare(b *testing.B, reference, tried func() Cost) {
	b.Helper()
	reference()
	tried()
	var took, cpu []float64
	for round := 0; b.Loop(); round++ {
		var r, t Cost
		if round%2 == 0 {
			r, t = reference(), tried()
		} else {
			t, r = tried(), reference()
		}
		took = append(took, float64(t.Took)/float64(r.Took))
		cpu = append(cpu, float64(t.CPU)/float64(r.CPU))
	}
	for name, ratios := range map[string][]float64{"rtt": took, "cpu": cpu} {
		low, median, high := interval(ratios)
		b.ReportMetric(median, name+"-ratio")
		b.ReportMetric(low, name+"-low")
		b.ReportMetric(high, name+"-high")
	}
}

// interval is the median and its bounds, by the ranks that a median has among so
// many.
func interval(of []float64) (low, median, high float64) {
	slices.Sort(of)
	n := len(of)
	off := int(math.Ceil(0.98 * math.Sqrt(float64(n))))
	return of[max(0, n/2-off)], of[n/2], of[min(n-1, n/2+off)]
}

// CPU is the processor time of this process, with that of the kernel on its behalf.
func CPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0 // it cannot fail for oneself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Resident memory of this process in bytes, with its part of what it shares.
func Resident(b *testing.B) int64 {
	b.Helper()
	data, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		b.Fatal(err)
	}
	var kb int64
	for line := range strings.Lines(string(data)) {
		if v, ok := strings.CutPrefix(line, "Pss:"); ok {
			if _, err := fmt.Sscanf(v, "%d", &kb); err != nil {
				b.Fatal(err)
			}
		}
	}
	return kb << 10
}
