package scale

import (
	"math"
	"slices"
)

const (
	// longest and shortest are the greatest periods, in epochs, that the two seasonal finders look for.
	longest, shortest = 720, 120
	// remembered is how far back a seasonal expert looks: three periods.
	remembered = 3*longest + MaxHorizon
	// seen is for how many epochs the highest rate bounds predictions.
	seen = 1000
	// keepMean is the memory of the level from which regressions predict deviations.
	keepMean = 0.99
)

// expert is one model. predict is called once per epoch, after the rate of the epoch was added to
// the history; it learns from that rate, and predicts the rate horizon epochs later. Its result may
// be anything: the caller bounds it.
type expert interface {
	predict(h *history, horizon int) float64
}

// newExperts are the models of a predictor; the first is the last value.
func newExperts() []expert {
	out := []expert{
		last{},
		&smooth{by: 0.5}, &smooth{by: 0.2}, &smooth{by: 0.05},
		&median{of: make([]float32, 0, 3)}, &median{of: make([]float32, 0, 7)}, &median{of: make([]float32, 0, 21)},
		&steps{jump: 2, by: 0.1}, &steps{jump: 3, by: 0.1}, &steps{jump: 4, by: 0.2},
		&regression{lags: 8, keep: 0.99}, &regression{lags: 16, keep: 0.995}, &regression{lags: 32, keep: 0.998},
	}
	for _, s := range []*period{newPeriod(longest, 0.99), newPeriod(shortest, 0.9)} {
		for k := range seasonalForms {
			out = append(out, seasonal{s, k})
		}
	}
	return out
}

// history has the newest rates, the newest last, without wrapping around.
type history struct {
	rates  []float32
	epochs int
	// means are the levels of the newest epochs, by epoch modulo their number.
	means [MaxHorizon + 1]float64
}

// push adds an epoch and drops those no longer needed, so rarely that the copy is negligible.
func (h *history) push(rate float64) {
	mean := rate
	if h.epochs > 0 {
		old := h.mean(0)
		mean = old + max(1-keepMean, 1/float64(h.epochs+1))*(rate-old)
	}
	if len(h.rates) >= remembered+remembered/4 {
		h.rates = append(h.rates[:0], h.rates[len(h.rates)-remembered:]...)
	}
	h.rates = append(h.rates, float32(rate))
	h.epochs++
	h.means[h.epochs%len(h.means)] = mean
}

// at is the rate of some epochs ago, of the oldest known one if that is not known, else 0.
func (h *history) at(ago int) float64 {
	if len(h.rates) == 0 {
		return 0
	}
	return float64(h.rates[max(0, len(h.rates)-1-ago)])
}

// mean is the level of some epochs ago, at most MaxHorizon.
func (h *history) mean(ago int) float64 { return h.means[(h.epochs-ago)%len(h.means)] }

func (h *history) highest() float64 {
	return float64(slices.Max(h.rates[max(0, len(h.rates)-seen):]))
}

// last predicts no change.
type last struct{}

func (last) predict(h *history, _ int) float64 { return h.at(0) }

// smooth is exponential smoothing.
type smooth struct{ by, level float64 }

func (s *smooth) predict(h *history, _ int) float64 {
	s.level += max(s.by, 1/float64(h.epochs)) * (h.at(0) - s.level)
	return s.level
}

// median of the newest rates, as many as of has room for: single outliers do not move it.
type median struct{ of []float32 }

func (m *median) predict(h *history, _ int) float64 {
	m.of = append(m.of[:0], h.rates[max(0, len(h.rates)-cap(m.of)):]...)
	return middle(m.of)
}

// middle sorts v and returns its median.
func middle(v []float32) float64 {
	slices.Sort(v)
	n := len(v)
	if n == 0 {
		return 0
	}
	return float64(v[n/2]+v[(n-1)/2]) / 2
}

// steps is the mean since the last jump: a rate that is off by jump times the median of the newest
// changes starts a new level.
type steps struct {
	jump, by float64
	level    float64
	n        int
	changes  [21]float32
}

func (s *steps) predict(h *history, _ int) float64 {
	// The current change is not among those that say what is usual.
	known := min(max(h.epochs-2, 0), len(s.changes))
	usual := s.changes
	rate := h.at(0)
	if s.n++; s.n == 1 || math.Abs(rate-s.level) > s.jump*middle(usual[:known]) {
		s.n, s.level = 1, rate
	}
	s.level += max(s.by, 1/float64(s.n)) * (rate - s.level)
	if h.epochs > 1 {
		s.changes[h.epochs%len(s.changes)] = float32(math.Abs(rate - h.at(1)))
	}
	return s.level
}

// period finds the lag after which rates repeat best.
type period struct {
	errors []float32 // by lag
	keep   float64
	best   int // 0 for none
	epochs int
}

func newPeriod(most int, keep float64) *period {
	return &period{errors: make([]float32, most+1), keep: keep}
}

// update scores all lags with the newest rate, once per epoch. A lag counts after two periods.
//
//go:norace
func (p *period) update(h *history) {
	if p.epochs == h.epochs {
		return
	}
	p.epochs = h.epochs
	n := len(h.rates)
	rate := h.rates[n-1]
	p.best = 0
	for lag := 2; lag < len(p.errors) && lag < n; lag++ {
		off := rate - h.rates[n-1-lag]
		if off < 0 {
			off = -off
		}
		e := &p.errors[lag]
		*e += float32(max(1-p.keep, 1/float64(h.epochs-lag))) * (off - *e)
		// A multiple of a period repeats as well: the shorter one adapts faster.
		if h.epochs >= 2*lag && (p.best == 0 || *e < 0.999*p.errors[p.best]) {
			p.best = lag
		}
	}
}

// The forms of seasonal.
const (
	sameAsBefore = iota
	meanOfTwo
	medianOfThree
	changeAsBefore
	seasonalForms
)

// seasonal predicts what came at the same point of earlier periods, in one of the forms.
type seasonal struct {
	period *period
	form   int
}

func (s seasonal) predict(h *history, horizon int) float64 {
	s.period.update(h)
	lag := s.period.best
	if lag == 0 {
		return h.at(0)
	}
	whole := (horizon + lag - 1) / lag * lag
	a := h.at(whole - horizon)
	switch s.form {
	case meanOfTwo:
		return (a + s.before(h, whole+lag-horizon)) / 2
	case medianOfThree:
		b, c := s.before(h, whole+lag-horizon), s.before(h, whole+2*lag-horizon)
		return max(min(a, b), min(max(a, b), c))
	case changeAsBefore:
		return a + h.at(0) - s.before(h, whole)
	}
	return a
}

// before is the rate of some epochs ago, the newest one if that is not known.
func (s seasonal) before(h *history, ago int) float64 {
	if ago >= len(h.rates) {
		ago = 0
	}
	return h.at(ago)
}
