package route

import (
	"math"
	"time"
)

// fastest sends a request where it costs least: its own expected time, and the time that it costs
// later requests. DESIGN.md gives the reasons for this sum, the alternatives tried, and a
// comparison with the policies of the papers.
type fastest struct {
	set  candidates
	turn rotation
	// near are the nearest of the class, for when there are too many to compare all.
	near []int
	// looked are those that are compared.
	looked []int
	// common is what the endpoints have in common, valid until the pick numbered renew and the time
	// until; fits is what is known of each, by its index in the view.
	common guess
	renew  int
	until  time.Time
	fits   []fitted
	// full is the smoothed number of requests per place, including the new one.
	full float64
	// picks so far.
	picks int
}

var _ Policy = (*fastest)(nil)

// Weights of the cost; DESIGN.md has the tables that they come from.
const (
	// waiting is the weight of a second in the queue: 1 for the request itself, 0.5 for those
	// behind it.
	waiting = 1.5
	// crowding is the part of the execution time that a replica costs in addition if all its places
	// are taken; it falls with the square of the share taken.
	crowding = 0.7
	// slowing is the weight of the time that a request costs the others there.
	slowing = 2
	// backlog is added to waiting if there are as many requests as places: then work never ends,
	// and an idle place, however slow, is lost for ever. It begins at nearlyFull, of the mean over
	// fullMemory choices.
	backlog, nearlyFull, fullMemory = 6, 0.95, 64
)

// What is assumed before there is evidence, and for how much of it that counts.
const (
	// apartPrior is the variance between the levels of endpoints, as if seen at one of them;
	// apartTrust is from how many answers on the level of an endpoint half counts.
	apartPrior, apartTrust, leastApart = 0.1, 10, 1e-3
	// betaPrior is the weight, in reports, of the assumption that own requests tell nothing of
	// others'; othersPrior that of the fewest of others' requests at any endpoint for those at one.
	betaPrior, othersPrior = 10, 4
	// Where others have more than fewOthers requests for each own one on average, at most mostBeta, own
	// ones tell of at least betaShare of the rest: they are not only a sample; among many routers, who has
	// sent to an endpoint leaves it to others. leastOwn of them at a time keeps that finite.
	betaShare, fewOthers, mostBeta, leastOwn = 0.5, 5, 64, 0.02
	// hangs is how likely it is that an endpoint hangs.
	hangs = 0.01
	// startUp is the assumed start-up time if none is known.
	startUp = time.Second
	// firstTook is the assumed time of a request in seconds while no time is known: as it is the same
	// for all, any will do.
	firstTook = 0.001
)

const (
	// toldAge is the age of a report from which the mean of reports counts half.
	toldAge = 10 * time.Second
	// blame is how long a failed request counts against an endpoint.
	blame = 10 * time.Second
	// One in explore choices takes each endpoint for as fast as it may be, boldness standard deviations below
	// its level: who was slow once is tried again, and the 99th percentile does not notice. While no own
	// request is anywhere, one in exploreNew does so for those with fewer than newcomer answers.
	explore, exploreNew, newcomer, boldness = 200, 20, 8, 2
	// sampled is how many are compared; if there are more, those after the last choice, and in
	// addition the nearest of all.
	sampled = 24
	// nearest is how many of the latter.
	nearest = 4
	// What is learnt changes by a part of it with each answer: it is looked up again after so many
	// choices, with few answers after a sixteenth of them, and in any case after soon.
	often, soon = 16, 20 * time.Millisecond
)

