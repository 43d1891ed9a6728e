package root

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// maxRollouts bounds the services of which one cluster's rollouts are kept.
const maxRollouts = 20_000

// maxSaid bounds what a cluster says of the hooks that it has asked about one.
const maxSaid = 10

// takeRollout takes over how far a cluster says that a rollout is, if it is that; ok
// says whether it is.
func (cl *cluster) takeRollout(ch wire.Change) (ok bool, err error) {
	return takeReport(&cl.rollouts, ch, wire.ReportedRollout, maxRollouts, "the rollouts of too many services are kept of it already", func(r *wire.RolloutReport) {
		r.Cluster, r.Why, r.Program = cl.Name, cut(r.Why, maxWords), cut(r.Program, maxName)
		if r.Phase = wire.WorstPhase(r.Phase, wire.RolloutDone); r.Phase == wire.RolloutWaiting {
			r.Phase = wire.RolloutRolling
		}
		r.Promised, r.Updated, r.Surge = max(0, r.Promised), max(0, r.Updated), max(0, r.Surge)
		r.Step, r.Steps = max(0, r.Step), max(0, r.Steps)
		r.Said = r.Said[:min(len(r.Said), maxSaid)]
		for n := range r.Said {
			r.Said[n] = cut(r.Said[n], maxWords)
		}
		r.New.Clamp()
		r.Old.Clamp()
	})
}

// takeReport takes over what a cluster says of one service, if it is of that kind; ok says
// whether it is. tame makes of it what may be kept.
func takeReport[R any, P interface {
	*R
	Key() string
}](kept *map[string]P, ch wire.Change, prefix string, most int, tooMany string, tame func(P)) (ok bool, err error) {
	key, found := strings.CutPrefix(ch.Key, prefix)
	if !found {
		return false, nil
	}
	if ch.Deleted {
		delete(*kept, key)
		return true, nil
	}
	r := P(new(R))
	if err := json.Unmarshal(ch.Value, r); err != nil {
		return true, err
	}
	if r.Key() != key || len(key) > maxName {
		return true, fmt.Errorf("it is about %q", cut(r.Key(), maxName))
	}
	if (*kept)[key] == nil && len(*kept) >= most {
		return true, errors.New(tooMany)
	}
	tame(r)
	if *kept == nil {
		*kept = map[string]P{}
	}
	(*kept)[key] = r
	return true, nil
}

// waves gives another program to one cluster after the other, each when the one before
// runs it: what is bad is bad in one place, and what may be missing or too many of a
// service is so in one cluster at a time. Until it is its turn a cluster has the service
// as it was, with as many instances as it is to have now.
func (t *tx) waves(want map[string]*wire.Share) {
	bySvc := map[string][]string{} // keys of want by app.service, in order of clusters
	for _, key := range records.SortedKeys(want) {
		if app := t.m.apps[want[key].App]; app != nil {
			want[key].Hold = hold(app, want[key].Service)
		}
		bySvc[want[key].App+"."+want[key].Service] = append(bySvc[want[key].App+"."+want[key].Service], key)
	}
	for _, keys := range bySvc {
		if len(keys) == 1 || t.m.rehearsing || want[keys[0]].Spec.Job != nil { // what each would do is to be known of all
			continue
		}
		busy := false
		var wait []string
		for _, key := range keys {
			s, old := want[key], t.m.shares[key]
			if old != nil && old.Spec != s.Spec && !old.Spec.SameProgram(s.Spec) {
				wait = append(wait, key)
			}
		}
		if len(wait) == 0 {
			continue
		}
		program := want[keys[0]].Spec.ProgramID()
		for _, key := range keys {
			busy = busy || !slices.Contains(wait, key) && !t.rolled(key, want[key], program)
		}
		if h := want[keys[0]].Hold; h != nil && h.Paused {
			busy = true
		}
		if !busy {
			wait = wait[1:]
		}
		for _, key := range wait {
			s, old := want[key], t.m.shares[key]
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
func (t *tx) rolled(key string, s *wire.Share, program string) bool {
	name, service, _ := strings.Cut(key, ".")
	c := t.m.clusters[name]
	if c == nil || c.suspect {
		return true
	}
	if !c.everHeard || !c.current {
		return false
	}
	if r := c.rollouts[service]; r != nil && r.Program == program && r.Phase != wire.RolloutDone {
		return false
	}
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			rep := c.seen[instanceID(s.App, s.Service, o)]
			if rep == nil || rep.State == wire.Requested || rep.Unreachable {
				continue // there is nothing of it that could be updated
			}
			if rep.Program != program || rep.State != wire.Terminated && !rep.Asleep && (rep.State != wire.Running || !rep.Ready) {
				return false
			}
		}
	}
	return true
}

// hold is what people said about the rollout of a service, nil for nothing.
func hold(app *wire.Application, service string) *wire.Hold {
	if h, ok := app.Holds[service]; ok {
		return &h
	}
	return nil
}

func sameHold(a, b *wire.Hold) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Paused == b.Paused && a.Resumed == b.Resumed && a.By == b.By && a.Why == b.Why
}

