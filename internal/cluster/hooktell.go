package cluster

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/wire"
)

// Subjects of notices, each with its mark.
const (
	ofInstance = "instance/"
	ofRollout  = "rollout/"
	ofJob      = "job/"
	ofLocal    = "local/"
)

// openHooks begins to tell the hooks of this cluster what happens, first of all what could
// not be noted before the process ended. The mutex is not held.
func (c *Cluster) openHooks(ctx context.Context) error {
	tier := c.m.Tier()
	say := func(subject, what string) { c.events.Add(time.Now(), tier, subject, what) }
	k, err := hooks.Open(ctx, hooks.Options{Store: c.store, Key: c.key, Now: c.clock.Now, Source: tier, Allow: c.opts.HooksAllow, Advertised: c.opts.Advertise, Say: say, Log: c.log})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = k
	c.told()
	return nil
}

// told notes again where everything is, and the end of what is gone: of both nothing is told
// that was told before. The mutex is held.
func (c *core) told() {
	k := c.hooks
	if !k.Any() {
		return
	}
	unseen := func(time.Time) bool { return false }
	for _, id := range records.SortedKeys(c.m.Insts) {
		c.tellInstance(c.m.Insts[id], unseen)
	}
	now := time.Now()
	for subject, namespace := range k.Subjects(ofInstance) {
		if id := strings.TrimPrefix(subject, ofInstance); c.m.Insts[id] == nil {
			c.tellGone(id, namespace, now)
		}
	}
	for _, key := range records.SortedKeys(c.m.upRolls) {
		c.tellRollout(key, c.m.upRolls[key], false)
	}
	for subject := range k.Subjects(ofRollout) {
		if key := strings.TrimPrefix(subject, ofRollout); c.m.upRolls[key] == nil {
			c.tellRollout(key, nil, false)
		}
	}
	for _, key := range records.SortedKeys(c.m.upJobs) {
		c.tellJob(key, c.m.upJobs[key], func(*wire.JobRun) bool { return false })
	}
	for subject := range k.Subjects(ofJob) {
		if key := strings.TrimPrefix(subject, ofJob); c.m.upJobs[key] == nil {
			c.tellJob(key, nil, nil)
		}
	}
	for _, key := range records.SortedKeys(c.m.locals) {
		c.tellLocal(key, c.m.locals[key], false)
	}
	for subject, namespace := range k.Subjects(ofLocal) {
		if key := strings.TrimPrefix(subject, ofLocal); c.m.locals[key] == nil {
			c.localOver(key, namespace, c.m.conflictOf(key), "", overWhile, now)
		}
	}
}

// tellOf notes what a pass has stored. The mutex is held.
func (c *core) tellOf(t *tx, now time.Time) {
	if !c.hooks.Any() {
		return
	}
	seen := func(at time.Time) bool { return at.Equal(now) }
	for _, id := range records.SortedKeys(t.Insts) {
		if i := t.Insts[id]; i != nil {
			c.tellInstance(i, seen)
		} else {
			c.tellGone(id, t.Gone[id], now)
		}
	}
	for _, key := range records.SortedKeys(t.upRolls) {
		c.tellRollout(key, t.upRolls[key], true)
	}
	for _, key := range records.SortedKeys(t.upJobs) {
		c.tellJob(key, t.upJobs[key], func(run *wire.JobRun) bool { return !run.Ended.Before(now.Add(-justNow)) })
	}
	for _, number := range records.SortedKeys(t.conflicts) {
		if x := t.conflicts[number]; x != nil {
			c.localOver(x.Local.App+"."+x.Local.Service, x.Local.Namespace, x, "", "", now)
		}
	}
	for _, key := range records.SortedKeys(t.locals) {
		if t.locals[key] == nil && c.m.conflictOf(key) == nil {
			c.localOver(key, "", nil, "", "the root says now what was changed here", now)
		}
	}
}

// justNow is how long ago the end of a run may be that is noted now.
const justNow = time.Minute

// stepKind is hooks.KindOf, and what only the tier that places an instance decides.
func stepKind(h wire.Transition) string {
	if h.To == wire.Requested {
		return wire.HookInstanceWaiting
	}
	return hooks.KindOf(h)
}

