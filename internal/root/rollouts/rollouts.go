package rollouts

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// maxRollouts bounds the services of which one cluster's rollouts are kept.
const maxRollouts = 20_000

// maxSaid bounds what a cluster says of the hooks that it has asked about one.
const maxSaid = 10

// Take takes over how far a cluster says that a rollout is, if it is that; ok
// says whether it is.
func Take(cl *state.Cluster, ch wire.Change) (ok bool, err error) {
	return state.TakeReport(&cl.Rollouts, ch, wire.ReportedRollout, maxRollouts,
		"the rollouts of too many services are kept of it already", func(r *wire.RolloutReport) {
			r.Cluster, r.Why, r.Program = cl.Name, state.Cut(r.Why, state.MaxWords), state.Cut(r.Program, state.MaxName)
			if r.Phase = apiv1.WorstPhase(r.Phase, wire.RolloutDone); r.Phase == wire.RolloutWaiting {
				r.Phase = wire.RolloutRolling
			}
			r.Promised, r.Updated, r.Surge = max(0, r.Promised), max(0, r.Updated), max(0, r.Surge)
			r.Step, r.Steps = max(0, r.Step), max(0, r.Steps)
			r.Said = r.Said[:min(len(r.Said), maxSaid)]
			for n := range r.Said {
				r.Said[n] = state.Cut(r.Said[n], state.MaxWords)
			}
			r.New.Clamp()
			r.Old.Clamp()
		})
}

// Waves gives another program to one cluster after the other, each when the one before
// runs it: what is bad is bad in one place, and what may be missing or too many of a
// service is so in one cluster at a time. Until it is its turn a cluster has the service
// as it was, with as many instances as it is to have now.
func Waves(t *state.Tx, want map[string]*wire.Share) {
	bySvc := map[string][]string{} // keys of want by app.service, in order of clusters
	for _, key := range records.SortedKeys(want) {
		if app := t.Model.Apps[want[key].App]; app != nil {
			want[key].Hold = hold(app, want[key].Service)
		}
		bySvc[want[key].App+"."+want[key].Service] = append(bySvc[want[key].App+"."+want[key].Service], key)
	}
	for _, keys := range bySvc {
		if len(keys) == 1 || t.Model.Rehearsing ||
			want[keys[0]].Spec.Job != nil { // what each would do is to be known of all
			continue
		}
		busy := false
		var wait []string
		for _, key := range keys {
			s, old := want[key], t.Model.Shares[key]
			if old != nil && old.Spec != s.Spec && !old.Spec.SameProgram(s.Spec) {
				wait = append(wait, key)
			}
		}
		if len(wait) == 0 {
			continue
		}
		program := want[keys[0]].Spec.ProgramID()
		for _, key := range keys {
			busy = busy || !slices.Contains(wait, key) && !rolled(t, key, want[key], program)
		}
		if h := want[keys[0]].Hold; h != nil && h.Paused {
			busy = true
		}
		if !busy {
			wait = wait[1:]
		}
		for _, key := range wait {
			s, old := want[key], t.Model.Shares[key]
			replicas := s.Spec.Replicas
			s.Spec, s.Revision = old.Spec, old.Revision
			if s.Spec.Replicas != replicas {
				spec := *old.Spec
				spec.Replicas = replicas
				s.Spec = &spec
			}
		}
	}
}

// rolled says whether a cluster runs what it has been given of a service. One that is
// away is not waited for.
func rolled(t *state.Tx, key string, s *wire.Share, program string) bool {
	name, service, _ := strings.Cut(key, ".")
	c := t.Model.Clusters[name]
	if c == nil || c.Suspect {
		return true
	}
	if !c.EverHeard || !c.Current {
		return false
	}
	if r := c.Rollouts[service]; r != nil && r.Program == program && r.Phase != wire.RolloutDone {
		return false
	}
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			rep := c.Seen[state.InstanceID(s.App, s.Service, o)]
			if rep == nil || rep.State == wire.Requested || rep.Unreachable {
				continue // there is nothing of it that could be updated
			}
			if rep.Program != program || rep.State != wire.Terminated && !rep.Asleep &&
				(rep.State != wire.Running || !rep.Ready) {
				return false
			}
		}
	}
	return true
}

// hold is what people said about the rollout of a service, nil for nothing.
func hold(app *record.Application, service string) *wire.Hold {
	if h, ok := app.Holds[service]; ok {
		return &h
	}
	return nil
}

// SameHold compares what shares say of pauses.
func SameHold(a, b *wire.Hold) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Paused == b.Paused && a.Resumed == b.Resumed && a.By == b.By && a.Why == b.Why
}

// Extra says whether a cluster may have an instance beyond those that it was given, which
// stands in for others in a rollout.
func Extra(t *state.Tx, c *state.Cluster, rep *wire.Reported) bool {
	if rep.Ordinal < wire.SurgeOrdinals || !rep.Ready || rep.State != wire.Running {
		return false
	}
	key := c.Name + "." + rep.App + "." + rep.Service
	s, ok := t.Shares[key]
	if !ok {
		s = t.Model.Shares[key]
	}
	return s != nil && rep.Ordinal%wire.MaxSurge < min(max(s.Spec.Surge(s.Max), 1), wire.MaxSurge)
}

