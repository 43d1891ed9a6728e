package kpa

import (
	"math"
	"time"
)

// window is the mean over the last seconds as Knative computes it: over the seconds since its first
// value, so that a value after a silence counts in full at once and not as a sixtieth.
type window struct {
	values      []float64 // by second, modulo their number
	first, last int64     // seconds; 0 for never
}

func newWindow(span time.Duration) window {
	return window{values: make([]float64, int(span/time.Second))}
}

// add adds to a second; seconds without a value count as 0.
func (w *window) add(value float64, now time.Time) {
	at, n := now.Unix(), int64(len(w.values))
	if at-w.last >= n {
		clear(w.values)
		w.first, w.last = at, at
	}
	for w.last < at {
		w.last++
		w.values[w.last%n] = 0
	}
	w.values[at%n] += value
}

// any says whether the window has a value.
func (w *window) any(now time.Time) bool {
	return w.last != 0 && now.Truncate(time.Second).Sub(time.Unix(w.last, 0)) <= time.Duration(len(w.values))*time.Second
}

// mean is the mean of the window up to its last value, rounded to six digits: exactly three pods must
// not become four by the last bit.
func (w *window) mean(now time.Time) float64 {
	n := int64(len(w.values))
	silent := max(now.Unix()-w.last, 0)
	if silent >= n {
		return 0
	}
	sum := 0.0
	for i := int64(0); i < n-silent; i++ {
		sum += w.values[(w.last-i+n)%n]
	}
	return math.Round(sum/float64(min(w.last-w.first+1, n-silent))*1e6) / 1e6
}
