package scale

import "math"

// The ensemble of Mu (section 3.2): windows of so many epochs, each with learning
// rates of 10^-1 to 10^-10.
var windows = [...]int{10, 50, 100, 500, 1000}

const (
	learningRates = 10
	longest       = 1000
	// MaxHorizon is how many epochs ahead can be predicted.
	MaxHorizon = 16
	// keepError is the paper's: it found 0.99 best of 0.5 to 0.999.
	keepError = 0.99
	// keepLately is of a second error, which forgets within ten epochs: a model that
	// was right for hours and does not understand what has just begun is not asked.
	keepLately = 0.9
	// keepMean is of the level that models predict deviations from.
	keepMean = 0.99
)

// Predictor predicts the rate of one service: 50 linear models that learn while they
// run, and the naive one, which says that all stays as it is. The one that was least
// wrong is asked. Make one with NewPredictor; it needs at most 80 KB, less while it
// is young.
type Predictor struct {
	// rates and means are those of the newest epochs, the newest last; windows lie in
	// them without wrapping around.
	rates, means []float32
	mean         float64
	epochs       int
	horizon      int
	naive        score
	models       []model
	// before and ahead are the window of horizon epochs ago and the newest one, as
	// deviations from the level of their time.
	before, ahead []float32
}

// score is how wrong a model is.
type score struct{ long, lately float64 }

func (s *score) add(wrong float64) {
	s.long = keepError*s.long + (1-keepError)*wrong
	s.lately = keepLately*s.lately + (1-keepLately)*wrong
}

type model struct {
	window    int
	rate      float64
	weights   []float32
	predicted float64
	score     score
	// scored is false until the model has once been asked: it has nothing to be
	// judged by.
	scored bool
}

// Prediction of a rate.
type Prediction struct {
	// Rate in requests per second. It is within what was seen, and finite.
	Rate float64
	// Window and LearningRate are those of the model that was asked; 0 for the naive
	// one.
	Window       int
	LearningRate float64
	// Error is how far it is usually off; Naive is how far the naive model is.
	Error, Naive float64
}

// NewPredictor of a service that nothing is known of.
func NewPredictor() *Predictor { return &Predictor{horizon: 1} }

// Observe takes the rate of the epoch that has just ended and predicts that of the
// epoch that ends horizon epochs from now, 1 to MaxHorizon. What is not finite or
// below zero counts as the rate before. If the horizon changes, what was learnt for
// the old one is where the new one starts.
func (p *Predictor) Observe(rate float64, horizon int) Prediction {
	horizon = min(max(horizon, 1), MaxHorizon)
	if !(rate >= 0) || rate > 1e12 {
		rate = p.last()
	}
	same := horizon == p.horizon
	p.horizon = horizon
	p.push(rate)

	// What was said about now, horizon epochs ago.
	learn := p.epochs > horizon
	if learn {
		p.naive.add(math.Abs(rate - float64(p.rates[len(p.rates)-1-horizon])))
		p.before = p.deviations(p.before, horizon)
	}
	p.ahead = p.deviations(p.ahead, 0)
	p.grow()
	best := Prediction{Rate: rate, Error: p.naive.long, Naive: p.naive.long}
	var x, old []float32
	var level, most float64
	var square float64
	window := 0
	for i := range p.models {
		m := &p.models[i]
		if m.window != window {
			window = m.window
			x = p.ahead[len(p.ahead)-window:]
			level, most = float64(p.means[len(p.means)-1]), highest(p.rates[len(p.rates)-window:])
			if old = nil; learn && len(p.before) >= window {
				old = p.before[len(p.before)-window:]
				square = dot(old, old)
			}
		}
		step := 0.0
		if old != nil && m.scored {
			if horizon > 1 || !same {
				m.predicted = float64(p.means[len(p.means)-1-horizon]) + dot(m.weights, old)
			}
			wrong := rate - m.predicted
			m.score.add(math.Abs(rate - bounded(m.predicted, most)))
			// Without the error's own square, one surprise after a quiet time would
			// turn weights by as much as it is larger than all before.
			if by := square + wrong*wrong; by > 0 {
				step = m.rate * wrong / by
			}
		}
		deviation := stepDot(m.weights, old, x, step)
		m.predicted = level + deviation
		if math.IsNaN(deviation) || math.IsInf(deviation, 0) {
			m.reset()
			m.predicted = level + dot(m.weights, x)
			m.score = p.naive
		}
		if !m.scored {
			m.scored, m.score = true, p.naive
		}
		if m.score.long < best.Error && m.score.lately < p.naive.lately {
			best.Rate, best.Error = bounded(m.predicted, most), m.score.long
			best.Window, best.LearningRate = m.window, m.rate
		}
	}
	return best
}

