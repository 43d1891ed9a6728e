package root

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// openHooks begins to tell hooks what happens, first of all what could not be noted
// before the process ended. The mutex is not held.
func (r *Root) openHooks(ctx context.Context) error {
	say := func(subject, what string) { r.events.Add(time.Now(), tier, subject, what) }
	k, err := hooks.Open(ctx, hooks.Options{Store: r.store, Key: r.key, Now: r.clock.Now, Source: tier, Allow: r.opts.HooksAllow, Advertised: r.opts.Advertise, Say: say, Log: r.log})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks = k
	r.m.told(k)
	return nil
}

// told notes again where all applications are, and the end of what is gone: of both
// nothing is told that was told before. What clusters say is noted when they say it.
func (m *model) told(k *hooks.Keeper) {
	for _, name := range records.SortedKeys(m.apps) {
		k.Tell(appNotice(m.apps[name], false))
	}
	const app, instance = "application/", "instance/"
	for subject, namespace := range k.Subjects(app) {
		if name := strings.TrimPrefix(subject, app); m.apps[name] == nil {
			k.Tell(hooks.Notice{
				Kind: wire.HookApplicationDeleted, Position: hooks.Ended, At: time.Now(), Fresh: true, Last: true,
				Data: wire.HookData{Subject: subject, Namespace: namespace, Application: name, What: "nothing is left of it"},
			})
		}
	}
	for subject, namespace := range k.Subjects(instance) {
		id := strings.TrimPrefix(subject, instance)
		name, service, ordinal := hooks.CutID(id)
		if m.insts[id] != nil || ordinal >= wire.SurgeOrdinals && m.apps[name] != nil {
			continue // those that stand in for others are their cluster's
		}
		k.Tell(hooks.InstanceGone(wire.HookData{Subject: subject, Namespace: namespace, Application: name, Service: service, Instance: id}, time.Now()))
	}
}

// appNotice is where an application is.
func appNotice(app *wire.Application, fresh bool) hooks.Notice {
	n := hooks.Notice{Kind: wire.HookApplicationApplied, At: app.Applied, Position: fmt.Sprintf("revision %d", app.Revision), Fresh: fresh}
	n.Data = wire.HookData{
		Subject: "application/" + app.Name, Namespace: wire.NamespaceOf(app.Spec), Application: app.Name, Revision: app.Revision, By: app.By,
		What: strings.TrimPrefix(app.Why+": ", ": ") + strings.Join(app.Changed, "; "),
	}
	if !app.Deleting.IsZero() {
		n.Kind, n.At, n.Position, n.Data.By, n.Data.What = wire.HookApplicationDeleting, app.Deleting, "deleting", "", "its end was asked for"
	}
	return n
}

// tellApp notes an application that was stored; old is what it was, nil if it is new.
// The mutex is held.
func (c *core) tellApp(app, old *wire.Application) {
	if old == nil || old.Revision != app.Revision || old.Deleting.IsZero() != app.Deleting.IsZero() {
		c.hooks.Tell(appNotice(app, true))
	}
}

// deleted notes an application of which nothing is left.
func (t *tx) deleted(app *wire.Application, now time.Time) {
	t.notices = append(t.notices, hooks.Notice{
		Kind: wire.HookApplicationDeleted, At: now, Position: hooks.Ended, Fresh: true, Last: true,
		Data: wire.HookData{Subject: "application/" + app.Name, Namespace: wire.NamespaceOf(app.Spec), Application: app.Name, Revision: app.Revision, What: "nothing is left of it"},
	})
}

// note notes something about an instance.
func (t *tx) note(kind string, i *wire.Instance, now time.Time, what string) {
	n := t.m.instanceNotice(kind, i, now, what)
	if n.Free = kind != wire.HookInstanceEnded; !n.Free {
		n.Position, n.Last = hooks.Ended, true
	}
	n.Fresh = true
	t.notices = append(t.notices, n)
}

// instanceNotice is a notice about an instance, without its position.
func (m *model) instanceNotice(kind string, i *wire.Instance, at time.Time, what string) hooks.Notice {
	n := hooks.Notice{Kind: kind, At: at, Data: m.instanceData(i)}
	n.Data.What = what
	return n
}

// instanceData is what every message about an instance says.
func (m *model) instanceData(i *wire.Instance) wire.HookData {
	return wire.HookData{
		Subject: "instance/" + i.ID, Namespace: m.namespace(i.App), Application: i.App, Service: i.Service, Instance: i.ID,
		Cluster: i.Cluster, Revision: i.Revision,
	}
}

