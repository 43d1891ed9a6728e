package root

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	tier      = "root"
	maxLambda = 5 * time.Second        // longest time between two reports of a cluster
	minLambda = 500 * time.Millisecond // shortest
)

// step is one pass of the root's loop: it compares what should be with what is
// and collects in a tx what has to change. It is a function of the model and of
// now, and doing it twice changes nothing more.
func (m *model) step(now time.Time) *tx {
	t := m.begin()
	t.recover(now)
	if m.holding(now) {
		return t
	}
	t.grant(now)
	maps.DeleteFunc(m.unkept, func(_ string, at time.Time) bool { return now.Sub(at) > sla.Rest })
	m.pruneRefusals(now)
	t.number()
	t.orphans(now)
	t.lostAndFound(now)
	for _, i := range t.instances("") {
		t.takeBack(*i, now)
	}
	for _, name := range records.SortedKeys(m.apps) {
		app := m.apps[name]
		if !app.Deleting.IsZero() {
			continue
		}
		for _, svc := range app.Spec.ServiceNames() {
			if !slices.Contains(app.Unclaimed, svc) {
				t.fulfil(app, svc, now)
			}
		}
	}
	for _, i := range t.instances("") {
		if app := m.apps[i.App]; app == nil || !app.Deleting.IsZero() || app.Spec.Services[i.Service] == nil {
			t.end(*i, now)
		}
	}
	for _, i := range t.instances("") {
		if i.Draining {
			t.forget(i, now)
		}
	}
	t.overflow(now)
	t.place(now)
	t.scheduled(now)
	t.delegate()
	t.secrets()
	t.route(now)
	t.revoke()
	t.finish(now)
	return t
}

func (t *tx) advance(i wire.Instance, to wire.State, now time.Time, why string) wire.Instance {
	next, err := life.Advance(i, to, now, tier, why)
	if err != nil {
		t.event("instance/"+i.ID, "refused: %v", err)
		return i
	}
	next.Reason = why
	return next
}

// dead says whether what the cluster runs is to be replaced.
func (m *model) dead(c *cluster, now time.Time) bool {
	return c.suspect && now.Sub(c.since) >= m.deadAfter
}

// lostAndFound marks the instances of dead clusters as unreachable, and decides
// when one is back which of the two stays where an instance was replaced.
func (t *tx) lostAndFound(now time.Time) {
	for _, i := range t.instances("") {
		i = t.inst(i.ID) // settling another may have changed it
		if i == nil || i.Draining || t.m.clusters[i.Cluster] == nil {
			continue
		}
		c := t.m.clusters[i.Cluster]
		back := !c.suspect && c.everHeard && c.inbox.Ack().Inc != ""
		next := *i
		switch {
		case !i.Unreachable && t.m.dead(c, now) && !t.m.alone:
			next.Unreachable = true
			next.Reason = "cluster " + c.Name + " is away"
			away := fmt.Sprintf("unreachable: cluster %s has been away for %s", c.Name, now.Sub(c.heard).Round(time.Second))
			t.event("instance/"+i.ID, "%s", away)
			t.note(wire.HookInstanceUnreachable, i, now, away)
			t.put(next)
		case back && i.Unreachable:
			next.Unreachable, next.Reason = false, ""
			t.put(next)
			t.settle(&next, c, now)
		}
	}
}

// settle ends the original or the replacement, as on_return says.
func (t *tx) settle(i *wire.Instance, c *cluster, now time.Time) {
	var replacement *wire.Instance
	for _, o := range t.of(i.App, i.Service) {
		if o.Replaces == i.ID && !o.Draining {
			replacement = o
		}
	}
	if replacement == nil || t.settleJob(i, replacement, c, now) {
		return
	}
	keep := "original"
	if app := t.m.apps[i.App]; app != nil && app.Spec.Services[i.Service] != nil && app.Spec.Services[i.Service].Cron != nil {
		// All of them, and the schedule with them, are where they were placed last.
		if keep = "replacement"; replacement.Cluster == "" {
			t.end(*replacement, now)
			return
		}
	} else if app != nil && app.Spec.Services[i.Service] != nil {
		keep = app.Spec.Services[i.Service].OnReturn
	}
	if c.draining() {
		keep = "replacement"
	}
	rep := c.seen[i.ID]
	if keep == "original" && rep != nil && rep.State == wire.Running {
		t.event("instance/"+i.ID, "cluster %s is back: the original stays, its replacement %s ends", c.Name, replacement.ID)
		t.end(*replacement, now)
		return
	}
	t.event("instance/"+i.ID, "cluster %s is back: the replacement %s stays, the original ends", c.Name, replacement.ID)
	t.end(*i, now)
}

