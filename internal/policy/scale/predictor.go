package scale

import "math"

const (
	// MaxHorizon is how many epochs ahead can be predicted.
	MaxHorizon = 16

	// The experts compete by exponential weights. An error counts in units of the last value's usual
	// error, and at most maxLoss of them: a single jump must not decide for hours.
	hedgeRate = 0.3
	maxLoss   = 4
	// keepWeights is the memory of the weights: what an expert lost is forgotten within 200 epochs.
	keepWeights = 0.995
	// fixedShare of the weight is handed out again each epoch, so that an expert that was wrong for
	// long can return.
	fixedShare = 0.001
	// lastValue is the initial weight of the expert that predicts no change.
	lastValue = 0.3

	// The mixture of the experts in turn competes with the last value alone.
	trustRate  = 0.2
	keepTrust  = 0.999
	firstTrust = 0.1
	// leastTrust is the weight of the mixture below which it is left out. A prediction one epoch ahead
	// starts above, one two or more ahead must first prove that it is better than the last value.
	leastTrust = 0.051

	// keepScale is the memory of the unit of losses, keepError that of the errors in a Prediction.
	keepScale = 0.98
	keepError = 0.99
)

// Predictor predicts the rate of one service. A set of small models that learn online, and the last
// value, are mixed by their recent errors; the mixture is used as far as it is better than the last
// value. Make one with NewPredictor; it needs at most 40 KB.
type Predictor struct {
	history history
	horizon int
	experts []expert
	// weights are logarithms.
	weights, initial []float64
	trust            float64 // log-odds of the mixture against the last value
	unit             float64 // mean square error of the last value
	errors, naive    float64
	judged           int
	// said has the newest predictions, at most one for each epoch of the horizon: of each expert, then
	// of the mixture and the result. waits counts them.
	said  []float32
	waits int
}

// Prediction of a rate.
type Prediction struct {
	// Rate in requests per second: finite, and at most the highest seen.
	Rate float64
	// Weight of the models in Rate, 0 to 1; the rest is the last value's.
	Weight float64
	// Error is the smoothed error of the predictions, Naive that of the last value.
	Error, Naive float64
}

// NewPredictor returns a predictor without history.
func NewPredictor() *Predictor {
	p := &Predictor{horizon: 1, experts: newExperts()}
	n := float64(len(p.experts))
	p.initial = make([]float64, len(p.experts))
	p.initial[0] = lastValue
	for i := 1; i < len(p.initial); i++ {
		p.initial[i] = (1 - lastValue) / (n - 1)
	}
	p.weights = make([]float64, len(p.experts))
	for i, v := range p.initial {
		p.weights[i] = math.Log(v)
	}
	p.trust = logOdds(firstTrust)
	p.said = make([]float32, MaxHorizon*(len(p.experts)+2))
	return p
}

func logOdds(p float64) float64 { return math.Log(p / (1 - p)) }

// Observe takes the rate of the epoch that has just ended and predicts that of the epoch that ends
// horizon epochs from now, 1 to MaxHorizon. An invalid rate (not finite or below zero) counts as
// the one before. A new horizon starts with the weights learnt for the old one.
func (p *Predictor) Observe(rate float64, horizon int) Prediction {
	horizon = min(max(horizon, 1), MaxHorizon)
	if !(rate >= 0) || rate > 1e12 {
		rate = p.history.at(0)
	}
	if horizon != p.horizon {
		p.horizon, p.waits = horizon, 0
	}
	p.history.push(rate)
	if p.waits == horizon {
		p.judge(rate)
	} else {
		p.waits++
	}
	return p.predict()
}

// slot of the predictions for the epoch that is horizon after the current one. It holds those for
// the current one until then.
func (p *Predictor) slot() []float32 {
	n := len(p.experts) + 2
	i := p.history.epochs % p.horizon * n
	return p.said[i : i+n]
}

// judge compares what was predicted for now with what came.
func (p *Predictor) judge(rate float64) {
	said := p.slot()
	n := len(p.experts)
	lost := func(i int) float64 { return math.Abs(rate - float64(said[i])) }
	naive, mixture := lost(0), lost(n)
	p.judged++
	p.unit += max(1-keepScale, 1/float64(p.judged)) * (naive*naive - p.unit)
	p.errors = keepError*p.errors + (1-keepError)*lost(n+1)
	p.naive = keepError*p.naive + (1-keepError)*naive
	unit := math.Sqrt(p.unit)
	loss := func(v float64) float64 {
		if unit == 0 {
			return max(-maxLoss, min(v*math.MaxFloat64, maxLoss))
		}
		return max(-maxLoss, min(v/unit, maxLoss))
	}
	for i, first := range p.initial {
		p.weights[i] = keepWeights*p.weights[i] + (1-keepWeights)*math.Log(first) - hedgeRate*loss(lost(i)-mixture)
	}
	p.trust = keepTrust*p.trust + (1-keepTrust)*p.distrust() + trustRate*loss(naive-mixture)
}

// distrust is where the trust in the mixture starts, and returns to: lower for more distant
// predictions, of which a mixture sees fewer that are independent.
func (p *Predictor) distrust() float64 { return logOdds(firstTrust / float64(p.horizon)) }

func (p *Predictor) predict() Prediction {
	if p.judged == 0 {
		p.trust = p.distrust()
	}
	said := p.slot()
	n := len(p.experts)
	highest := p.history.highest()
	most := math.Inf(-1)
	for i, x := range p.experts {
		said[i] = float32(bounded(x.predict(&p.history, p.horizon), highest))
		most = max(most, p.weights[i])
	}
	sum, mixture := 0.0, 0.0
	for i, w := range p.weights {
		p.weights[i] = math.Exp(w - most)
		sum += p.weights[i]
	}
	for i, w := range p.weights {
		w = (1-fixedShare)*w/sum + fixedShare*p.initial[i]
		p.weights[i] = math.Log(w)
		mixture += w * float64(said[i])
	}
	out := Prediction{Weight: 1 / (1 + math.Exp(-p.trust)), Error: p.errors, Naive: p.naive}
	if out.Weight < leastTrust {
		out.Weight = 0
	}
	out.Rate = bounded(out.Weight*mixture+(1-out.Weight)*float64(said[0]), highest)
	said[n], said[n+1] = float32(mixture), float32(out.Rate)
	return out
}

// bounded keeps a prediction within what has been seen.
func bounded(v, most float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, most)
}