// tellReported notes what a cluster says of an instance: its whole history, of which
// what was noted before is known by its position. fresh says whether a step is new to
// this process. The mutex is held.
func (c *core) tellReported(rep *wire.Reported, fresh func(at time.Time) bool) {
	if !c.hooks.Any() {
		return
	}
	if len(rep.History) == 0 {
		return
	}
	// The first repeats the root's last.
	c.hooks.Tell(hooks.Steps(c.m.instanceData(&rep.Instance), rep.History[1:], hooks.KindOf, fresh)...)
}

// tellStandIn notes that an instance which stands in for another is gone: the root has
// no record of it. The mutex is held.
func (c *core) tellStandIn(rep *wire.Reported, now time.Time) {
	if rep != nil && rep.Ordinal >= wire.SurgeOrdinals {
		c.hooks.Tell(hooks.InstanceGone(c.m.instanceData(&rep.Instance), now))
	}
}

// tellRollout notes how far a cluster says that it is in a rollout; was is what it said
// before, nil for nothing. The mutex is held.
func (c *core) tellRollout(cl *cluster, key string, was *wire.RolloutReport) {
	subject, r := "rollout/"+cl.Name+"/"+key, cl.rollouts[key]
	if r == nil {
		c.hooks.Tell(hooks.Notice{Last: true, Data: wire.HookData{Subject: subject}})
		return
	}
	if was != nil && was.Phase == r.Phase && was.Revision == r.Revision {
		return
	}
	d := wire.HookData{Source: "cluster/" + cl.Name, Subject: subject, Namespace: c.m.namespace(r.App), Cluster: cl.Name}
	if n, ok := hooks.RolloutOver(d, r, cl.everHeard); ok {
		c.hooks.Tell(n)
	}
}

// tellJob notes the runs of a job that have ended in a cluster; was as in tellRollout.
// The mutex is held.
func (c *core) tellJob(cl *cluster, key string, was *wire.JobReport) {
	subject, r := "job/"+cl.Name+"/"+key, cl.jobs[key]
	if r == nil {
		c.hooks.Tell(hooks.Notice{Last: true, Data: wire.HookData{Subject: subject}})
		return
	}
	if !c.hooks.Any() {
		return
	}
	d := wire.HookData{Source: "cluster/" + cl.Name, Subject: subject, Namespace: c.m.namespace(r.App), Cluster: cl.Name}
	c.hooks.Tell(hooks.RunsOver(d, r, func(run *wire.JobRun) bool {
		known := was == nil || run.N < was.Run.N || run.N == was.Run.N && was.Run.Outcome != ""
		return cl.everHeard && !known
	})...)
}

// tellCluster notes what became of a cluster.
func (c *core) tellCluster(kind, name, position, what string, now time.Time) {
	c.hooks.Tell(hooks.OfNode(kind, position, wire.HookData{Subject: "cluster/" + name, Cluster: name, What: what}, now))
}

// gate asks the hooks that are to be asked before something is done with an
// application that is there. The mutex is not held.
func (b backend) gate(ctx context.Context, operation, name, what string) (warnings []string, err error) {
	b.mu.Lock()
	app := b.m.apps[name]
	b.mu.Unlock()
	if app == nil {
		return nil, nil // which the operation itself says
	}
	return b.askHooks(ctx, wire.HookData{Operation: operation, Namespace: wire.NamespaceOf(app.Spec), Application: name, Revision: app.Revision, What: what})
}

// gateApply asks the hooks that are to be asked before a descriptor becomes what counts,
// if it would. The mutex is not held.
func (b backend) gateApply(ctx context.Context, spec *api.Application, source []byte) (a hooks.Agreed, err error) {
	if !b.hooks.Asks(wire.GateApply, wire.NamespaceOf(spec)) {
		return a, nil
	}
	b.mu.Lock()
	now := time.Now()
	if err = b.reload(ctx, now); err != nil {
		b.mu.Unlock()
		return a, unstored(err)
	}
	_, res, err := b.m.accept(access.From(ctx), spec, source, now)
	b.mu.Unlock()
	if err != nil || res.Change == "unchanged" {
		return a, err
	}
	a.Asked, a.Revision = true, res.Revision
	a.Warnings, err = b.askHooks(ctx, wire.HookData{
		Operation: wire.GateApply, Namespace: wire.NamespaceOf(spec), Application: spec.Application, Revision: res.Revision, What: res.Change, Descriptor: string(source),
	})
	return a, err
}

func (b backend) askHooks(ctx context.Context, d wire.HookData) ([]string, error) {
	d.Subject, d.By = "application/"+d.Application, rest.Caller(ctx)
	warnings, err := b.hooks.Ask(ctx, d)
	for _, w := range warnings {
		b.events.Add(time.Now(), tier, d.Subject, w)
	}
	return warnings, err
}

