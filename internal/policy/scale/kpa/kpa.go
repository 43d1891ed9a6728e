// Package kpa has the published rules of other autoscalers, to compare ours with:
// Knative's pod autoscaler (by concurrency or by requests per second) and Kubernetes'
// horizontal one. Nothing of the running system uses it.
//
// Promises: like package scale, functions of state, arguments and now alone.
package kpa

import (
	"math"
	"time"
)

// Defaults of Knative serving 1.x (config-autoscaler).
const (
	StableWindow = 60 * time.Second
	PanicWindow  = 6 * time.Second
	PanicAt      = 2.0
	MaxUp        = 1000.0
	MaxDown      = 2.0
	Utilisation  = 0.7
)

// Scaler is Knative's. The zero value has seen nothing.
type Scaler struct {
	// Target is the metric's value for one pod: 0.7 of what it can do, by default.
	Target   float64
	panicked time.Time
	most     int
}

// Decide the number of pods from the metric's means over the stable and the panic
// window, summed over the pods, and from how many pods are ready.
func (s *Scaler) Decide(stable, panic float64, ready int, now time.Time) int {
	n := float64(max(ready, 1))
	up, down := math.Ceil(MaxUp*n), math.Floor(n/MaxDown)
	clamp := func(v float64) int { return int(min(max(math.Ceil(v/s.Target), down), up)) }
	want, urgent := clamp(stable), clamp(panic)
	over := math.Ceil(panic/s.Target)/n >= PanicAt
	switch {
	case over:
		s.panicked = now
	case !s.panicked.IsZero() && s.panicked.Add(StableWindow).Before(now):
		s.panicked, s.most = time.Time{}, 0
	}
	if s.panicked.IsZero() {
		return want
	}
	// While it panics it only adds.
	s.most = max(s.most, urgent, want)
	return s.most
}

// HPA is the horizontal pod autoscaler: ceil(current × utilisation / target), nothing
// within a tolerance of a tenth, and downwards the most of the last five minutes.
type HPA struct {
	// Target is the utilisation that pods are to have, 0 to 1.
	Target float64
	past   []said
}

type said struct {
	at   time.Time
	want int
}

// Decide the number of pods from the mean utilisation of those that are ready.
func (h *HPA) Decide(utilisation float64, ready int, now time.Time) int {
	want := ready
	if ratio := utilisation / h.Target; math.Abs(ratio-1) > 0.1 {
		want = int(math.Ceil(float64(ready) * ratio))
	}
	// Upwards at most four pods or twice as many, in each of its steps.
	want = max(min(want, max(2*ready, ready+4)), 1)
	kept := h.past[:0]
	most := want
	for _, p := range h.past {
		if now.Sub(p.at) < 5*time.Minute {
			kept = append(kept, p)
			most = max(most, p.want)
		}
	}
	kept = append(kept, said{now, want})
	h.past = kept
	if want < ready {
		return min(ready, most)
	}
	return want
}