// Pick implements Policy. It takes O(log n), and O(n) if the view has changed or endpoints were
// tried.
func (p *fastest) Pick(v View, r Request) (int, bool) {
	index, changed := p.set.look(v, r.Tried)
	if len(index) == 0 {
		return 0, false
	}
	if changed {
		p.near = nearestOf(v, p.set.class, p.near[:0])
		p.fits = append(p.fits[:0], make([]fitted, len(v.Endpoints))...)
		p.renew = p.picks
	}
	if len(index) == 1 {
		p.turn.use(v, index[0])
		return index[0], true
	}
	p.look(v, &r, index)
	if p.picks++; p.picks > p.renew || r.Now.After(p.until) {
		p.learn(v, r.Now)
	}
	g := p.common
	var idle bool
	g.waiting, idle = p.crowded(v, r.Now)
	switch timed := !r.Now.IsZero(); {
	case timed && p.picks%explore == 0:
		g.bold, g.boldTo = boldness, math.Inf(1)
	case timed && idle && p.picks%exploreNew == 0:
		g.bold, g.boldTo = boldness, newcomer
	}
	best, least := -1, math.Inf(1)
	for _, i := range p.looked {
		if c := v.Endpoints[i].cost(&r, &g, &p.fits[i]); best < 0 || c < least {
			best, least = i, c
		}
	}
	p.turn.use(v, best)
	return best, true
}

// look sets which endpoints are compared.
func (p *fastest) look(v View, r *Request, index []int) {
	p.looked = p.looked[:0]
	k := p.turn.start(v, index)
	for range min(len(index), sampled) {
		p.looked = append(p.looked, index[k])
		if k++; k == len(index) {
			k = 0
		}
	}
	if len(index) > sampled && len(r.Tried) == 0 {
		p.looked = append(p.looked, p.near...)
	}
}

// guess has what the compared endpoints have in common, and the values assumed for unknown ones.
type guess struct {
	// level is the mean of the logarithms of times alone, apart the variance between endpoints, and
	// noise that between requests; lowest is the lowest level of all.
	level, apart, noise, lowest float64
	// heavy is the mean time over the time at the mean logarithm: 1 if all take the same.
	heavy float64
	// unlike is what the endpoints together say against each curve.
	unlike [len(curves)]float64
	// beta is how many requests of others each own one tells of, others how many there are usually where
	// they are fewest: an endpoint that little is known of must not seem as full as the fullest.
	beta, others float64
	// learnt: there have been answers.
	learnt bool
	// away is the distance in seconds: the mean of the known ones, for swift the longest.
	away float64
	// waiting is the weight of a second in a queue now, bold by how many standard deviations of its
	// level an endpoint is taken for faster than it seems, if it has answered fewer than boldTo times.
	waiting, bold, boldTo float64
}

// learn compares what is known of the endpoints looked at.
func (p *fastest) learn(v View, now time.Time) {
	g := guess{heavy: 1, level: math.Log(firstTook)}
	distances, sum, answers, took, fewest := 0, 0.0, 0.0, math.Inf(1), math.Inf(1)
	heavy, cov, variance, told, tellers, own := 0.0, 0.0, float64(betaPrior), 0.0, 0.0, 0.0
	for _, i := range p.looked {
		e := &v.Endpoints[i]
		l := &e.Load
		p.fits[i] = fitted{}
		if l.Exec > 0 {
			took = min(took, l.Exec.Seconds())
		}
		if e.source() != Unknown {
			g.away += e.RTT.Seconds()
			distances++
		}
		if f := &l.fit; f.n > 0 {
			w := f.weight(now, p.common.noise)
			p.fits[i].weight = w
			answers += f.n
			sum += w
			heavy += w * f.heavy
			for k := range curves {
				g.unlike[k] += pooled * f.unlike[k]
			}
		}
		if x := &l.seen; x.n > 0 {
			w := x.told(l.age(now))
			told, tellers, own = told+w*x.others, tellers+w, own+w*x.own
			fewest = min(fewest, x.others)
			cov += x.n * x.cov
			variance += x.n * x.variance
		}
	}
	g.beta = max(0, cov/variance)
	g.away /= float64(max(distances, 1))
	if tellers > 0 {
		g.others = fewest
		g.beta = max(g.beta, betaShare*(min(mostBeta, told/(own+leastOwn*tellers))-fewOthers))
	}
	if !math.IsInf(took, 1) {
		g.level = math.Log(took)
	}
	for _, i := range p.looked {
		p.fits[i] = v.Endpoints[i].Load.fitted(&g, p.fits[i].weight, p.picks)
	}
	if sum > 0 {
		g.learnt, g.heavy = true, max(1, heavy/sum)
		p.compare(sum, &g)
	}
	g.lowest = g.level
	for _, i := range p.looked {
		if x := &p.fits[i]; x.weight > 0 {
			level, _ := g.shrunk(x)
			g.lowest = min(g.lowest, level)
		}
	}
	for _, i := range p.looked {
		p.fits[i].alone = g.alone(&v.Endpoints[i].Load, &p.fits[i])
	}
	p.common, p.renew, p.until = g, p.picks+int(min(often, answers/often)), now.Add(soon)
}