// extra says whether a cluster may have an instance beyond those that it was given, which
// stands in for others in a rollout.
func (t *tx) extra(c *cluster, rep *wire.Reported) bool {
	if rep.Ordinal < wire.SurgeOrdinals || !rep.Ready || rep.State != wire.Running {
		return false
	}
	key := c.Name + "." + rep.App + "." + rep.Service
	s, ok := t.shares[key]
	if !ok {
		s = t.m.shares[key]
	}
	return s != nil && rep.Ordinal%wire.MaxSurge < min(max(s.Spec.Surge(s.Max), 1), wire.MaxSurge)
}

// rolling says whether a cluster has a rollout of a service that goes on.
func (m *model) rolling(key string) bool {
	for name, c := range m.clusters {
		if r := c.rollouts[key]; r != nil && r.Phase == wire.RolloutRolling && !c.suspect && m.shares[name+"."+key] != nil {
			return true
		}
	}
	return false
}

// rollout says how far a service is.
func (m *model) rollout(app *wire.Application, service string) wire.ServiceRollout {
	spec := app.Spec.Services[service]
	v := wire.ServiceRollout{Name: service, Phase: wire.RolloutDone, Hold: hold(app, service), Clusters: []wire.RolloutReport{}}
	program := spec.ProgramID()
	for _, name := range records.SortedKeys(m.clusters) {
		s := m.shares[name+"."+app.Name+"."+service]
		if s == nil {
			continue
		}
		c := m.clusters[name]
		r := wire.RolloutReport{Cluster: name, App: app.Name, Service: service, Revision: app.Revision, Program: program, Phase: wire.RolloutDone, Promised: s.Min}
		switch rep := c.rollouts[app.Name+"."+service]; {
		case s.Spec.ProgramID() != program && v.Hold != nil && v.Hold.Paused:
			r.Phase, r.Why = wire.RolloutPaused, "its turn has not come"
		case s.Spec.ProgramID() != program:
			r.Phase, r.Why = wire.RolloutWaiting, "clusters come one after the other, and its turn has not come"
		case rep != nil && rep.Program == program:
			r = *rep
		default:
			for _, sp := range s.Ordinals {
				for o := sp.From; o < sp.To; o++ {
					if rep := c.seen[instanceID(app.Name, service, o)]; rep != nil && rep.Program == program && rep.Ready {
						r.Updated++
					}
				}
			}
		}
		v.Promised, v.Updated = v.Promised+r.Promised, v.Updated+r.Updated
		if worst := wire.WorstPhase(v.Phase, r.Phase); worst != v.Phase || v.Why == "" {
			v.Phase = worst
			if r.Why != "" && r.Phase == worst {
				v.Why = "cluster " + name + ": " + r.Why
			}
		}
		v.Clusters = append(v.Clusters, r)
	}
	return v
}

// Rollout implements rest.Backend.
func (b backend) Rollout(_ context.Context, name string) (wire.RolloutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	app := b.m.apps[name]
	if app == nil {
		return wire.RolloutView{}, noApp(name)
	}
	return b.m.rolloutView(app), nil
}