// takeBack makes an instance the root's again that a cluster gave back.
func (t *tx) takeBack(i wire.Instance, now time.Time) {
	c := t.m.clusters[i.Cluster]
	if c == nil || i.State != wire.ClusterScheduled || i.Draining {
		return
	}
	rep := c.seen[i.ID]
	if rep == nil || rep.State != wire.Requested || c.suspect || rep.Revision >= wire.LocalRevisions {
		// What its site made of it is the site's to place.
		return
	}
	if rep.Retained && !t.elsewhere(&i, now) {
		// Its worker may come back with it, and nobody else has room: taken back it
		// would be stopped there, for nothing.
		return
	}
	if app := t.m.apps[i.App]; app != nil && app.Spec.Services[i.Service] != nil && app.Spec.Services[i.Service].Cron != nil {
		if t.atWork(i.App, i.Service, i.Cluster) {
			return // all of them are in one cluster, and some are at work
		}
		for _, o := range t.of(i.App, i.Service) {
			if o.ID != i.ID && o.Cluster == i.Cluster && o.State == wire.ClusterScheduled && !o.Draining {
				next := t.advance(*o, wire.Requested, now, "returned by cluster "+i.Cluster+" with "+i.ID)
				if !slices.Contains(next.Avoid, i.Cluster) {
					next.Avoid = append(slices.Clone(next.Avoid), i.Cluster)
				}
				next.Cluster = ""
				t.put(next)
			}
		}
	}
	times := 0
	for _, h := range i.History {
		if h.To == wire.Requested {
			times++
		}
	}
	wait := min(refuseMin<<min(max(times-1, 0), 10), refuseMax)
	if app := t.m.apps[i.App]; app != nil && app.Revision == rep.Revision && app.Spec.Services[i.Service] != nil {
		c.refused[i.App+"."+i.Service] = refusal{spec: app.Spec.Services[i.Service], at: now, wait: wait, why: rep.Reason, agg: c.agg}
	}
	back := "returned by cluster " + i.Cluster + ": " + rep.Reason
	t.note(wire.HookInstanceWaiting, &i, now, back)
	i = t.advance(i, wire.Requested, now, back)
	if !slices.Contains(i.Avoid, i.Cluster) {
		i.Avoid = append(i.Avoid, i.Cluster)
	}
	i.Cluster = ""
	i.AllRestarts += rep.Again()
	t.put(i)
}

// elsewhere says whether another cluster could take an instance now, or whether
// nobody wants it any more.
func (t *tx) elsewhere(i *wire.Instance, now time.Time) bool {
	app := t.m.apps[i.App]
	if app == nil || !app.Deleting.IsZero() || app.Spec.Services[i.Service] == nil {
		return true
	}
	key, svc := i.App+"."+i.Service, app.Spec.Services[i.Service]
	views := t.views(key, svc, t.given(), now)
	for n := range views {
		if views[n].ID == i.Cluster {
			views[n].Refused = "it gave it back"
		}
	}
	return len(place.RankClusters(views, t.request(i.App, i.Service, svc, 1)).Shares) > 0
}