// crowded counts the requests at the endpoints looked at: weight is that of a second in a queue now, idle
// says that no own request is there. What was learnt too long ago, or from few answers, is looked up again.
func (p *fastest) crowded(v View, now time.Time) (weight float64, idle bool) {
	there, places, own := 0.0, 0.0, 0
	for _, i := range p.looked {
		l, x := &v.Endpoints[i].Load, &p.fits[i]
		if x.pick == 0 || p.picks-x.pick > often || l.fit.n < often {
			*x = l.fitted(&p.common, l.fit.weight(now, p.common.noise), p.picks)
			x.alone = p.common.alone(l, x)
		}
		x.there = l.there(now, &p.common)
		own += l.InFlight
		if l.Concurrency > 0 && !l.Asleep {
			there += x.there
			places += float64(l.Concurrency)
		}
	}
	weight = waiting
	if places > 0 {
		p.full += ((there+1)/places - p.full) / fullMemory
		weight += backlog * max(0, min(1, (p.full-nearlyFull)/(1-nearlyFull)))
	}
	return weight, own == 0
}

// fitted is what is known of an endpoint whose level counts as so many answers, in view of what all
// have in common.
func (l *Load) fitted(g *guess, weight float64, pick int) fitted {
	x := l.fit.fitted(&g.unlike, 1-pooled, l.Concurrency)
	x.weight, x.pick = weight, pick
	return x
}

// compare sets what endpoints have in common and how far they are apart. Sum is how many answers
// that comes from.
func (p *fastest) compare(sum float64, g *guess) {
	apart, have, squares := float64(apartPrior), 1.0, 0.0
	g.level, g.noise = 0, leastVariance
	for _, i := range p.looked {
		x := &p.fits[i]
		share := x.weight / sum
		g.level += share * x.level
		g.noise += share * x.spread
		squares += share * share
	}
	// Levels differ less from their own mean than from the true one, and one alone says nothing.
	for _, i := range p.looked {
		if x := &p.fits[i]; x.weight > 0 {
			d, share := x.level-g.level, x.weight/sum
			trust := x.weight / (x.weight + apartTrust)
			apart += trust * (d*d - (1-share)*g.noise/x.weight)
			have += trust * (1 - 2*share + squares)
		}
	}
	g.apart = max(leastApart, apart/have)
}

// shrunk is the level of an endpoint, drawn to that of all by as much as it is uncertain, and its
// standard deviation then.
func (g *guess) shrunk(x *fitted) (level, deviation float64) {
	noise := g.noise / x.weight
	part := g.apart / (g.apart + noise)
	return g.level + part*(x.level-g.level), math.Sqrt(part * noise)
}

// alone is the expected time of a request alone in seconds: by what was learnt, of one that has not
// answered as at the fastest, or while there are no answers at all as its reports say.
func (g *guess) alone(l *Load, x *fitted) float64 {
	level := min(g.lowest, g.level-g.bold*math.Sqrt(g.apart))
	if x.weight > 0 {
		own, deviation := g.shrunk(x)
		level = own - g.bold*deviation
	} else if l.Exec > 0 && !g.learnt {
		return l.Exec.Seconds()
	}
	return math.Exp(level) * g.heavy
}

