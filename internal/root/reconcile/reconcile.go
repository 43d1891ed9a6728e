package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/delegate"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/lifecycle"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/routes"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// MaxRounds of a pass: each is caused by the one before; more is a bug.
const MaxRounds = 8

// Step is one pass of the root's loop: it compares what should be with what is
// and collects in a tx what has to change. It is a function of the model and of
// now, and doing it twice changes nothing more.
func Step(m *state.Model, now time.Time) *state.Tx {
	t := m.Begin()
	recovery.Recover(t, now)
	if recovery.Holding(m, now) {
		return t
	}
	netlease.Grant(t, now)
	maps.DeleteFunc(placement.Memory(m).LastMoves, func(_ string, at time.Time) bool { return now.Sub(at) > sla.Rest })
	placement.PruneRefusals(m, now)
	netlease.Number(t)
	lifecycle.Orphans(t, now)
	lifecycle.LostAndFound(t, now)
	for _, i := range t.Instances("") {
		lifecycle.TakeBack(t, *i, now)
	}
	for _, name := range records.SortedKeys(m.Apps) {
		app := m.Apps[name]
		if !app.Deleting.IsZero() {
			continue
		}
		for _, svc := range app.Spec.ServiceNames() {
			if !slices.Contains(app.Unclaimed, svc) {
				fulfil(t, app, svc, now)
			}
		}
	}
	for _, i := range t.Instances("") {
		if app := m.Apps[i.App]; app == nil || !app.Deleting.IsZero() || app.Spec.Services[i.Service] == nil {
			t.End(*i, now)
		}
	}
	for _, i := range t.Instances("") {
		if i.Draining {
			lifecycle.Forget(t, i, now)
		}
	}
	overflow.Decide(t, now)
	placement.Place(t, now)
	jobs.UpdateSchedules(t, now)
	delegate.Shares(t)
	secrets.Decide(t)
	routes.Derive(t, now)
	routes.DeriveRevocations(t)
	lifecycle.Finish(t, now)
	return t
}

// fulfil makes as many instances of a service as it promises.
func fulfil(t *state.Tx, app *record.Application, svc string, now time.Time) {
	spec := app.Spec.Services[svc]
	if spec.Job != nil {
		jobs.Fulfil(t, app, svc, now)
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
	for _, i := range t.Of(app.Name, svc) {
		used[i.Ordinal] = true
		if i.Draining {
			if spec.Replicas.Elastic() && overflow.Returns(t, i, now) {
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
	active, most, moving := placement.Relocate(t, app.Name, svc, spec, active, want, now)
	if moving != "" {
		want, lost = most, append(lost, moving)
	}
	for o := 0; len(active)+ending < want; o++ {
		if used[o] {
			continue
		}
		i := wire.Instance{
			V: wire.Version, ID: state.InstanceID(app.Name, svc, o), App: app.Name, Service: svc, Ordinal: o,
			Revision: app.Revision, State: wire.Registered, Since: now,
			History: []wire.Transition{{To: wire.Registered, At: now, Tier: state.Tier, Why: "applied"}},
		}
		why := "wanted by the descriptor"
		if len(lost) > 0 {
			i.Replaces, lost = lost[0], lost[1:]
			why = "replaces " + i.Replaces
		} else if spec.Replicas.Elastic() {
			why = "may run if its requests ask for it"
		}
		i = t.Advance(i, wire.Requested, now, why)
		t.Put(i)
		active = append(active, t.Inst(i.ID))
	}
	// Too many: those first that no cluster has yet, else the highest ordinals.
	for len(active) > most {
		last := len(active) - 1
		if n := slices.IndexFunc(active, func(i *wire.Instance) bool { return i.Cluster == "" }); n >= 0 {
			last = n
		}
		t.End(*active[last], now)
		active = slices.Delete(active, last, last+1)
	}
}