// SetHook implements rest.Backend.
func (b backend) SetHook(ctx context.Context, namespace, name string, r wire.HookRequest) (wire.HookView, error) {
	if !enroll.IsName(name) {
		return wire.HookView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a hook", "%q", name)
	}
	if err := b.hasSpace(namespace); err != nil {
		return wire.HookView{}, err
	}
	v, err := b.hooks.Set(ctx, namespace, name, rest.Caller(ctx), r)
	loop.Poke(b.wake) // clusters are told whether they are to ask
	if err == nil {
		b.events.Add(time.Now(), tier, hookSubject(v), "set")
	}
	return v, err
}

// hasSpace: a hook is of a namespace that is there, or of all.
func (b backend) hasSpace(namespace string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if namespace != "" && !b.m.hasNamespace(namespace) {
		return noNamespace(namespace)
	}
	return nil
}

func hookSubject(v wire.HookView) string {
	return "hook/" + wire.HookLabel(v.Namespace, v.Name)
}

// RotateHook implements rest.Backend.
func (b backend) RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (wire.HookView, error) {
	v, err := b.hooks.Rotate(ctx, namespace, name, rest.Caller(ctx), secret, overlapSeconds)
	if err == nil {
		b.events.Add(time.Now(), tier, hookSubject(v), "has another secret")
	}
	return v, err
}

// RemoveHook implements rest.Backend.
func (b backend) RemoveHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	v, err := b.hooks.Remove(ctx, namespace, name)
	loop.Poke(b.wake)
	if err == nil {
		b.events.Add(time.Now(), tier, hookSubject(v), "removed, with "+wire.Count(v.Waiting, "notice")+" that waited")
	}
	return v, err
}

// PauseHook implements rest.Backend.
func (b backend) PauseHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	by := rest.Caller(ctx)
	if by == "" {
		return wire.HookView{}, errors.New("nobody asks")
	}
	defer loop.Poke(b.wake)
	return b.hooks.Pause(ctx, namespace, name, by)
}

// ResumeHook implements rest.Backend.
func (b backend) ResumeHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	defer loop.Poke(b.wake)
	return b.hooks.Resume(ctx, namespace, name)
}

// TestHook implements rest.Backend.
func (b backend) TestHook(ctx context.Context, namespace, name string) (wire.HookTested, error) {
	return b.hooks.Test(ctx, namespace, name, rest.Caller(ctx))
}

// Hooks implements rest.Backend.
func (b backend) Hooks(context.Context) ([]wire.HookView, error) { return b.hooks.Hooks("", true), nil }

// waveGate is what it means in a namespace if nobody answers who is to be asked before waves
// of rollouts, "" where nobody is.
func (m *model) waveGate(namespace string) string {
	all, mine := m.gates[""], m.gates[namespace]
	if all == wire.HookClosed || mine == wire.HookClosed {
		return wire.HookClosed
	}
	return cmp.Or(all, mine)
}

// askWave asks hooks about a wave of a rollout in a cluster, which says what it is about. What
// is the root's to know is not taken from it.
func (c *core) askWave(ctx context.Context, cluster string, q wire.HookData) (warnings []string, err error) {
	c.mu.Lock()
	app, share, k := c.m.apps[q.Application], c.m.shares[cluster+"."+q.Application+"."+q.Service], c.hooks
	if app == nil || share == nil || q.Wave == nil || q.Operation != wire.GateWave {
		c.mu.Unlock()
		return nil, wire.Problemf(404, "no-such-rollout", "verge rollout status "+cut(q.Application, maxName), "hooks were not asked", "cluster %s has no part in %.80q", cluster, q.Application+"."+q.Service)
	}
	w := *q.Wave
	w.New.Clamp()
	w.Old.Clamp()
	w.Clusters, w.ClustersDone = 0, 0
	for _, r := range c.m.rollout(app, q.Service).Clusters {
		w.Clusters++
		if r.Phase == wire.RolloutDone {
			w.ClustersDone++
		}
	}
	d := wire.HookData{
		Source: "cluster/" + cluster, Subject: "rollout/" + cluster + "/" + app.Name + "." + q.Service, Namespace: wire.NamespaceOf(app.Spec),
		Application: app.Name, Service: q.Service, Cluster: cluster, Revision: q.Revision, What: cut(q.What, maxWords), By: app.By,
		Operation: wire.GateWave, Wave: &w,
	}
	c.mu.Unlock()
	return k.Ask(ctx, d)
}