// tellInstance notes all that has become of an instance. The mutex is held.
func (c *core) tellInstance(i *wire.Instance, fresh func(at time.Time) bool) {
	d := wire.HookData{
		Subject: ofInstance + i.ID, Namespace: c.m.SpaceOf(i), Application: i.App, Service: i.Service, Instance: i.ID, Cluster: c.name, Revision: i.Revision,
	}
	c.hooks.Tell(hooks.Steps(d, i.History, stepKind, fresh)...)
}

// tellGone notes that an instance is no more. The mutex is held.
func (c *core) tellGone(id wire.InstanceID, namespace string, now time.Time) {
	app, service, _ := hooks.CutID(id)
	if namespace == "" {
		namespace = c.hooks.NamespaceOf(ofInstance + id)
	}
	c.hooks.Tell(hooks.InstanceGone(wire.HookData{Subject: ofInstance + id, Namespace: namespace, Application: app, Service: service, Instance: id, Cluster: c.name}, now))
}

// tellRollout notes how far a rollout is, nil for one that is forgotten. The mutex is held.
func (c *core) tellRollout(key string, r *wire.RolloutReport, fresh bool) {
	d := wire.HookData{Subject: ofRollout + key, Cluster: c.name}
	if r == nil {
		c.hooks.Tell(hooks.Notice{Last: true, Data: d})
		return
	}
	d.Namespace = c.m.Namespace(r.App)
	if n, ok := hooks.RolloutOver(d, r, fresh); ok {
		c.hooks.Tell(n)
	}
}

// tellJob notes the runs of a job that have ended, nil for a job that is gone. The mutex is
// held.
func (c *core) tellJob(key string, r *wire.JobReport, fresh func(*wire.JobRun) bool) {
	d := wire.HookData{Subject: ofJob + key, Cluster: c.name}
	if r == nil {
		c.hooks.Tell(hooks.Notice{Last: true, Data: d})
		return
	}
	d.Namespace = c.m.Namespace(r.App)
	c.hooks.Tell(hooks.RunsOver(d, r, fresh)...)
}

// tellLocal notes a change that was made at this site. The mutex is held.
func (c *core) tellLocal(key string, l *local, fresh bool) {
	c.hooks.Tell(hooks.Notice{
		Kind: wire.HookLocalChanged, At: l.At, Position: fmt.Sprintf("change %d at %d", l.Number, l.At.UnixNano()), Fresh: fresh,
		Data: wire.HookData{Subject: ofLocal + key, Namespace: l.Namespace, Application: l.App, Service: l.Service, Cluster: c.name, Revision: l.revision(), By: l.By, What: l.Service + ": " + c.m.words(l)},
	})
}

// overWhile is why a change does not count that was over when nobody could note it.
const overWhile = "it does not count any more: what the root says does"

// localOver notes that a change at this site does not count any more: it gave way to the
// root (x), or else why, by somebody where that is known. The mutex is held.
func (c *core) localOver(key, namespace string, x *conflict, by, why string, now time.Time) {
	app, service, _ := strings.Cut(key, ".")
	if namespace == "" {
		namespace = cmp.Or(c.hooks.NamespaceOf(ofLocal+key), c.m.Namespace(app))
	}
	n := hooks.Notice{Kind: wire.HookLocalChanged, At: now, Position: hooks.Ended, Fresh: true, Last: true, Data: wire.HookData{
		Subject: ofLocal + key, Namespace: namespace, Application: app, Service: service, Cluster: c.name, By: by, What: service + ": " + why,
	}}
	if x != nil {
		n.Kind, n.Data.By = wire.HookLocalOverruled, x.Local.By
		n.Data.What = fmt.Sprintf("%s: what %s changed here (%s) gives way to the root: %s", service, x.Local.By, c.m.words(&x.Local), x.Root)
	}
	c.hooks.Tell(n)
}

// conflictOf is the latest conflict about a service, nil for none.
func (m *model) conflictOf(key string) (last *conflict) {
	for _, x := range m.conflicts {
		if x.Local.App+"."+x.Local.Service == key && (last == nil || x.Local.Number > last.Local.Number) {
			last = x
		}
	}
	return last
}

// tellWorker notes what became of a worker. The mutex is held.
func (c *core) tellWorker(kind, name, position, what string, now time.Time) {
	c.hooks.Tell(hooks.OfNode(kind, position, wire.HookData{Subject: "worker/" + c.name + "/" + name, Cluster: c.name, What: what}, now))
}
