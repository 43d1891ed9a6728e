package placement

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/sim/placement/cputime"
	"github.com/verge-edge/verge/internal/wire"
)

// Tiers is a root and its clusters.
type Tiers struct {
	scenario *Scenario
	by       Scheduler
	Pools    []*Pool
	views    []place.ClusterView
	at       map[string]int
	// Took is the processor time of the root's decisions.
	Took      time.Duration
	Decisions int
	// Offers counts how often a cluster was asked, Refused what it gave back.
	Offers, Refused int
}

// NewTiers puts the workers of a scenario into their clusters.
func NewTiers(s *Scenario, by Scheduler) *Tiers {
	members := map[string][]int{}
	var names []string
	for i := range s.Workers {
		name := s.Workers[i].Cluster
		if members[name] == nil {
			names = append(names, name)
		}
		members[name] = append(members[name], i)
	}
	t := &Tiers{scenario: s, by: by, at: map[string]int{}}
	for i, name := range names {
		t.at[name] = i
		t.Pools = append(t.Pools, NewPool(s, members[name]))
		t.views = append(t.views, place.ClusterView{ID: name, Connected: true})
		t.report(i)
	}
	if by.Traffic {
		t.enter()
	}
	return t
}

// report updates what a cluster tells the root.
func (t *Tiers) report(i int) {
	t.views[i].Aggregate = Aggregate(t.Pools[i].views)
}

// Aggregate of ready workers, as a cluster computes it.
func Aggregate(views []place.WorkerView) wire.Aggregate {
	a := place.Aggregate(views)
	a.V, a.Runtimes = wire.Version, []string{"container"}
	place.Describe(views, &a)
	if a.Around != nil { // all measure each other, see locate
		a.Around.Outside = a.Around.Workers
	}
	return a
}

// Place the replicas of a service: the root ranks, clusters take what they can, and the rest is
// offered to the next ones. It returns how many were placed, and why not all.
func (t *Tiers) Place(v *Service) (placed int, why string, err error) {
	for i := range t.views {
		t.views[i].Same, t.views[i].Refused = 0, ""
		for _, n := range t.Pools[i].has[v.Name] {
			t.views[i].Same += n
		}
	}
	for left := v.Replicas; left > 0; {
		req := request(v, 0, t.by)
		req.Instance, req.Count, req.Scheduler = v.Name, left, ""
		if t.by.Near {
			req.Latency = t.hosts(v)
		}
		if t.by.Traffic {
			req.Scheduler = t.by.name()
			t.entering(v)
		}
		var d place.Decision
		from := cputime.Thread()
		d = place.RankClusters(t.views, req)
		t.Took += cputime.Thread() - from
		t.Decisions++
		if why = d.Reason; len(d.Shares) == 0 {
			return placed, why, nil
		}
		for _, share := range d.Shares {
			t.Offers++
			i := t.at[share.Cluster]
			var near []place.Threshold
			if t.by.Near {
				near = t.Pools[i].thresholds(v, func(to string) []place.Target { return t.elsewhere(i, to) })
			}
			for n := range share.Count {
				w, refused, err := t.Pools[i].one(v, placed, t.by, near)
				if err != nil {
					return placed, "", err
				}
				if w < 0 {
					t.Refused += share.Count - n
					t.views[i].Refused = refused
					break
				}
				placed++
				left--
				t.views[i].Same++
			}
			t.report(i)
		}
	}
	return placed, "", nil
}

// hosts are a service's agreements as the root knows them: by the clusters that run the other
// services.
func (t *Tiers) hosts(v *Service) (out []place.Threshold) {
	for _, n := range v.Near {
		th := place.Threshold{To: n.To, Max: api.Duration(n.Within * float64(time.Millisecond))}
		for i, p := range t.Pools {
			if len(p.on[n.To]) > 0 {
				th.Targets = append(th.Targets, place.TargetIn(t.views[i].ID, t.views[i].Aggregate))
			}
		}
		if len(th.Targets) == 0 {
			th.Free = "it has no instance yet"
		}
		out = append(out, th)
	}
	return out
}

// farMeasured is how many instances in other clusters the workers of a cluster measure per
// agreement.
const farMeasured = 64

// elsewhere are the instances of a service outside the cluster from, with the round trips that its
// workers measure.
func (t *Tiers) elsewhere(from int, to string) (out []place.Target) {
	s := t.scenario
	for i, p := range t.Pools {
		for k, w := range p.on[to] {
			if i == from || len(out) == farMeasured {
				continue
			}
			target := place.Target{ID: fmt.Sprint(to, ".", k), Far: t.views[i].ID + "/" + p.views[w].ID,
				Direct: map[string]api.Duration{}}
			site := s.Workers[p.ids[w]].Site
			for n, id := range t.Pools[from].ids {
				target.Direct[t.Pools[from].views[n].ID] = api.Duration(max(0.01,
					s.RTT(s.Workers[id].Site, site)) * float64(time.Millisecond))
			}
			out = append(out, target)
		}
	}
	return out
}

// RunTiered places the services of a scenario in the order of the root, on its clusters below a root that
// knows their current aggregates.
func RunTiered(ctx context.Context, s *Scenario, by Scheduler) (*Result, error) {
	if by.Joint() {
		return nil, fmt.Errorf("%s decides about all workers at once: it has no form with clusters", by.Name)
	}
	r := newResult(s, by)
	if by.Near {
		s.locate()
	}
	t := NewTiers(s, by)
	err := pinned(func() error {
		for _, i := range s.inTurn() {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, why, err := t.Place(&s.Services[i])
			if err != nil {
				return err
			}
			if why != "" {
				r.Why[s.Services[i].Name] = why
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s by %s, in clusters: %w", s.Name, by.Name, err)
	}
	for _, p := range t.Pools {
		r.collect(p)
		r.Took += p.Took
		r.Decisions += p.Decisions
	}
	r.RootTook, r.RootDecisions, r.Offers, r.Refused = t.Took, t.Decisions, t.Offers, t.Refused
	return r, nil
}

// Reasons why services were not placed, each with their number, most frequent first.
func (r *Result) Reasons() []string {
	count := map[string]int{}
	for _, why := range r.Why {
		count[why]++
	}
	var out []string
	for why, n := range count {
		out = append(out, fmt.Sprintf("%5d × %s", n, why))
	}
	slices.SortFunc(out, func(a, b string) int { return strings.Compare(b, a) })
	return out
}

// PlaceEach places the services one by one and returns the processor time of the root's and the
// clusters' decisions about each.
func (t *Tiers) PlaceEach() (root, cluster []time.Duration, err error) {
	inClusters := func() (sum time.Duration) {
		for _, p := range t.Pools {
			sum += p.Took
		}
		return sum
	}
	err = pinned(func() error {
		for _, i := range t.scenario.inTurn() {
			v := &t.scenario.Services[i]
			r, c := t.Took, inClusters()
			n, why, err := t.Place(v)
			if err == nil && n < v.Replicas {
				err = fmt.Errorf("%s was not placed: %s", v.Name, why)
			}
			if err != nil {
				return err
			}
			root, cluster = append(root, t.Took-r), append(cluster, inClusters()-c)
		}
		return nil
	})
	return root, cluster, err
}