// bounded keeps a prediction within what its window has seen.
func bounded(v, most float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, most)
}

func (p *Predictor) last() float64 {
	if len(p.rates) == 0 {
		return 0
	}
	return float64(p.rates[len(p.rates)-1])
}

// push adds an epoch, and forgets those that nothing needs any more; so seldom that
// the copy does not count.
func (p *Predictor) push(rate float64) {
	if p.epochs == 0 {
		p.mean = rate
	} else {
		p.mean = keepMean*p.mean + (1-keepMean)*rate
	}
	p.epochs++
	const keep = longest + MaxHorizon + 1
	if len(p.rates) >= keep+keep/4 {
		p.rates = append(p.rates[:0], p.rates[len(p.rates)-keep:]...)
		p.means = append(p.means[:0], p.means[len(p.means)-keep:]...)
	}
	p.rates = append(p.rates, float32(rate))
	p.means = append(p.means, float32(p.mean))
}

// deviations of the epochs up to back epochs ago from the level of then, at most as
// many as the longest window that is in use.
//
//go:norace
func (p *Predictor) deviations(to []float32, back int) []float32 {
	end := len(p.rates) - back
	from := max(0, end-longest)
	level := p.means[end-1]
	to = to[:0]
	for _, v := range p.rates[from:end] {
		to = append(to, v-level)
	}
	return to
}

// grow adds the models whose window has been filled.
func (p *Predictor) grow() {
	for k := len(p.models) / learningRates; k < len(windows) && p.epochs >= windows[k]; k++ {
		rate := 1.0
		for range learningRates {
			rate /= 10
			m := model{window: windows[k], rate: rate, weights: make([]float32, windows[k])}
			m.reset()
			p.models = append(p.models, m)
		}
	}
}

// reset makes the model a moving average, which is where it starts.
func (m *model) reset() {
	for i := range m.weights {
		m.weights[i] = 1 / float32(m.window)
	}
}

// The four below are loops over floats that one goroutine owns, and the whole cost of
// a prediction: the race detector, which has nothing to find here, would make them
// forty times slower.

//go:norace
func highest(v []float32) float64 {
	most := float32(0)
	for _, x := range v {
		most = max(most, x)
	}
	return float64(most)
}

//go:norace
func dot(a, b []float32) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return float64(s0 + s1 + s2 + s3)
}

// stepDot moves the weights by step along old and returns their product with x, in
// one pass over them.
//
//go:norace
func stepDot(w, old, x []float32, step float64) float64 {
	f := float32(step)
	// Below that a weight of a float32 does not move.
	if old == nil || f == 0 {
		return dot(w, x)
	}
	old, x = old[:len(w)], x[:len(w)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(w); i += 4 {
		a, b := w[i]+f*old[i], w[i+1]+f*old[i+1]
		c, d := w[i+2]+f*old[i+2], w[i+3]+f*old[i+3]
		w[i], w[i+1], w[i+2], w[i+3] = a, b, c, d
		s0 += a * x[i]
		s1 += b * x[i+1]
		s2 += c * x[i+2]
		s3 += d * x[i+3]
	}
	for ; i < len(w); i++ {
		w[i] += f * old[i]
		s0 += w[i] * x[i]
	}
	return float64(s0 + s1 + s2 + s3)
}
