package lifecycle

import (
	"time"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Finish drops deleted applications of which nothing is stored any more: an application is
// stored before what it has, and so deleted after that.
func Finish(t *state.Tx, now time.Time) {
	for name, app := range t.Model.Apps {
		if !app.Deleting.IsZero() && !hasSome(t.Model, name) {
			t.Apps[name] = nil
			for _, r := range revisions.Memory(t.Model).History[name] {
				revisions.Table.Put(t.Rows, revisions.ID(name, r.Revision), nil)
			}
			counters.Bury(t, app)
			t.Event(event.ApplicationDeleted, name, "deleted")
			deleted(t, app, now)
		}
	}
}

// hasSome says whether an instance of an application is stored.
func hasSome(m *state.Model, app string) bool {
	for _, i := range m.Insts {
		if i.App == app {
			return true
		}
	}
	return false
}

// Orphans ends what was delegated to a cluster that was removed: what it still
// runs counts for nobody, so new ones are made in its place.
func Orphans(t *state.Tx, now time.Time) {
	for _, i := range t.Instances("") {
		if i.Cluster != "" && t.Model.Clusters[i.Cluster] == nil {
			if app := t.Model.Apps[i.App]; app != nil && app.Spec.Services[i.Service] != nil &&
				app.Spec.Services[i.Service].Job != nil && state.RuleOf(app, i.Service).Done(i) && !i.Draining {
				next := *i
				next.Cluster, next.Unreachable = "", false
				t.Put(next) // what has completed need not run again
				continue
			}
			t.Event(event.InstanceEnded, i.ID, "Terminated: cluster %s was removed", i.Cluster)
			t.Remove(i.ID, now)
		}
	}
}

// deleted notes an application of which nothing is left.
func deleted(t *state.Tx, app *record.Application, now time.Time) {
	t.Notices = append(t.Notices, hooks.Notice{
		Kind: event.ApplicationDeleted, At: now, Position: hooks.Ended, Fresh: true, Last: true,
		Data: wire.HookData{Subject: "application/" + app.Name, Namespace: wire.NamespaceOf(app.Spec),
			Application: app.Name, Revision: app.Revision, What: "nothing is left of it"},
	})
}
