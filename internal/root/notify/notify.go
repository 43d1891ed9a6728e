package notify

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Open begins to tell hooks what happens, first of all what could not be noted before the
// process ended. Of the options it takes those that the core does not say.
func Open(ctx context.Context, c *core.Core, o hooks.Options) error {
	o.Store, o.Key, o.Source, o.Events, o.Log = c.RecordStore, c.Key, state.Tier, c.EventRing, c.Logger
	k, err := hooks.Open(ctx, o)
	if err != nil {
		return err
	}
	core.Do(c, func(m *state.Model) {
		c.HookKeeper = k
		told(m, k)
	})
	return nil
}

// told notes again where all applications are, and the end of what is gone: of both
// nothing is told that was told before. What clusters say is noted when they say it.
func told(m *state.Model, k *hooks.Keeper) {
	for _, name := range records.SortedKeys(m.Apps) {
		k.Tell(appNotice(m.Apps[name], false))
	}
	const app, instance = "application/", "instance/"
	for subject, namespace := range k.Subjects(app) {
		if name := strings.TrimPrefix(subject, app); m.Apps[name] == nil {
			k.Tell(hooks.Notice{
				Kind: event.ApplicationDeleted, Position: hooks.Ended, At: time.Now(), Fresh: true, Last: true,
				Data: wire.HookData{Subject: subject, Namespace: namespace, Application: name,
					What: "nothing is left of it"},
			})
		}
	}
	for subject, namespace := range k.Subjects(instance) {
		id := strings.TrimPrefix(subject, instance)
		name, service, ordinal := hooks.CutID(id)
		if m.Insts[id] != nil || ordinal >= wire.SurgeOrdinals && m.Apps[name] != nil {
			continue // those that stand in for others are their cluster's
		}
		k.Tell(hooks.InstanceGone(wire.HookData{Subject: subject, Namespace: namespace, Application: name,
			Service: service, Instance: id}, time.Now()))
	}
}

// appNotice is where an application is.
func appNotice(app *record.Application, fresh bool) hooks.Notice {
	n := hooks.Notice{Kind: event.ApplicationApplied, At: app.Applied,
		Position: fmt.Sprintf("revision %d", app.Revision), Fresh: fresh}
	n.Data = wire.HookData{
		Subject: "application/" + app.Name, Namespace: wire.NamespaceOf(app.Spec), Application: app.Name,
		Revision: app.Revision, By: app.By,
		What: strings.TrimPrefix(app.Why+": ", ": ") + strings.Join(app.Changed, "; "),
	}
	if !app.Deleting.IsZero() {
		n.Kind, n.At, n.Position, n.Data.By, n.Data.What = event.ApplicationDeleting, app.Deleting, "deleting", "",
			"its end was asked for"
	}
	return n
}

// TellApp notes an application that t stores; old is what it was, nil if it is new.
func TellApp(t *state.Tx, app, old *record.Application) {
	if old == nil || old.Revision != app.Revision || old.Deleting.IsZero() != app.Deleting.IsZero() {
		t.Notices = append(t.Notices, appNotice(app, true))
	}
}

// TellReported notes what a cluster says of an instance: its whole history, of which
// what was noted before is known by its position. fresh says whether a step is new to
// this process. It is called within core.Do.
func TellReported(c *core.Core, rep *wire.Reported, fresh func(at time.Time) bool) {
	if !c.HookKeeper.Any() {
		return
	}
	if len(rep.History) == 0 {
		return
	}
	// The first repeats the root's last.
	c.HookKeeper.Tell(hooks.Steps(c.M.InstanceData(&rep.Instance), rep.History[1:], hooks.KindOf, fresh)...)
}

// TellStandIn notes that an instance which stands in for another is gone: the root has
// no record of it. It is called within core.Do.
func TellStandIn(c *core.Core, rep *wire.Reported, now time.Time) {
	if rep != nil && rep.Ordinal >= wire.SurgeOrdinals {
		c.HookKeeper.Tell(hooks.InstanceGone(c.M.InstanceData(&rep.Instance), now))
	}
}

// TellRollout notes how far a cluster says that it is in a rollout; was is what it said
// before, nil for nothing. It is called within core.Do.
func TellRollout(c *core.Core, cl *state.Cluster, key string, was *wire.RolloutReport) {
	subject, r := "rollout/"+cl.Name+"/"+key, cl.Rollouts[key]
	if r == nil {
		c.HookKeeper.Tell(hooks.Notice{Last: true, Data: wire.HookData{Subject: subject}})
		return
	}
	if was != nil && was.Phase == r.Phase && was.Revision == r.Revision {
		return
	}
	d := wire.HookData{Source: "cluster/" + cl.Name, Subject: subject, Namespace: c.M.Namespace(r.App),
		Cluster: cl.Name}
	if n, ok := hooks.RolloutOver(d, r, cl.EverHeard); ok {
		c.HookKeeper.Tell(n)
	}
}

// TellJob notes the runs of a job that have ended in a cluster; was as in TellRollout.
// It is called within core.Do.
func TellJob(c *core.Core, cl *state.Cluster, key string, was *wire.JobReport) {
	subject, r := "job/"+cl.Name+"/"+key, cl.Jobs[key]
	if r == nil {
		c.HookKeeper.Tell(hooks.Notice{Last: true, Data: wire.HookData{Subject: subject}})
		return
	}
	if !c.HookKeeper.Any() {
		return
	}
	d := wire.HookData{Source: "cluster/" + cl.Name, Subject: subject, Namespace: c.M.Namespace(r.App),
		Cluster: cl.Name}
	c.HookKeeper.Tell(hooks.RunsOver(d, r, func(run *wire.JobRun) bool {
		known := was == nil || run.N < was.Run.N || run.N == was.Run.N && was.Run.Outcome != ""
		return cl.EverHeard && !known
	})...)
}

// AskWave asks hooks about a wave of a rollout in a cluster, which says what it is about. What
// is the root's to know is not taken from it.
func AskWave(ctx context.Context, c *core.Core, cluster string, q wire.HookData) (warnings []string, err error) {
	d, err := core.View2(c, func(m *state.Model) (wire.HookData, error) { return waveData(m, cluster, q) })
	if err != nil {
		return nil, err
	}
	return c.HookKeeper.Ask(ctx, d)
}

// waveData is what hooks are asked about a wave.
func waveData(m *state.Model, cluster string, q wire.HookData) (d wire.HookData, err error) {
	app, share := m.Apps[q.Application], m.Shares[cluster+"."+q.Application+"."+q.Service]
	if app == nil || share == nil || q.Wave == nil || q.Operation != wire.GateWave {
		return d, wire.Problemf(404, "no-such-rollout",
			"verge rollout status "+state.Cut(q.Application, state.MaxName), "hooks were not asked",
			"cluster %s has no part in %.80q", cluster, q.Application+"."+q.Service)
	}
	w := *q.Wave
	w.New.Clamp()
	w.Old.Clamp()
	w.Clusters, w.ClustersDone = 0, 0
	for _, r := range rollouts.Progress(m, app, q.Service).Clusters {
		w.Clusters++
		if r.Phase == wire.RolloutDone {
			w.ClustersDone++
		}
	}
	return wire.HookData{
		Source: "cluster/" + cluster, Subject: "rollout/" + cluster + "/" + app.Name + "." + q.Service,
		Namespace:   wire.NamespaceOf(app.Spec),
		Application: app.Name, Service: q.Service, Cluster: cluster, Revision: q.Revision,
		What: state.Cut(q.What, state.MaxWords), By: app.By,
		Operation: wire.GateWave, Wave: &w,
	}, nil
}