// fulfil makes as many instances of a service as it promises.
func (t *tx) fulfil(app *wire.Application, svc string, now time.Time) {
	spec := app.Spec.Services[svc]
	if spec.Job != nil {
		t.fulfilJob(app, svc, now)
		return
	}
	// Of a service whose requests decide there are as many as may run: each is the
	// right of a cluster to run one more (see delegate).
	want := max(spec.Replicas.Min, spec.Replicas.Max)
	var active []*wire.Instance
	used := map[int]bool{}
	replaced := map[string]bool{}
	ending := 0 // rights that a cluster may still be using
	var lost []string
	for _, i := range t.of(app.Name, svc) {
		used[i.Ordinal] = true
		if i.Draining {
			if spec.Replicas.Elastic() && t.returns(i, now) {
				ending++
			}
			continue
		}
		if i.Unreachable && !spec.Pins() { // what a volume has is nowhere else
			lost = append(lost, i.ID)
			continue
		}
		if i.Replaces != "" {
			replaced[i.Replaces] = true
		}
		active = append(active, i)
	}
	lost = slices.DeleteFunc(lost, func(id string) bool { return replaced[id] })
	active, most, moving := t.relocate(app.Name, svc, spec, active, want, now)
	if moving != "" {
		want, lost = most, append(lost, moving)
	}
	for o := 0; len(active)+ending < want; o++ {
		if used[o] {
			continue
		}
		i := wire.Instance{
			V: wire.Version, ID: instanceID(app.Name, svc, o), App: app.Name, Service: svc, Ordinal: o,
			Revision: app.Revision, State: wire.Registered, Since: now,
			History: []wire.Transition{{To: wire.Registered, At: now, Tier: tier, Why: "applied"}},
		}
		why := "wanted by the descriptor"
		if len(lost) > 0 {
			i.Replaces, lost = lost[0], lost[1:]
			why = "replaces " + i.Replaces
		} else if spec.Replicas.Elastic() {
			why = "may run if its requests ask for it"
		}
		i = t.advance(i, wire.Requested, now, why)
		t.put(i)
		active = append(active, t.inst(i.ID))
	}
	// Too many: those first that no cluster has yet, else the highest ordinals.
	for len(active) > most {
		last := len(active) - 1
		if n := slices.IndexFunc(active, func(i *wire.Instance) bool { return i.Cluster == "" }); n >= 0 {
			last = n
		}
		t.end(*active[last], now)
		active = slices.Delete(active, last, last+1)
	}
}

// end starts the end of an instance: it is taken out of what is delegated, and
// forgotten when no cluster has it any more.
func (t *tx) end(i wire.Instance, now time.Time) {
	if i.Draining {
		return
	}
	if i.Cluster == "" {
		next := t.advance(i, wire.Terminated, now, "no longer wanted")
		if !t.m.right(&i) {
			t.event("instance/"+i.ID, "%s: %s", next.State, next.Reason)
		}
		t.remove(i.ID, now)
		return
	}
	i.Draining = true
	t.put(i)
}

// forget drops an ended instance once its cluster has said that it is gone.
func (t *tx) forget(i *wire.Instance, now time.Time) {
	c := t.m.clusters[i.Cluster]
	gone := c == nil || t.m.dead(c, now)
	if c != nil && !gone {
		key := c.Name + "." + i.App + "." + i.Service
		s := t.m.shares[key]
		delegated := s != nil && slices.ContainsFunc(s.Ordinals, func(sp wire.Span) bool { return i.Ordinal >= sp.From && i.Ordinal < sp.To })
		_, reported := c.seen[i.ID]
		gone = !delegated && !reported && !c.suspect && c.everHeard && c.current
	}
	if gone {
		if c == nil || !t.m.right(i) {
			t.event("instance/"+i.ID, "Terminated: no longer wanted")
		}
		t.remove(i.ID, now)
	}
}

// stillHeld: a cluster that gave the instance back still has something of it;
// nobody may be given it before that is gone. Only those that once had it are
// looked at: what others claim is no concern of it. A dead one is not waited for.
func (t *tx) stillHeld(i *wire.Instance, now time.Time) bool {
	for _, name := range i.Avoid {
		if c := t.m.clusters[name]; c != nil && !t.m.dead(c, now) {
			if _, ok := c.seen[i.ID]; ok {
				return true
			}
		}
	}
	return false
}

// views are the clusters as the ranking sees them for one service.
func (t *tx) views(svc string, spec *api.Service, g given, now time.Time) []place.ClusterView {
	app, _, _ := strings.Cut(svc, ".")
	lacks := t.lacking(app, spec)
	out := make([]place.ClusterView, 0, len(t.m.clusters))
	for _, name := range records.SortedKeys(t.m.clusters) {
		c := t.m.clusters[name]
		v := c.view()
		v.Pending, v.Same, v.Lacks = g.pending[name], g.same[svc][name], lacks(c)
		if follows(spec) {
			v.Entering = c.entering(svc)
		}
		v.Refused = c.refuses(svc, spec, g.eager[svc], now)
		out = append(out, v)
	}
	return out
}
