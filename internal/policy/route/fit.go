package route

import (
	"math"
	"time"
)

// fit is what the answers of an endpoint tell of it. It goes by the logarithms of their times:
// endpoints of a service execute the same requests, so they differ by a factor, and the mean of
// logarithms finds that factor from few answers where a mean of times follows the longest ones.
type fit struct {
	// n is how many answers the slowing was learnt from, recent how many the newest means.
	n, recent float64
	at        time.Time // of the newest answer
	// nowZ is the newest mean of logarithms of times, nowSlow that of what each curve says of them.
	nowZ    float64
	nowSlow [len(curves)]float64
	// mean and variance of the logarithms, less what each curve says, and unlike the negative
	// logarithm of the likelihood of each.
	mean, variance, unlike [len(curves)]float64
	// heavy is the mean time over the time at the mean logarithm.
	heavy float64
	// What follows is looked up again with each answer, and after young ones with each eighth: base is
	// the time alone at the mean logarithm and kappa the slowing, by this endpoint alone; noise is the
	// variance of logarithms, and usual the mean time, as long as others there are as many.
	base, kappa, noise, usual float64
	skipped                   uint8 // since then
}

// curves are how many requests an endpoint may execute before they slow each other in proportion to
// their number: as many as it has processors.
var curves = [...]float64{1, 2, 4, 8, 16, 32, math.Inf(1)}

// logCurves are their logarithms.
var logCurves = func() (logs [len(curves)]float64) {
	for k, c := range curves {
		logs[k] = math.Log(c)
	}
	return logs
}()

// likely is how likely each of the curves is before there are answers.
var likely = [len(curves)]float64{2, 2, 2, 1, 1, 1, 2}

const (
	fitMemory = 1000 // answers for the slowing
	nowMemory = 100  // answers for the level
	// drift is the variance of the logarithm that an endpoint gains in a second: after five minutes its
	// times may be a quarter longer or shorter, and what was learnt before says less.
	drift = 1.0 / 5000
	// noisePrior is how many answers an assumed variance of 1, as of exponential times, counts for.
	noisePrior = 3
	// young is how many answers are looked at one by one, seldom after how many others then.
	young, seldom = 64, 8
	// leastTook is the shortest time of an answer in seconds, for its logarithm.
	leastTook = 10e-6
	// leastVariance of logarithms is what clocks and networks jitter.
	leastVariance = 0.01
	// placesTrust is how much likelier the places of a service make it that so many do not slow each other.
	placesTrust = 8
	// negligible is the difference of logarithms of likelihoods from which a curve does not matter.
	negligible = 12
	// pooled is how much the answers of the other endpoints say of the slowing of one.
	pooled = 0.3
)

// slow is the factor by which others there slow a request.
func slow(others, kappa float64) float64 { return max(1, (others+1)*kappa) }

// add learns from an answer that took so many seconds beside others.
func (f *fit) add(now time.Time, others, took float64) {
	took = max(took, leastTook)
	z := math.Log(took)
	f.recent = min(f.weight(now, f.noise)+1, nowMemory)
	f.at = now
	f.n = min(f.n+1, fitMemory)
	gain := 1 / f.n
	f.nowZ += (z - f.nowZ) / f.recent
	slowest := math.Log(max(1, others+1))
	for k := range curves {
		g := max(0, slowest-logCurves[k])
		f.nowSlow[k] += (g - f.nowSlow[k]) / f.recent
		d := z - g - f.mean[k]
		f.mean[k] += gain * d
		f.variance[k] += gain * ((1-gain)*d*d - f.variance[k])
	}
	if f.skipped++; f.n < young || f.skipped >= seldom {
		f.skipped = 0
		f.lookUp()
	}
	f.heavy += gain * (took/(f.base*slow(others, f.kappa)) - f.heavy)
}

// lookUp derives what the answers say.
func (f *fit) lookUp() {
	for k := range curves {
		f.unlike[k] = f.n / 2 * math.Log(f.variance[k]+leastVariance)
	}
	own := f.fitted(&[len(curves)]float64{}, 1, 0)
	f.base, f.kappa = math.Exp(own.level), own.kappa
	f.noise = (own.spread*f.n+noisePrior)/(f.n+noisePrior) + leastVariance
	f.usual = math.Exp(f.nowZ) * max(1, f.heavy)
}

// fitted is a fit in view of those of the other endpoints.
type fitted struct {
	// level is the logarithm of the time of a request alone, spread the variance about it.
	level, spread float64
	// kappa is the inverse of how many requests it executes without slowing them, alone the time of a
	// request alone in seconds.
	kappa, alone float64
	// weight is how many answers the level counts as, there how many requests are at the endpoint, and
	// pick the number of the choice for which this was looked up; 0: it was not.
	weight, there float64
	pick          int
}

// fitted weighs the curves by how likely they are; others adds to own times what the fit says. Who says
// how many places there are, has seen that so many do not slow each other; 0: unknown.
func (f *fit) fitted(others *[len(curves)]float64, own float64, places int) (x fitted) {
	var unlike [len(curves)]float64
	best := math.Inf(1)
	for k := range curves {
		unlike[k] = others[k] + own*f.unlike[k]
		best = min(best, unlike[k])
	}
	sum := 0.0
	for k, c := range curves {
		if unlike[k] > best+negligible {
			continue
		}
		p := likely[k] * math.Exp(best-unlike[k])
		if places > 0 && c >= float64(places) {
			p *= placesTrust
		}
		sum += p
		x.kappa += p / c
		x.level += p * (f.nowZ - f.nowSlow[k])
		x.spread += p * f.variance[k]
	}
	return fitted{level: x.level / sum, spread: x.spread / sum, kappa: x.kappa / sum}
}

// weight is how many answers the level counts as at now, each of which has the variance noise.
func (f *fit) weight(now time.Time, noise float64) float64 {
	if now.IsZero() || f.n == 0 {
		return f.recent
	}
	return f.recent / (1 + f.recent*drift/max(noise, leastVariance)*max(0, now.Sub(f.at).Seconds()))
}
