package clustertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Network is what the workers of a sim measure: round trips by pair, both ways, and where
// by Vivaldi they come to be.
type Network struct {
	Sim    *Sim
	RTT    map[[2]string]time.Duration
	Silent map[string]bool // who answers no question
	states map[string]coord.State
	Asked  int
	Users  map[string]string // which worker they are beside, by address
	Pinged int
}

// NewNetwork has the round trips of rtt between the workers of s.
func NewNetwork(s *Sim, rtt func(a, b string) time.Duration) *Network {
	e := &Network{Sim: s, RTT: map[[2]string]time.Duration{}, Silent: map[string]bool{}, states: map[string]coord.State{},
		Users: map[string]string{}}
	for a := range s.Workers {
		e.states[a] = coord.NewState(uint64(len(e.states)) + 1)
		for b := range s.Workers {
			e.RTT[[2]string{a, b}] = rtt(a, b)
		}
	}
	return e
}

// Apart is the distance of workers that are named by where they are on a line: w7 is at
// 7 ms.
func Apart(a, b string) time.Duration {
	at := func(name string) (n int) {
		_, _ = fmt.Sscanf(name, "w%d", &n)
		return n
	}
	return max(time.Duration(max(at(a)-at(b), at(b)-at(a)))*time.Millisecond, 50*time.Microsecond)
}

// SetRTT changes a round trip, in both directions.
func (e *Network) SetRTT(a, b string, rtt time.Duration) {
	e.RTT[[2]string{a, b}], e.RTT[[2]string{b, a}] = rtt, rtt
}

// survey answers all that is asked at this moment.
func (e *Network) survey() {
	proximity.JudgeUnmeasured(e.Sim.Model, e.Sim.Now)
	proximity.TellPlaces(e.Sim.Model, e.Sim.Now)
	list, _ := proximity.Survey(e.Sim.Model, routes.InCrowds(e.Sim.Model), e.Sim.Now)
	for _, q := range list {
		r, err := e.Answer(q)
		proximity.LearnNear(e.Sim.Model, q, r, err, e.Sim.Now)
	}
}

// Answer is what a worker says to a question.
func (e *Network) Answer(q proximity.Question) (rpc.Measured, error) {
	e.Asked++
	r := rpc.Measured{V: wire.Version}
	if e.Silent[q.Worker] {
		return r, errors.New("it does not answer")
	}
	for _, p := range q.Ask.Peers {
		d := e.RTT[[2]string{q.Worker, p.Worker}]
		if d == 0 {
			r.Peers = append(r.Peers, rpc.MeasuredRTT{Why: "no answer"})
			continue
		}
		if next, err := e.states[q.Worker].Step(e.states[p.Worker].Point, d); err == nil {
			e.states[q.Worker] = next
		}
		r.Peers = append(r.Peers, rpc.MeasuredRTT{RTT: api.Duration(d)})
	}
	for _, to := range q.Ask.Targets {
		e.Pinged++
		if beside := e.Users[to]; beside != "" {
			r.Targets = append(r.Targets, rpc.MeasuredRTT{RTT: api.Duration(Apart(q.Worker, beside)), By: "icmp"})
		} else {
			r.Targets = append(r.Targets, rpc.MeasuredRTT{Why: "nobody there"})
		}
	}
	r.Own = wire.Coordinate(e.states[q.Worker].Point)
	return r, nil
}

// Run lets time pass, with a survey in each step.
func (e *Network) Run(n int, d time.Duration) {
	for range n {
		proximity.LookNear(e.Sim.Model, e.Sim.Now)
		e.survey()
		e.Sim.Tick(d)
	}
}

// NearTo makes a service demand a latency of at most most to a service.
func NearTo(name string, most time.Duration) func(*api.Service) {
	return func(s *api.Service) {
		s.Scheduler = "ldp"
		s.Latency = append(s.Latency, api.Latency{To: name, Max: api.Duration(most)})
	}
}

// OnWorker makes a service demand one worker of a Sim with a network.
func OnWorker(name string) func(*api.Service) {
	return func(s *api.Service) { s.Affinity.Labels = map[string]string{"name": name} }
}

// NewSimWithNetwork is a Sim whose workers are as far from each other as Apart says.
func NewSimWithNetwork(t *testing.T, workers ...string) (*Sim, *Network) {
	s := NewSim(t, workers...)
	for _, name := range workers {
		s.UpdateInfo(name, func(i *wire.WorkerInfo) { i.Labels = map[string]string{"name": name} })
	}
	return s, NewNetwork(s, Apart)
}

// Rigid gives the agreements of a service a rigidness.
func Rigid(r float64) func(*api.Service) { return func(s *api.Service) { s.Rigidness = &r } }
