// Package kpa implements the published rules of two other autoscalers for comparison:
// Knative's pod autoscaler (by concurrency or requests per second) and Kubernetes'
// horizontal pod autoscaler. Only simulations use it.
//
// Promise: like package scale, functions of state, arguments and now alone.
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

// NewScaler aims at target of the metric per pod: by default 0.7 of its capacity.
func NewScaler(target float64) *Scaler {
	return &Scaler{target: target, stable: newWindow(StableWindow), panic: newWindow(PanicWindow)}
}

// Observe takes, each second, the metric of all pods together: the requests that arrived, or how
// many were in progress or queued on average. It is not called while no pod is ready and no request
// waits.
func (s *Scaler) Observe(value float64, now time.Time) {
	s.stable.add(value, now)
	s.panic.add(value, now)
}

// Decide returns the number of pods, given how many are ready. ok is false if nothing was observed
// for longer than the stable window: the number then stays.
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
	// In panic mode it only scales up.
	s.most = max(s.most, clamp(steady), clamp(sudden))
	return s.most, true
}

// HPA is the horizontal pod autoscaler: ceil(current × utilisation / target), unchanged within a
// tolerance of a tenth; downwards, the maximum of the last five minutes.
type HPA struct {
	// Target is the target utilisation of pods, 0 to 1.
	Target float64
	past   []said
}

type said struct {
	at   time.Time
	want int
}

// Decide returns the number of pods, given the mean utilisation of the ready ones.
func (h *HPA) Decide(utilisation float64, ready int, now time.Time) int {
	want := ready
	if ratio := utilisation / h.Target; math.Abs(ratio-1) > 0.1 {
		want = int(math.Ceil(float64(ready) * ratio))
	}
	// Each step up adds at most four pods or doubles them.
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
