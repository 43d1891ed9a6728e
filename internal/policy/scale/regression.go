package scale

import "math"

const (
	// surprise is how many times the usual error an error counts at most: regression by squares is
	// otherwise ruled by outliers.
	surprise = 3
	// keepPower is the memory of the power of the inputs.
	keepPower = 0.99
)

// regression predicts the deviation from the level as a linear function of the newest lags
// deviations: recursive least squares with forgetting, weighted down where it is surprised.
type regression struct {
	lags int
	keep float64

	weights, input, gain []float64
	inverse              []float64 // of the inputs' covariance
	power, usual         float64
	started              bool
}

func (r *regression) predict(h *history, horizon int) float64 {
	if r.weights == nil {
		r.weights, r.input, r.gain = make([]float64, r.lags), make([]float64, r.lags), make([]float64, r.lags)
		r.inverse = make([]float64, r.lags*r.lags)
	}
	if h.epochs > horizon {
		r.read(h, horizon)
		r.learn(h.at(0) - h.mean(horizon))
	}
	r.read(h, 0)
	v := dot(r.weights, r.input)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		clear(r.weights)
		r.power, r.usual, r.started = 0, 0, false
		return h.at(0)
	}
	return h.mean(0) + v
}

// read fills the input with the deviations known some epochs ago.
func (r *regression) read(h *history, ago int) {
	mean := h.mean(ago)
	for i := range r.input {
		r.input[i] = h.at(ago+i) - mean
	}
}

// restart makes the inverse that of inputs of the current power, without correlation.
func (r *regression) restart() {
	clear(r.inverse)
	for i := range r.lags {
		r.inverse[i*r.lags+i] = 1 / r.power
	}
	r.started = true
}

// learn moves the weights towards an answer for the input.
//
//go:norace
func (r *regression) learn(answer float64) {
	n := r.lags
	power := dot(r.input, r.input) / float64(n)
	if !r.started {
		if !(power > 0) {
			return
		}
		r.power = power
		r.restart()
	}
	r.power += (1 - keepPower) * (power - r.power)
	wrong := answer - dot(r.weights, r.input)
	off := math.Abs(wrong)
	if r.usual == 0 {
		r.usual = off
	}
	divisor := r.keep * max(1, off/(surprise*r.usual))
	if r.usual == 0 {
		divisor = r.keep
	}
	clipped := max(-surprise*r.usual, min(wrong, surprise*r.usual))
	r.usual += 0.02 * (off - r.usual)
	for i := range n {
		r.gain[i] = dot(r.inverse[i*n:(i+1)*n], r.input)
		divisor += r.input[i] * r.gain[i]
	}
	trace := 0.0
	for i := range n {
		g := r.gain[i] / divisor
		r.weights[i] += g * clipped
		row := r.inverse[i*n : (i+1)*n]
		for j := range row {
			row[j] = (row[j] - g*r.gain[j]) / r.keep
		}
		trace += row[i]
	}
	// Without new inputs forgetting alone would let it grow for ever.
	if most := float64(n) / r.power; trace > most {
		for i := range r.inverse {
			r.inverse[i] *= most / trace
		}
	}
}

// The functions of this file loop over floats that one goroutine owns, and are most of the cost of a
// prediction. The race detector has nothing to find here and would make them forty times slower.

//go:norace
func dot(a, b []float64) float64 {
	b = b[:len(a)]
	s := 0.0
	for i, v := range a {
		s += v * b[i]
	}
	return s
}