// cost of a request in seconds, always finite.
func (e *Endpoint) cost(r *Request, g *guess, x *fitted) float64 {
	l := &e.Load
	there := x.there
	// A newcomer must first show how fast it is: who has answered little counts as having few places.
	places := math.Inf(1)
	if l.Concurrency > 0 {
		places = float64(l.Concurrency)
	}
	if seen := 1 + l.fit.n/2; seen < places {
		places = seen
	}
	others := min(there, places-1)
	alone, kappa := x.alone, x.kappa
	if g.bold > 0 && l.fit.n < g.boldTo {
		alone = g.alone(l, x)
	}
	took := alone * slow(others, kappa)
	slope := alone * kappa * max(0, min(1, 2*(others+1)*kappa-1))
	wait := max(0, there+1-places) * took / places
	used := min(there/min(places, 1/kappa), 1e3)
	network := e.network(r.Bytes, r.Answer)
	if !positive(l.Bandwidth) {
		network += l.Trial.network(r.Bytes, r.Now)
	} else if r.Bytes > 0 && !r.Now.IsZero() {
		network += max(0, min(l.Clear.Sub(r.Now), mostAhead).Seconds())
	}
	if e.source() == Unknown {
		switch {
		case e.Local:
			network += OwnRTT.Seconds()
		case l.fit.n < 3: // else the times seen include it
			network += g.away
		}
	}
	hang := l.hangs(r.Now, network+took+wait, min(places, float64(l.waiting)), g.noise)
	cost := network + took + slowing*slope*others + g.waiting*wait + crowding*took*used*used + hang
	if l.Asleep {
		cost += l.starts(r.Now)
	}
	if !l.Failed.IsZero() {
		if ago := r.Now.Sub(l.Failed); ago < blame {
			cost *= 2 - min(1, max(0, ago.Seconds()/blame.Seconds()))
		}
	}
	return cost
}

// nearestOf appends the endpoints with the shortest round trips to out.
func nearestOf(v View, class, out []int) []int {
	far := func(i int) float64 {
		if d, known := v.Endpoints[i].distance(); known {
			return d
		}
		return math.Inf(1)
	}
	for _, i := range class {
		at := len(out)
		for at > 0 && far(i) < far(out[at-1]) {
			at--
		}
		if at == nearest {
			continue
		}
		if len(out) < nearest {
			out = append(out, 0)
		}
		copy(out[at+1:], out[at:])
		out[at] = i
	}
	return out
}

// Weights implements Policy, for connections, whose load is not visible in time: by capacity, less
// the longer a request takes there.
func (p *fastest) Weights(v View) []float64 { return (&spread{rule: swift}).Weights(v) }

// swift shares by capacity divided by the square of the time that a request alone takes there.
func swift(c []*Endpoint, w []float64) {
	capable(c, w)
	g := guess{heavy: 1, waiting: waiting}
	took := math.Inf(1)
	for _, e := range c {
		if x := e.Load.Exec; x > 0 {
			took = min(took, x.Seconds())
		}
		g.away = max(g.away, e.network(0, 0))
	}
	if math.IsInf(took, 1) {
		took = firstTook
	}
	g.level = math.Log(took)
	g.lowest = g.level
	least := math.Inf(1)
	times := make([]float64, len(c))
	for i, e := range c {
		quiet := *e
		quiet.Load = Load{Exec: e.Load.Exec, Asleep: e.Load.Asleep, StartUp: e.Load.StartUp}
		times[i] = quiet.cost(&Request{}, &g, &fitted{alone: g.alone(&quiet.Load, &fitted{})})
		least = min(least, times[i])
	}
	for i := range w {
		w[i] = max(w[i]*(least/times[i])*(least/times[i]), leastShare)
	}
}