func (m *model) rolloutView(app *wire.Application) wire.RolloutView {
	v := wire.RolloutView{Name: app.Name, Revision: app.Revision, Source: tier, Services: []wire.ServiceRollout{}}
	for _, svc := range app.Spec.ServiceNames() {
		v.Services = append(v.Services, m.rollout(app, svc))
	}
	ready := map[string]int{} // by cluster and service
	for name, c := range m.clusters {
		for _, rep := range c.seen {
			if rep.App == app.Name && rep.State == wire.Running && rep.Ready && !c.suspect {
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

// Pause implements rest.Backend.
func (b backend) Pause(ctx context.Context, name string, q wire.RolloutRequest) (wire.RolloutView, error) {
	return b.setHold(ctx, name, q, true)
}

// Resume implements rest.Backend.
func (b backend) Resume(ctx context.Context, name string, q wire.RolloutRequest) (wire.RolloutView, error) {
	return b.setHold(ctx, name, q, false)
}

func (b backend) setHold(ctx context.Context, name string, q wire.RolloutRequest, paused bool) (wire.RolloutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	old, err := b.changeable(ctx, name, now)
	if err != nil {
		return wire.RolloutView{}, err
	}
	if q.Service != "" && old.Spec.Services[q.Service] == nil {
		return wire.RolloutView{}, noService(name, q.Service)
	}
	next := *old
	if next.Holds = maps.Clone(old.Holds); next.Holds == nil {
		next.Holds = map[string]wire.Hold{}
	}
	for svc := range next.Holds {
		if old.Spec.Services[svc] == nil {
			delete(next.Holds, svc)
		}
	}
	for _, svc := range old.Spec.ServiceNames() {
		if q.Service != "" && svc != q.Service {
			continue
		}
		h := next.Holds[svc]
		if paused && h.Paused {
			continue // since then, and by whoever did it
		}
		h.Paused, h.By, h.At, h.Why = paused, rest.Caller(ctx), now.Round(0), q.Reason
		if !paused {
			h.Resumed++
		}
		next.Holds[svc] = h
	}
	if err := b.putApp(ctx, &next); err != nil {
		return wire.RolloutView{}, err
	}
	what := "rollout resumed"
	if paused {
		what = "rollout paused"
	}
	if q.Service != "" {
		what += " (" + q.Service + ")"
	}
	what += byWhom(rest.Caller(ctx))
	if q.Reason != "" {
		what += ": " + q.Reason
	}
	b.events.Add(now, tier, "application/"+name, what)
	return b.m.rolloutView(&next), nil
}

// rollBack undoes what has failed where the descriptor asks for that. The mutex is held.
func (c *core) rollBack(ctx context.Context, now time.Time) {
	if c.m.holding(now) {
		return
	}
	stays := map[string]uint64{}
	defer func() { c.stays = stays }()
	for _, name := range records.SortedKeys(c.m.apps) {
		app := c.m.apps[name]
		if !app.Deleting.IsZero() {
			continue
		}
		for _, svc := range app.Spec.ServiceNames() {
			spec := app.Spec.Services[svc]
			if spec.Rollout.OnFailure != "rollback" || app.RolledBack[svc] {
				continue
			}
			r := c.m.rollout(app, svc)
			if r.Phase != wire.RolloutFailed {
				continue
			}
			key := name + "." + svc
			if c.stays[key] == app.Revision {
				stays[key] = app.Revision // the revisions before it are the same
				continue
			}
			to, err := c.lastHeld(ctx, app, svc)
			if p := new(wire.Problem); errors.As(err, &p) {
				stays[key] = app.Revision
			}
			if err != nil {
				c.log.Debug("a rollout that failed is not undone", "application", name, "service", svc, "error", err)
				continue // verge rollout status says that it has failed
			}
			if _, err := c.undo(ctx, access.Who{Name: wire.ByRollback, Admin: true}, app, svc, to, wire.ByRollback, "its rollout failed, "+r.Why, now); err != nil {
				c.log.Warn("undoing a rollout that failed", "application", name, "service", svc, "error", err)
				return
			}
			next := *c.m.apps[name]
			if next.RolledBack = maps.Clone(next.RolledBack); next.RolledBack == nil {
				next.RolledBack = map[string]bool{}
			}
			next.RolledBack[svc] = true // what it is brought back to is not undone in its turn
			if err := c.putApp(ctx, &next); err != nil {
				c.log.Warn("noting that a rollout was undone", "application", name, "error", err)
			}
			return // the other services: in the pass that this causes
		}
	}
}

// extras are the instances of an application (app "": of all) that stand in for others,
// by cluster. What is ending of them is left out.
func (m *model) extras(app, service string, now time.Time) (out []wire.InstanceView) {
	for _, name := range records.SortedKeys(m.clusters) {
		c := m.clusters[name]
		for _, key := range records.SortedKeys(c.rollouts) {
			r := c.rollouts[key]
			if r.Surge == 0 || app != "" && r.App != app || service != "" && r.Service != service {
				continue
			}
			for id, rep := range c.seen {
				if rep.Ordinal >= wire.SurgeOrdinals && rep.App == r.App && rep.Service == r.Service {
					if v, ok := m.extraView(id, now); ok && v.Cluster == name {
						out = append(out, v)
					}
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b wire.InstanceView) int { return byName(&a.Instance, &b.Instance) })
	return out
}

// extraView is an instance that stands in for others, as its cluster reports it.
func (m *model) extraView(id wire.InstanceID, now time.Time) (v wire.InstanceView, ok bool) {
	for _, name := range records.SortedKeys(m.clusters) {
		c := m.clusters[name]
		rep := c.seen[id]
		if rep == nil || rep.Ordinal < wire.SurgeOrdinals || m.apps[rep.App] == nil || m.shares[name+"."+rep.App+"."+rep.Service] == nil {
			continue
		}
		v = wire.InstanceView{Instance: rep.Instance, Namespace: m.namespace(rep.App), Source: "cluster/" + name, AgeSeconds: now.Sub(c.heard).Seconds()}
		v.Cluster = name
		return v, true
	}
	return v, false
}

// standsIn says why there is an instance beyond those that were promised: the root has
// ordered the rollout, and its cluster decides what stands in for whom.
func (b backend) standsIn(v wire.InstanceView) wire.Explained {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := place.Decision{V: wire.Version, Kind: "clusters", Chosen: v.Cluster, Candidates: 1}
	d.Reason = fmt.Sprintf("it stands in while cluster %s updates %s.%s (rollout.max_surge), and ends with that", v.Cluster, v.App, v.Service)
	out := wire.Explained{Tier: tier}
	if len(v.History) > 0 {
		out.At = v.History[0].At
	}
	if c := b.m.clusters[v.Cluster]; c != nil && c.rollouts[v.App+"."+v.Service] != nil {
		r := c.rollouts[v.App+"."+v.Service]
		out.At = r.Began
		d.Reason = fmt.Sprintf("it stands in while cluster %s brings %s.%s to revision %d (rollout.max_surge), and ends with that", v.Cluster, v.App, v.Service, r.Revision)
	}
	out.Decision = d
	return out
}
