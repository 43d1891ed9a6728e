package notify

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Subjects of notices, each with its mark.
const (
	ofInstance = "instance/"
	ofJob      = "job/"
	ofLocal    = "local/"
)

// Open begins to tell hooks what happens, first of all what could not be noted before the
// process ended. o has what the core does not say.
func Open(ctx context.Context, c *core.Core, o hooks.Options) error {
	o.Store, o.Key, o.Source, o.Events, o.Log = c.RecordStore, c.Key, c.M.Tier(), c.EventRing, c.Logger
	k, err := hooks.Open(ctx, o)
	if err != nil {
		return err
	}
	core.Do(c, func(*state.Model) {
		c.HookKeeper = k
		Told(c)
	})
	return nil
}

// Told notes again where everything is, and the end of what is gone: of both nothing is told
// that was told before. The caller has the model.
func Told(c *core.Core) {
	k := c.HookKeeper
	if !k.Any() {
		return
	}
	unseen := func(time.Time) bool { return false }
	for _, id := range records.SortedKeys(c.M.Insts) {
		tellInstance(c, c.M.Insts[id], unseen)
	}
	now := time.Now()
	for subject, namespace := range k.Subjects(ofInstance) {
		if id := strings.TrimPrefix(subject, ofInstance); c.M.Insts[id] == nil {
			tellGone(c, id, namespace, now)
		}
	}
	for _, key := range records.SortedKeys(rollouts.UpTable.Rows(c.M.DB)) {
		TellRollout(c, key, rollouts.UpTable.Rows(c.M.DB)[key], false)
	}
	for subject := range k.Subjects(rollouts.OfRollout) {
		if key := strings.TrimPrefix(subject, rollouts.OfRollout); rollouts.UpTable.Rows(c.M.DB)[key] == nil {
			TellRollout(c, key, nil, false)
		}
	}
	for _, key := range records.SortedKeys(jobs.UpTable.Rows(c.M.DB)) {
		TellJob(c, key, jobs.UpTable.Rows(c.M.DB)[key], func(*wire.JobRun) bool { return false })
	}
	for subject := range k.Subjects(ofJob) {
		if key := strings.TrimPrefix(subject, ofJob); jobs.UpTable.Rows(c.M.DB)[key] == nil {
			TellJob(c, key, nil, nil)
		}
	}
	for _, key := range records.SortedKeys(localedit.Table.Rows(c.M.DB)) {
		TellLocal(c, key, localedit.Table.Rows(c.M.DB)[key], false)
	}
	for subject, namespace := range k.Subjects(ofLocal) {
		if key := strings.TrimPrefix(subject, ofLocal); localedit.Table.Rows(c.M.DB)[key] == nil {
			LocalOver(c, key, namespace, conflictOf(c.M, key), "", overWhile, now)
		}
	}
}

// TellOf notes what a pass has stored. The caller has the model.
func TellOf(c *core.Core, t *state.Tx, now time.Time) {
	if !c.HookKeeper.Any() {
		return
	}
	seen := func(at time.Time) bool { return at.Equal(now) }
	for _, id := range records.SortedKeys(t.Insts) {
		if i := t.Insts[id]; i != nil {
			tellInstance(c, i, seen)
		} else {
			tellGone(c, id, t.Gone[id], now)
		}
	}
	for _, key := range records.SortedKeys(rollouts.UpTable.Changes(t.Rows)) {
		TellRollout(c, key, rollouts.UpTable.Changes(t.Rows)[key], true)
	}
	for _, key := range records.SortedKeys(jobs.UpTable.Changes(t.Rows)) {
		TellJob(c, key, jobs.UpTable.Changes(t.Rows)[key],
			func(run *wire.JobRun) bool { return !run.Ended.Before(now.Add(-justNow)) })
	}
	for _, number := range records.SortedKeys(localedit.ConflictTable.Changes(t.Rows)) {
		if x := localedit.ConflictTable.Changes(t.Rows)[number]; x != nil {
			LocalOver(c, x.Local.App+"."+x.Local.Service, x.Local.Namespace, x, "", "", now)
		}
	}
	for _, key := range records.SortedKeys(localedit.Table.Changes(t.Rows)) {
		if localedit.Table.Changes(t.Rows)[key] == nil && conflictOf(c.M, key) == nil {
			LocalOver(c, key, "", nil, "", "the root says now what was changed here", now)
		}
	}
}

// justNow is how long ago the end of a run may be that is noted now.
const justNow = time.Minute

