package reconcile

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/deschedule"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/lifecycle"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/recovery"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/rollingupdate"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/scheduling"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// Step is one pass of the cluster's loop: it compares what should be with what
// is and collects in a tx what has to change. It is a function of the model and
// of now, and doing it twice changes nothing more.
func Step(m *state.Model, now time.Time) *state.Tx {
	t := m.Begin()
	t.Now = now
	if !recovery.Recover(t, now) {
		return t
	}
	localedit.Weigh(t, now)
	autoscale.Scale(t, now)
	profile.ForgetStale(t)
	netlease.In(t).Lease(now)
	for _, i := range t.Instances() {
		lifecycle.Observe(t, i.ID, now)
	}
	jobs.Begin(t, now)
	for _, key := range records.SortedKeys(m.Shares) {
		fulfil(t, m.Shares[key], now)
	}
	for _, i := range t.Instances() {
		if !instances.Wanted(t, i) && !localedit.HandingOver(t, i, now) {
			lifecycle.End(t, i.ID, now)
		}
	}
	jobs.Judge(t, now)
	fleet.Recount(t) // what was observed changed it
	deschedule.Moves(t, now)
	rollingupdate.Roll(t, now)
	scheduling.Place(t, now)
	lifecycle.SweepOrders(t, now)
	netlease.In(t).DropNumbers()
	routes.Route(t)
	secrets.VaultOf(t.Model).Give(t)
	report.Up(t)
	localedit.Report(t)
	rollouts.Report(t)
	jobs.Report(t, now)
	instances.Count(t)
	news(t)
	return t
}

// news makes events of what instances have become that their histories do not say.
func news(t *state.Tx) {
	for _, id := range records.SortedKeys(t.Insts) {
		old, i := t.Model.Insts[id], t.Insts[id]
		if i == nil || old == nil {
			continue
		}
		newsOf(t, old, i)
	}
}

func newsOf(t *state.Tx, old, i *wire.Instance) {
	t.Events = append(t.Events, life.News(old, i)...)
}

// fulfil makes the instances that a share asks for.
func fulfil(t *state.Tx, s *wire.Share, now time.Time) {
	if s.Spec.Job != nil {
		jobs.Fulfil(t, s, now)
		return
	}
	for _, o := range state.Ordinals(s) {
		id := state.InstanceID(s.App, s.Service, o)
		old := t.Inst(id)
		again := rollingupdate.RunAgain(old, s)
		if old != nil && again == "" && (old.State != wire.Terminated || old.Completed()) {
			continue
		}
		why := "taken over from the root"
		if o >= wire.SurgeOrdinals {
			why = fmt.Sprintf("stands in for others while they are updated to revision %d", s.Revision)
		} else if o >= wire.LocalOrdinals {
			why = "wanted by a change that was made here"
		}
		i := wire.Instance{
			V: wire.Version, ID: id, App: s.App, Service: s.Service, Ordinal: o,
			Incarnation: 0, Revision: s.Revision, Cluster: t.Model.Name,
			State: wire.ClusterScheduled, Since: now,
			History: []wire.Transition{{To: wire.ClusterScheduled, At: now, Tier: t.Model.Tier(), Why: why}},
		}
		if old != nil { // it was on its way out when it was wanted again, or is to run again
			i.Incarnation, i.Given, i.Restarted, i.Leaving = old.Incarnation, old.Given, old.Restarted, old.Leaving
			i.Starts, i.Ran, i.Places, i.AllRestarts = old.Starts, old.Ran, old.Places, old.Again()
		}
		if again != "" {
			i.History = append(i.History,
				wire.Transition{To: wire.ClusterScheduled, At: now, Tier: t.Model.Tier(), Why: again})
		}
		t.Put(i)
	}
}

// ProofOf is the purpose of the codes that prove revisions.
const ProofOf = "revision of a cluster"
