package rival

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

// Parameters of the testbed in the Prequal paper (section 5).
const (
	probes    = 3 // per request: r_probe
	removals  = 1 // per request: r_remove
	poolSize  = 16
	poolLeast = 2 // with fewer probes, a request goes to a random pod
	probeAge  = time.Second
	netGain   = 1 // δ, of probes per request, in the reuse budget
)

// quantile Q_RIF of the requests in flight above which a pod is hot.
var quantile = math.Pow(2, -0.25)

// Choices of ours where the paper has no number.
const (
	seen = 64 // answers to probes in the distribution of requests in flight
	idle = probeAge / 2
	// reuseFew is the budget where the formula has no value, with so few pods that their probes are in the
	// pool anyway. With more, older probes are used and clients herd; with fewer, too many requests go to
	// random pods.
	reuseFew = 2
)

// Prequal sends each request to the best of a pool of recent probes (section 4). Probes are sent with
// requests and serve later ones.
type Prequal struct {
	w     *sim.World
	rand  *rand.Rand
	links func(to string) *sim.Link
	peers[prequalPeer]

	pool   pool
	probed time.Duration // when last; 0: never
	idling bool
}

var _ sim.Sender = (*Prequal)(nil)

// prequalPeer is a pod as a client of Prequal knows it.
type prequalPeer struct {
	pod   *sim.Pod
	link  *sim.Link
	agent *agent
}

// NewPrequal creates a client at a place. Links returns the link to a place; nil is no distance.
func NewPrequal(w *sim.World, place string, links func(to string) *sim.Link) *Prequal {
	return &Prequal{w: w, rand: w.Rand("prequal " + place), links: links}
}

// Use replaces the pods and keeps what is known of those that stay. Requests in flight end as usual.
func (c *Prequal) Use(pods []*sim.Pod) {
	c.use(pods, func(p *sim.Pod) *prequalPeer {
		return &prequalPeer{pod: p, link: linkTo(c.links, p.Place), agent: agentOf(p)}
	})
	c.pool.keep(func(p probe) bool { return c.by[p.peer.pod] == p.peer })
	c.probe()
	if c.idling {
		return
	}
	// Without requests, probes keep the pool fresh (section 4), else the first request after a pause would
	// go anywhere.
	c.idling = true
	c.w.Every(idle, func() bool {
		if c.w.Elapsed()-c.probed >= idle {
			c.probe()
		}
		return true
	})
}

// Send implements sim.Sender.
func (c *Prequal) Send(q *sim.Request, done func(sim.End, string)) {
	c.probe()
	c.try(pending[prequalPeer]{q: q, done: done})
	for range removals {
		c.pool.remove()
	}
}

// try sends a request to a pod other than the one tried.
func (c *Prequal) try(r pending[prequalPeer]) {
	p := c.pick(r.tried)
	if p == nil {
		r.done(sim.Unserved, "")
		return
	}
	take := func(q *sim.Request, ended func(sim.End, scale.Report)) {
		p.agent.take(c.w, p.pod, q, ended)
	}
	sim.Exchange(c.w, p.link, r.q, take, func(end sim.End, _ scale.Report, _, _ time.Duration) {
		if end != sim.Refused {
			r.done(end, p.pod.ID)
			return
		}
		// A pod that refuses all is idle and looks good. Against such sinkholes (section 4), what
		// is known of it is forgotten.
		c.pool.keep(func(o probe) bool { return o.peer != p })
		if r.tried == nil {
			c.try(pending[prequalPeer]{r.q, r.done, p})
		} else {
			r.done(end, p.pod.ID)
		}
	})
}

// pick chooses the pod of a request; nil if there is none besides the one tried.
func (c *Prequal) pick(tried *prequalPeer) *prequalPeer {
	now := c.w.Elapsed()
	c.pool.keep(func(p probe) bool { return now-p.at <= probeAge })
	if i := c.pool.best(tried); i >= 0 {
		return c.pool.use(i)
	}
	n := len(c.list)
	for _, i := range c.rand.Perm(n) {
		if c.list[i] != tried {
			return c.list[i]
		}
	}
	return nil
}

// probe probes pods, drawn without replacement.
func (c *Prequal) probe() {
	c.probed = c.w.Elapsed()
	n := len(c.list)
	for i := range min(probes, n) {
		// The first ones of a shuffle. The order of the list is nobody's.
		j := i + c.rand.IntN(n-i)
		c.list[i], c.list[j] = c.list[j], c.list[i]
		p := c.list[i]
		c.w.After(p.link.RTT/2, func() {
			rif := inFlight(p.pod)
			// The paper's clients and servers are in one data centre, and its latency is the server's.
			// Between places, Prequal is at its best with the round trip of the probe added.
			latency := p.agent.estimate(rif) + p.link.RTT
			c.w.After(p.link.RTT/2, func() {
				if c.by[p.pod] == p {
					c.pool.add(probe{peer: p, rif: rif, latency: latency, at: c.w.Elapsed(),
						uses: rounded(reuse(len(c.list)), c.rand)})
				}
			})
		})
	}
}

// reuse is how often a probe may be used, b_reuse, with so many pods: what makes the pool gain δ probes
// per request, as a probe of a pod in the pool only replaces another.
func reuse(pods int) float64 {
	gain := (1-float64(poolSize)/float64(pods))*probes - removals
	if gain <= 0 {
		return reuseFew
	}
	return max(1, (1+netGain)/gain)
}

// rounded is a whole number near x, whose mean is x.
func rounded(x float64, r *rand.Rand) int {
	down := math.Floor(x)
	if r.Float64() < x-down {
		down++
	}
	return int(down)
}
