package experiments

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

// scene is a service under load that can be played with real requests and in virtual
// time: the same places and distances, the same replicas, the same policy, and with the
// same seed the same work of each request and the same moments at which open loads send.
type scene struct {
	policy api.Policy
	hosts  []string
	// rtt between two hosts, and the bits per second of a direction: nil for none.
	rtt  func(a, b string) time.Duration
	rate func(a, b string) api.Bitrate
	pods []scenePod
	// slots of each pod: so many requests at a time, each for a processor of its own.
	slots int
	loads []sceneLoad
	law   sim.Law
	// body and answer in bytes.
	body, answer int64
	// power of hosts next to each other, for policies by weight; nil: all are alike.
	power map[string]float64
	// warm is how long requests are not counted yet, span how long there are requests.
	warm, span time.Duration
	seed       uint64
}

// scenePod is at a host and takes so long for a request of mean work.
type scenePod struct {
	host    string
	service time.Duration
}

// sceneLoad comes in at a host: from so many clients that send the next request when
// the one before was answered, or, where there are none, at random so many times per
// second.
type sceneLoad struct {
	host    string
	clients int
	rps     float64
}

// loopback is the distance to a pod of the own host.
const loopback = 100 * time.Microsecond

// virtually plays it in virtual time.
func (s *scene) virtually() (*sim.Stats, error) {
	w := sim.New(s.seed)
	var pods []*sim.Pod
	on := map[string]int{}
	for _, p := range s.pods {
		on[p.host]++
	}
	for i, p := range s.pods {
		x := &sim.Pod{ID: s.podName(i), Place: p.host, Slots: s.slots, Service: p.service, Weight: s.power[p.host] / float64(on[p.host])}
		pods = append(pods, x.Start(w))
	}
	pipes := map[[2]string]*sim.Pipe{}
	for _, a := range s.hosts {
		for _, b := range s.hosts {
			if s.rate != nil && a != b {
				pipes[[2]string{a, b}] = &sim.Pipe{Rate: float64(s.rate(a, b)) / 8}
			}
		}
	}
	out := &sim.Stats{From: s.warm}
	for _, l := range s.loads {
		r, err := sim.NewRouter(w, l.host, s.policy, func(to string) *sim.Link {
			if to == l.host {
				return &sim.Link{RTT: loopback}
			}
			return &sim.Link{RTT: s.rtt(l.host, to), Up: pipes[[2]string{l.host, to}], Down: pipes[[2]string{to, l.host}]}
		})
		if err != nil {
			return nil, err
		}
		r.Use(pods)
		if l.clients > 0 {
			sim.Closed(w, l.host, r, sim.Works(s.law, s.body, s.answer), l.clients, s.span, out)
		} else {
			sim.Open(w, l.host, r, sim.Works(s.law, s.body, s.answer), sim.Steady(l.rps), l.rps, s.span, out)
		}
	}
	w.Run(s.end())
	return out, nil
}

// end of what is counted: of open loads all that came, of closed ones what was answered.
func (s *scene) end() time.Duration {
	for _, l := range s.loads {
		if l.clients == 0 {
			return s.span + time.Minute
		}
	}
	return s.span
}

func (s *scene) podName(i int) string { return fmt.Sprint("pod-", i) }

// arrivals of an open load: those of virtual time.
func (s *scene) arrivals(l sceneLoad) []arrival {
	w := sim.New(s.seed)
	var out noted
	sim.Open(w, l.host, &out, sim.Works(s.law, s.body, s.answer), sim.Steady(l.rps), l.rps, s.span, &sim.Stats{})
	w.Run(s.span)
	return out
}

// arrival of a request.
type arrival struct {
	at   time.Duration
	work float64
}

// noted takes requests and only notes them.
type noted []arrival

// Send implements sim.Sender.
func (n *noted) Send(q *sim.Request, _ func(sim.End, string)) {
	*n = append(*n, arrival{q.Came, q.Work})
}

// outcome of a run of it.
func (s *scene) outcome(st *sim.Stats) outcome { return outcomeOf(st, s.span) }

// named gives the scene another policy.
func (s scene) named(policy string) scene {
	s.policy = named(policy)
	if policy == api.PolicyLocal {
		s.policy.Fallback = api.PolicyRoundRobin
	}
	return s
}
