package bed

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// Scene is a service under load that can be played with real requests and in virtual
// time: the same places and distances, the same replicas, the same policy, and with the
// same seed the same work of each request and the same moments at which open loads send.
type Scene struct {
	policy api.Policy
	Hosts  []string
	// rtt between two hosts, and the bits per second of a direction: nil for none.
	Rtt  func(a, b string) time.Duration
	Rate func(a, b string) api.Bitrate
	Pods []ScenePod
	// Slots of each pod: so many requests at a time, each for a processor of its own. 0: any number, which
	// share its Processors; nobody is told how many these are.
	Slots      int
	Processors float64
	Loads      []SceneLoad
	Law        sim.Law
	// body and answer in bytes.
	Body, Answer int64
	// power of hosts next to each other, for policies by weight; nil: all are alike.
	Power map[string]float64
	// warm is how long requests are not counted yet, span how long there are requests.
	Warm, Span time.Duration
	Seed       uint64
}

// ScenePod is at a host and takes so long for a request of mean work.
type ScenePod struct {
	Host    string
	Service time.Duration
}

// SceneLoad comes in at a host: from so many clients that send the next request when
// the one before was answered, or, where there are none, at random so many times per
// second.
type SceneLoad struct {
	Host    string
	Clients int
	Rps     float64
}

// loopback is the distance to a pod of the own host.
const loopback = 100 * time.Microsecond

// Answer to a request: when the request was due, and how long the answer took.
type Answer struct{ At, Took time.Duration }

// inOrder are answers in the order in which the requests were due. Scenes with the same loads and the
// same seed have the same requests: the first of one is the first of the other.
func inOrder(of []Answer) []Answer {
	slices.SortFunc(of, func(a, b Answer) int { return cmp.Compare(a.At, b.At) })
	return of
}

// witness notes the answers to requests that came from warm on.
type witness struct {
	w    *sim.World
	to   sim.Sender
	warm time.Duration
	seen *[]Answer
}

// Send implements sim.Sender.
func (x witness) Send(q *sim.Request, done func(sim.End, string)) {
	x.to.Send(q, func(end sim.End, by string) {
		if end == sim.Answered && q.Came >= x.warm {
			*x.seen = append(*x.seen, Answer{q.Came, x.w.Elapsed() - q.Came})
		}
		done(end, by)
	})
}

// virtually plays it in virtual time.
func (s *Scene) virtually() (*sim.Stats, error) {
	st, _, err := s.answers()
	return st, err
}

// answers is virtually with each answer.
func (s *Scene) answers() (*sim.Stats, []Answer, error) {
	w := sim.New(s.Seed)
	var pods []*sim.Pod
	on := map[string]int{}
	for _, p := range s.Pods {
		on[p.Host]++
	}
	for i, p := range s.Pods {
		x := &sim.Pod{ID: s.podName(i), Place: p.Host, Slots: s.Slots, Cores: s.Processors, Hidden: s.Slots == 0, Service: p.Service, Weight: s.Power[p.Host] / float64(on[p.Host])}
		pods = append(pods, x.Start(w))
	}
	pipes := map[[2]string]*sim.Pipe{}
	for _, a := range s.Hosts {
		for _, b := range s.Hosts {
			if s.Rate != nil && a != b {
				pipes[[2]string{a, b}] = &sim.Pipe{Rate: float64(s.Rate(a, b)) / 8}
			}
		}
	}
	out := &sim.Stats{From: s.Warm}
	var seen []Answer
	for _, l := range s.Loads {
		r, err := sim.NewRouter(w, l.Host, s.policy, func(to string) *sim.Link {
			if to == l.Host {
				return &sim.Link{RTT: loopback}
			}
			return &sim.Link{RTT: s.Rtt(l.Host, to), Up: pipes[[2]string{l.Host, to}], Down: pipes[[2]string{to, l.Host}]}
		})
		if err != nil {
			return nil, nil, err
		}
		r.Use(pods)
		to := witness{w, r, s.Warm, &seen}
		if l.Clients > 0 {
			sim.Closed(w, l.Host, to, sim.Works(s.Law, s.Body, s.Answer), l.Clients, s.Span, out)
		} else {
			sim.Open(w, l.Host, to, sim.Works(s.Law, s.Body, s.Answer), sim.Steady(l.Rps), l.Rps, s.Span, out)
		}
	}
	w.Run(s.end())
	return out, inOrder(seen), nil
}

// end of what is counted: of open loads all that came, of closed ones what was answered.
func (s *Scene) end() time.Duration {
	for _, l := range s.Loads {
		if l.Clients == 0 {
			return s.Span + time.Minute
		}
	}
	return s.Span
}

func (s *Scene) podName(i int) string { return fmt.Sprint("pod-", i) }

// arrivals of an open load: those of virtual time.
func (s *Scene) arrivals(l SceneLoad) []arrival {
	w := sim.New(s.Seed)
	var out noted
	sim.Open(w, l.Host, &out, sim.Works(s.Law, s.Body, s.Answer), sim.Steady(l.Rps), l.Rps, s.Span, &sim.Stats{})
	w.Run(s.Span)
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
func (s *Scene) outcome(st *sim.Stats) experiment.Outcome { return experiment.OutcomeOf(st, s.Span) }

// Virtually are the answers to its requests in virtual time, by a policy, in the order in which these were due.
func (s Scene) Virtually(policy string) ([]Answer, error) {
	s = s.named(policy)
	_, seen, err := s.answers()
	return seen, err
}

// named gives the scene another policy.
func (s Scene) named(policy string) Scene {
	s.policy = experiment.Named(policy)
	if policy == api.PolicyLocal {
		s.policy.Fallback = api.PolicyRoundRobin
	}
	return s
}