// tellInstance notes all that has become of an instance. The caller has the model.
func tellInstance(c *core.Core, i *wire.Instance, fresh func(at time.Time) bool) {
	d := wire.HookData{
		Subject: ofInstance + i.ID, Namespace: c.M.SpaceOf(i), Application: i.App, Service: i.Service, Instance: i.ID,
		Cluster: c.ClusterName, Revision: i.Revision,
	}
	c.HookKeeper.Tell(hooks.Steps(d, i.History, event.OfStep, fresh)...)
}

// tellGone notes that an instance is no more. The caller has the model.
func tellGone(c *core.Core, id wire.InstanceID, namespace string, now time.Time) {
	app, service, _ := hooks.CutID(id)
	if namespace == "" {
		namespace = c.HookKeeper.NamespaceOf(ofInstance + id)
	}
	c.HookKeeper.Tell(hooks.InstanceGone(wire.HookData{Subject: ofInstance + id, Namespace: namespace, Application: app,
		Service: service, Instance: id, Cluster: c.ClusterName}, now))
}

// TellRollout notes how far a rollout is, nil for one that is forgotten. The caller has the model.
func TellRollout(c *core.Core, key string, r *wire.RolloutReport, fresh bool) {
	d := wire.HookData{Subject: rollouts.OfRollout + key, Cluster: c.ClusterName}
	if r == nil {
		c.HookKeeper.Tell(hooks.Notice{Last: true, Data: d})
		return
	}
	d.Namespace = c.M.Namespace(r.App)
	if n, ok := hooks.RolloutOver(d, r, fresh); ok {
		c.HookKeeper.Tell(n)
	}
}

// TellJob notes the runs of a job that have ended, nil for a job that is gone. The caller
// has the model.
func TellJob(c *core.Core, key string, r *wire.JobReport, fresh func(*wire.JobRun) bool) {
	d := wire.HookData{Subject: ofJob + key, Cluster: c.ClusterName}
	if r == nil {
		c.HookKeeper.Tell(hooks.Notice{Last: true, Data: d})
		return
	}
	d.Namespace = c.M.Namespace(r.App)
	c.HookKeeper.Tell(hooks.RunsOver(d, r, fresh)...)
}

// TellLocal notes a change that was made at this site. The caller has the model.
func TellLocal(c *core.Core, key string, l *localedit.Change, fresh bool) {
	c.HookKeeper.Tell(hooks.Notice{
		Kind: event.LocalChanged, At: l.At, Position: fmt.Sprintf("change %d at %d", l.Number, l.At.UnixNano()),
		Fresh: fresh,
		Data: wire.HookData{Subject: ofLocal + key, Namespace: l.Namespace, Application: l.App, Service: l.Service,
			Cluster: c.ClusterName, Revision: l.Revision(), By: l.By,
			What: l.Service + ": " + localedit.Describe(l)},
	})
}

// overWhile is why a change does not count that was over when nobody could note it.
const overWhile = "it does not count any more: what the root says does"

// LocalOver notes that a change at this site does not count any more: it gave way to the
// root (x), or else why, by somebody where that is known. The caller has the model.
func LocalOver(c *core.Core, key, namespace string, x *localedit.Conflict, by, why string, now time.Time) {
	app, service, _ := strings.Cut(key, ".")
	if namespace == "" {
		namespace = cmp.Or(c.HookKeeper.NamespaceOf(ofLocal+key), c.M.Namespace(app))
	}
	n := hooks.Notice{Kind: event.LocalChanged, At: now, Position: hooks.Ended, Fresh: true, Last: true,
		Data: wire.HookData{
			Subject: ofLocal + key, Namespace: namespace, Application: app, Service: service, Cluster: c.ClusterName,
			By:   by,
			What: service + ": " + why,
		}}
	if x != nil {
		n.Kind, n.Data.By = event.LocalOverruled, x.Local.By
		n.Data.What = fmt.Sprintf("%s: what %s changed here (%s) gives way to the root: %s", service, x.Local.By,
			localedit.Describe(&x.Local), x.Root)
	}
	c.HookKeeper.Tell(n)
}

// conflictOf is the latest conflict about a service, nil for none.
func conflictOf(m *state.Model, key string) (last *localedit.Conflict) {
	for _, x := range localedit.ConflictTable.Rows(m.DB) {
		if x.Local.App+"."+x.Local.Service == key && (last == nil || x.Local.Number > last.Local.Number) {
			last = x
		}
	}
	return last
}

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	asksWave bool // hooks are being asked about a wave
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
