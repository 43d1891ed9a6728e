package rival

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

const ms = time.Millisecond

// client of pods.
type client interface {
	sim.Sender
	Use(pods []*sim.Pod)
}

// scene of pods at four places, 20 ms from each other, and clients, one to a place.
type scene struct {
	pods    []sim.Pod
	clients int
	rps     float64 // of all clients
}

// run returns the times of the requests after the first half minute.
func (s scene) run(t *testing.T, create maker) *sim.Stats {
	t.Helper()
	w := sim.New(7)
	var pods []*sim.Pod
	for i := range s.pods {
		p := s.pods[i]
		p.ID, p.Place = fmt.Sprint("p", i), fmt.Sprint("place", i%4)
		pods = append(pods, p.Start(w))
	}
	st := &sim.Stats{From: 30 * time.Second}
	for i := range s.clients {
		place := fmt.Sprint("place", i)
		c := create(w, place, func(to string) *sim.Link {
			if to == place {
				return &sim.Link{RTT: ms / 2}
			}
			return &sim.Link{RTT: 20 * ms}
		})
		c.Use(pods)
		rps := s.rps / float64(s.clients)
		sim.Open(w, place, c, sim.Works(sim.Exponential, 0, 0), sim.Steady(rps), rps, 3*time.Minute, st)
	}
	w.Run(4 * time.Minute)
	return st
}

// scenes in which random choice is stable.
func scenes() map[string]scene {
	fast, slow := sim.Pod{Slots: 4, Service: 50 * ms}, sim.Pod{Slots: 4, Service: 200 * ms}
	return map[string]scene{
		"equal":     {[]sim.Pod{fast, fast, fast, fast, fast, fast, fast, fast}, 4, 0.7 * 640},
		"half slow": {[]sim.Pod{fast, slow, fast, slow, fast, slow, fast, slow}, 4, 0.35 * 400},
	}
}

// maker creates a client.
type maker func(w *sim.World, place string, links func(string) *sim.Link) client

func rivals(clients int) map[string]maker {
	return map[string]maker{
		"c3": func(w *sim.World, place string, links func(string) *sim.Link) client {
			return NewC3(w, place, clients, links)
		},
		"prequal": func(w *sim.World, place string, links func(string) *sim.Link) client {
			return NewPrequal(w, place, links)
		},
	}
}

func router(t *testing.T, name string) maker {
	return func(w *sim.World, place string, links func(string) *sim.Link) client {
		r, err := sim.NewRouter(w, place, api.Policy{Name: name}, links)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func TestBetterThanRandom(t *testing.T) {
	for name, s := range scenes() {
		chance := s.run(t, router(t, api.PolicyRandom))
		for rival, create := range rivals(s.clients) {
			got := s.run(t, create)
			if again := s.run(t, create); again.Mean() != got.Mean() {
				t.Errorf("%s, %s: the same seed gives means of %v and %v", name, rival, got.Mean(), again.Mean())
			}
			mean, tail := got.Mean()/chance.Mean(), got.Percentile(0.99)/chance.Percentile(0.99)
			t.Logf("%s, %s: mean %.0f ms, %.2f of random; p99 %.2f", name, rival, 1e3*got.Mean(), mean, tail)
			if mean > 0.9 || tail > 0.95 {
				t.Errorf("%s, %s: mean %.2f, p99 %.2f of random", name, rival, mean, tail)
			}
		}
	}
}

// A refused request is sent once more, to another pod, as Router does.
func TestRefused(t *testing.T) {
	for name, create := range rivals(1) {
		w := sim.New(1)
		full := (&sim.Pod{ID: "full", Slots: 1, QueueMax: 1, Service: time.Hour}).Start(w)
		for range 2 {
			full.Take(&sim.Request{Work: 1}, func(sim.End, scale.Report) {})
		}
		c := create(w, "here", nil)
		ends := map[sim.End]int{}
		send := func() {
			c.Send(&sim.Request{Work: 1}, func(e sim.End, by string) {
				ends[e]++
				if (e == sim.Answered) != (by == "free") {
					t.Errorf("%s: end %d by %q", name, e, by)
				}
			})
			w.Run(2 * time.Second)
		}
		send()
		c.Use([]*sim.Pod{full})
		send()
		if ends[sim.Unserved] != 2 {
			t.Errorf("%s: nobody, then nobody else: %v", name, ends)
		}
		c.Use([]*sim.Pod{full, (&sim.Pod{ID: "free", Slots: 1, Service: ms}).Start(w)})
		for range 10 {
			send()
		}
		if ends[sim.Answered] != 10 {
			t.Errorf("%s: %v", name, ends)
		}
	}
}