// Rolling says whether a cluster has a rollout of a service that goes on.
func Rolling(m *state.Model, key string) bool {
	for name, c := range m.Clusters {
		if r := c.Rollouts[key]; r != nil && r.Phase == wire.RolloutRolling && !c.Suspect &&
			m.Shares[name+"."+key] != nil {
			return true
		}
	}
	return false
}

// Progress says how far a service is.
func Progress(m *state.Model, app *record.Application, service string) apiv1.ServiceRollout {
	spec := app.Spec.Services[service]
	v := apiv1.ServiceRollout{Name: service, Phase: wire.RolloutDone, Hold: hold(app, service),
		Clusters: []wire.RolloutReport{}}
	program := spec.ProgramID()
	for _, name := range records.SortedKeys(m.Clusters) {
		s := m.Shares[name+"."+app.Name+"."+service]
		if s == nil {
			continue
		}
		c := m.Clusters[name]
		r := wire.RolloutReport{Cluster: name, App: app.Name, Service: service, Revision: app.Revision,
			Program: program, Phase: wire.RolloutDone, Promised: s.Min}
		switch rep := c.Rollouts[app.Name+"."+service]; {
		case s.Spec.ProgramID() != program && v.Hold != nil && v.Hold.Paused:
			r.Phase, r.Why = wire.RolloutPaused, "its turn has not come"
		case s.Spec.ProgramID() != program:
			r.Phase, r.Why = wire.RolloutWaiting, "clusters come one after the other, and its turn has not come"
		case rep != nil && rep.Program == program:
			r = *rep
		default:
			for _, sp := range s.Ordinals {
				for o := sp.From; o < sp.To; o++ {
					if rep := c.Seen[state.InstanceID(app.Name, service, o)]; rep != nil && rep.Program == program &&
						rep.Ready {
						r.Updated++
					}
				}
			}
		}
		v.Promised, v.Updated = v.Promised+r.Promised, v.Updated+r.Updated
		if worst := apiv1.WorstPhase(v.Phase, r.Phase); worst != v.Phase || v.Why == "" {
			v.Phase = worst
			if r.Why != "" && r.Phase == worst {
				v.Why = "cluster " + name + ": " + r.Why
			}
		}
		v.Clusters = append(v.Clusters, r)
	}
	return v
}

// View is what people are shown of the rollouts of an application.
func View(m *state.Model, app *record.Application) apiv1.RolloutView {
	v := apiv1.RolloutView{Name: app.Name, Revision: app.Revision, Source: state.Tier,
		Services: []apiv1.ServiceRollout{}}
	for _, svc := range app.Spec.ServiceNames() {
		v.Services = append(v.Services, Progress(m, app, svc))
	}
	ready := map[string]int{} // by cluster and service
	for name, c := range m.Clusters {
		for _, rep := range c.Seen {
			if rep.App == app.Name && rep.State == wire.Running && rep.Ready && !c.Suspect {
				ready[name+"/"+rep.Service]++
			}
		}
	}
	for i := range v.Services {
		s := &v.Services[i]
		for n := range s.Clusters {
			r := &s.Clusters[n]
			r.Ready = ready[r.Cluster+"/"+s.Name]
			s.Ready += r.Ready
		}
	}
	return v
}

// Extras are the instances of an application (app "": of all) that stand in for others,
// by cluster. What is ending of them is left out.
func Extras(m *state.Model, app, service string, now time.Time) (out []apiv1.InstanceView) {
	for _, name := range records.SortedKeys(m.Clusters) {
		c := m.Clusters[name]
		for _, key := range records.SortedKeys(c.Rollouts) {
			r := c.Rollouts[key]
			if r.Surge == 0 || app != "" && r.App != app || service != "" && r.Service != service {
				continue
			}
			for id, rep := range c.Seen {
				if rep.Ordinal >= wire.SurgeOrdinals && rep.App == r.App && rep.Service == r.Service {
					if v, ok := ExtraView(m, id, now); ok && v.Cluster == name {
						out = append(out, v)
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b apiv1.InstanceView) int { return state.ByName(&a.Instance, &b.Instance) })
	return out
}

// ExtraView is an instance that stands in for others, as its cluster reports it.
func ExtraView(m *state.Model, id wire.InstanceID, now time.Time) (v apiv1.InstanceView, ok bool) {
	for _, name := range records.SortedKeys(m.Clusters) {
		c := m.Clusters[name]
		rep := c.Seen[id]
		if rep == nil || rep.Ordinal < wire.SurgeOrdinals || m.Apps[rep.App] == nil ||
			m.Shares[name+"."+rep.App+"."+rep.Service] == nil {
			continue
		}
		v = apiv1.InstanceView{Instance: rep.Instance, Namespace: m.Namespace(rep.App), Source: "cluster/" + name,
			AgeSeconds: now.Sub(c.Heard).Seconds()}
		v.Cluster = name
		return v, true
	}
	return v, false
}

// Known is what this process knows beside what is stored.
type Known struct {
	// Gates are as in hooks.Keeper.Gates, of waves of rollouts.
	Gates map[string]string
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	Clone: func(k *Known) *Known {
		return &Known{Gates: maps.Clone(k.Gates)}
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// WaveGate is what it means in a namespace if nobody answers who is to be asked before waves
// of rollouts, "" where nobody is.
func WaveGate(m *state.Model, namespace string) string {
	all, mine := Memory(m).Gates[""], Memory(m).Gates[namespace]
	if all == wire.HookClosed || mine == wire.HookClosed {
		return wire.HookClosed
	}
	return cmp.Or(all, mine)
}
