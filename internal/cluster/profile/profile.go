package profile

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/route/throughput"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Table is what was measured, by application and service.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Aside,
	Drop: "what was measured of the service is forgotten: verge profile measures it again",
}, table.Rules[Record]{Stage: table.First})

// Key is where the profile of a service is: + app.service: profile.
const Key = "profile."

const (
	// ProfileDefault is how long one instance is measured.
	ProfileDefault = time.Minute
	// ProfileAsks is how many workers are asked at a time.
	ProfileAsks = 64
)

// Record is what the workers of this cluster were measured to do with a service.
type Record struct {
	V       int       `json:"v"`
	App     string    `json:"app"`
	Service string    `json:"service"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	// Program that was measured, see api.Service.ProgramID.
	Program string          `json:"program"`
	Load    rpc.ProfileLoad `json:"load"`
	// Nodes that were measured, by name of the worker.
	Nodes map[string]Node `json:"nodes"`
}

// Node is one of them, and what kind of machine it was.
type Node struct {
	rpc.ProfileNode
	CPU  api.CPU `json:"cpu"`
	Arch string  `json:"arch"`
}

// kindOf a machine: those of one kind are taken to do alike.
func kindOf(cpu api.CPU, arch string) string { return fmt.Sprintf("%d/%s", cpu, arch) }

// Rates says what workers do with a service, by its profile; nil: there is none.
type Rates struct {
	*throughput.Estimator
	Profile *Record
	Old     bool
}

// RatesOf of a service.
func RatesOf(m *state.Model, key string) *Rates {
	p, s := Table.Rows(m.DB)[key], m.Shares[key]
	if p == nil || s == nil {
		return nil
	}
	var nodes []throughput.Profiled
	for _, name := range records.SortedKeys(p.Nodes) {
		n := p.Nodes[name]
		nodes = append(nodes, throughput.Profiled{Kind: kindOf(n.CPU, n.Arch), Serves: n.Rate, CPU: float64(n.CPU)})
	}
	return &Rates{throughput.NewEstimator(nodes), p, p.Program != s.Spec.ProgramID()}
}

// On is what a worker does, in requests per second, and where that comes from.
func (r *Rates) On(w *state.Worker) (serves float64, by string) {
	if r == nil {
		return 0, ""
	}
	n := throughput.Profiled{Kind: kindOf(w.Info.Capacity.CPU, w.Info.Arch), Serves: r.Profile.Nodes[w.Info.Name].Rate,
		CPU: float64(w.Info.Capacity.CPU)}
	e := r.Of(n)
	switch {
	case e.From == throughput.ByProfile && r.Old:
		by = rpc.WeightOld
	case e.From == throughput.ByProfile:
		by = rpc.WeightProfile
	case e.From == throughput.ByKind:
		by = rpc.WeightKind
	case e.From == throughput.ByProcessors:
		by = rpc.WeightCPU
	}
	return e.Serves, by
}

// Rated is the rates of a service, worked out once for a pass.
func Rated(t *state.Tx, key string) *Rates {
	if Table.Rows(t.Model.DB)[key] == nil {
		return nil
	}
	r, ok := Pass(t).rates[key]
	if !ok {
		if r = RatesOf(t.Model, key); Pass(t).rates == nil {
			Pass(t).rates = map[string]*Rates{}
		}
		Pass(t).rates[key] = r
	}
	return r
}

// ForgetStale forgets those of services that are no more.
func ForgetStale(t *state.Tx) {
	for key := range Table.Rows(t.Model.DB) {
		if autoscale.Delegated(t.Model, key) == nil {
			Table.Put(t.Rows, key, nil)
		}
	}
}

// SharesByWeight says whether a policy asks what each worker does.
func SharesByWeight(p api.Policy) bool {
	return p.Name == api.PolicyWeighted || p.Name == api.PolicyBilliard || p.Fallback == api.PolicyWeighted
}

// Run is a run that is under way, or was and may still be asked for.
type Run struct {
	Mu         sync.Mutex // guards below; held over questions to workers
	Key, Owner string
	Program    string
	Load       rpc.ProfileLoad
	Nodes      []*RunNode
	Turn, Last int
	Began      time.Time
	Asked      time.Time // when a step was taken last
	Ended      time.Time
	Why        string // it failed
	Kept       bool
}

// RunNode is a worker in it.
type RunNode struct {
	rpc.ProfileNode
	Turn   int
	Count  []wire.InstanceID
	Cpu    api.CPU
	Arch   string
	Missed time.Time // since when it does not answer
}

// Rounds says when each of the workers at these data addresses has its turn: those
// behind one host may share a machine, and go one after the other. What two share would
// be measured as half for each.
func Rounds(addresses []string, oneByOne bool) []int {
	out, n := make([]int, len(addresses)), map[string]int{}
	for i, a := range addresses {
		host, _, err := net.SplitHostPort(a)
		if err != nil || oneByOne {
			host = "" // nobody knows
		}
		out[i] = n[host]
		n[host]++
	}
	return out
}

// Alive reports whether somebody asks for it. Where a step is under way, somebody does.
func (p *Run) Alive(now time.Time) bool {
	if !p.Mu.TryLock() {
		return true
	}
	defer p.Mu.Unlock()
	return p.Ended.IsZero() && now.Sub(p.Asked) < rpc.ProfileIdle
}

// Whole is how long it takes.
func (p *Run) Whole() time.Duration {
	span := p.Load.For.Std()
	return time.Duration(p.Last+1) * (span + min(span/10, 5*time.Second))
}

// Learn takes over what a worker says.
func (n *RunNode) Learn(got *rpc.ProfileNode) {
	n.Missed = time.Time{}
	n.State, n.Problem, n.Concurrency = got.State, got.Problem, got.Concurrency
	n.Requests, n.Errors, n.Span = max(0, got.Requests), max(0, got.Errors), max(0, got.Span)
	n.Mean, n.P50, n.P99 = got.Mean, got.P50, got.P99
	if n.Rate = 0; n.Span > 0 {
		n.Rate = float64(n.Requests) / n.Span.Std().Seconds()
	}
}

// Report is how far a run is.
func (p *Run) Report(q *rpc.ProfileAsk) *rpc.ProfileReport {
	r := &rpc.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, State: rpc.ProfileRuns, Why: p.Why,
		Stored: p.Kept, Whole: api.Duration(p.Whole())}
	end := time.Now()
	if !p.Ended.IsZero() {
		end = p.Ended
		if r.State = rpc.ProfileDone; p.Why != "" {
			r.State = rpc.ProfileFailed
		}
	}
	r.Took = api.Duration(end.Sub(p.Began))
	for _, n := range p.Nodes {
		v := n.ProfileNode
		if v.State == rpc.ProfileDone {
			v.From, v.At = rpc.WeightProfile, p.Ended
		}
		r.Nodes = append(r.Nodes, v)
	}
	return r
}

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	rates map[string]*Rates // by application and service
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch { return scratch.Of(t.Rows, nil) }
