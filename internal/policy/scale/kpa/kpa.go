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

// Scaler is Knative's. It has seen nothing, and knows no pods.
type Scaler struct {
	target        float64
	stable, panic window
	panicked      time.Time
	most          int
}

// NewScaler wants target of the metric for each pod: 0.7 of what it can do, by default.
func NewScaler(target float64) *Scaler {
	return &Scaler{target: target, stable: newWindow(StableWindow), panic: newWindow(PanicWindow)}
}

// Observe is told each second the metric of all pods together: the requests that came,
// or how many were in work or waited on average. Nobody tells it where no pod is ready
// and nothing waits.
func (s *Scaler) Observe(value float64, now time.Time) {
	s.stable.add(value, now)
	s.panic.add(value, now)
}

// Decide the number of pods from how many are ready. Not ok where nothing was observed
// for longer than the stable window: then all stays as it is.
func (s *Scaler) Decide(ready int, now time.Time) (pods int, ok bool) {
	if !s.stable.any(now) {
		return 0, false
	}
	n := float64(max(ready, 1))
	up, down := math.Ceil(MaxUp*n), math.Floor(n/MaxDown)
	clamp := func(v float64) int { return int(min(max(v, down), up)) }
	steady, sudden := math.Ceil(s.stable.mean(now)/s.target), math.Ceil(s.panic.mean(now)/s.target)
	switch {
	case sudden/n >= PanicAt:
		s.panicked = now
	case !s.panicked.IsZero() && s.panicked.Add(StableWindow).Before(now):
		s.panicked, s.most = time.Time{}, 0
	}
	if s.panicked.IsZero() {
		return clamp(steady), true
	}
	// While it panics it only adds.
	s.most = max(s.most, clamp(steady), clamp(sudden))
	return s.most, true
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
