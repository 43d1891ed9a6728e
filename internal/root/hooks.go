package root

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// openHooks begins to tell hooks what happens, first of all what could not be noted
// before the process ended. The mutex is not held.
func (r *Root) openHooks(ctx context.Context) error {
	say := func(subject, what string) { r.events.Add(time.Now(), tier, subject, what) }
	k, err := hooks.Open(ctx, hooks.Options{Store: r.store, Key: r.key, Now: r.clock.Now, Source: tier, Allow: r.opts.HooksAllow, Say: say, Log: r.log})
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
		name, service, ordinal := cutID(id)
		if m.insts[id] != nil || ordinal >= wire.SurgeOrdinals && m.apps[name] != nil {
			continue // those that stand in for others are their cluster's
		}
		k.Tell(hooks.Notice{
			Kind: wire.HookInstanceEnded, Position: hooks.Ended, At: time.Now(), Fresh: true, Last: true,
			Data: wire.HookData{Subject: subject, Namespace: namespace, Application: name, Service: service, Instance: id, What: "Terminated: no longer wanted"},
		})
	}
}

func cutID(id wire.InstanceID) (app, service string, ordinal int) {
	app, rest, _ := strings.Cut(id, ".")
	service, number, _ := strings.Cut(rest, ".")
	ordinal, _ = strconv.Atoi(number)
	return app, service, ordinal
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
	return hooks.Notice{Kind: kind, At: at, Data: wire.HookData{
		Subject: "instance/" + i.ID, Namespace: m.namespace(i.App), Application: i.App, Service: i.Service, Instance: i.ID,
		Cluster: i.Cluster, Revision: i.Revision, What: what,
	}}
}

// tellReported notes what a cluster says of an instance: its whole history, of which
// what was noted before is known by its position. fresh says whether a step is new to
// this process. The mutex is held.
func (c *core) tellReported(rep *wire.Reported, fresh func(at time.Time) bool) {
	if !c.hooks.Any() {
		return
	}
	var list []hooks.Notice
	for k, h := range rep.History {
		kind := kindOf(h)
		if k == 0 || kind == "" { // the first repeats the root's last
			continue
		}
		n := c.m.instanceNotice(kind, &rep.Instance, h.At, fmt.Sprintf("%s: %s", h.To, h.Why))
		n.Data.Source = h.Tier
		n.Position, n.Fresh = fmt.Sprintf("%s at %d", h.To, h.At.UnixNano()), fresh(h.At)
		if kind == wire.HookInstanceEnded {
			n.Position = hooks.Ended + " " + n.Position
		}
		list = append(list, n)
	}
	c.hooks.Tell(list...)
}

// kindOf is the kind of a step of an instance, "" for one that nobody is told of.
func kindOf(h wire.Transition) string {
	switch {
	case h.To == wire.Running:
		return wire.HookInstanceRunning
	case h.To == wire.Failed && strings.HasPrefix(h.Why, wire.WhyDisplaced):
		return wire.HookInstancePreempted
	case h.To == wire.Failed:
		return wire.HookInstanceFailed
	case h.To == wire.WorkerScheduled && strings.HasPrefix(h.Why, wire.WhyMoved):
		return wire.HookInstanceMoved
	case h.To == wire.Terminated:
		return wire.HookInstanceEnded
	}
	return ""
}

// tellStandIn notes that an instance which stands in for another is gone: the root has
// no record of it. The mutex is held.
func (c *core) tellStandIn(rep *wire.Reported, now time.Time) {
	if rep != nil && rep.Ordinal >= wire.SurgeOrdinals {
		n := c.m.instanceNotice(wire.HookInstanceEnded, &rep.Instance, now, "Terminated: no longer wanted")
		n.Position, n.Fresh, n.Last = hooks.Ended, true, true
		c.hooks.Tell(n)
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
	kind := map[string]string{wire.RolloutDone: wire.HookRolloutDone, wire.RolloutFailed: wire.HookRolloutFailed}[r.Phase]
	if kind == "" || was != nil && was.Phase == r.Phase && was.Revision == r.Revision {
		return
	}
	c.hooks.Tell(hooks.Notice{
		Kind: kind, At: r.Ended, Position: fmt.Sprintf("%d %s %d", r.Revision, r.Phase, r.Ended.UnixNano()), Fresh: cl.everHeard,
		Data: wire.HookData{
			Source: "cluster/" + cl.Name, Subject: subject, Namespace: c.m.namespace(r.App), Application: r.App, Service: r.Service, Cluster: cl.Name, Revision: r.Revision,
			What: strings.TrimSuffix(fmt.Sprintf("%s: %s", r.Phase, r.Why), ": "),
		},
	})
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
	var list []hooks.Notice
	for _, run := range append(append([]wire.JobRun{}, r.Past...), r.Run) {
		kind := map[string]string{wire.JobComplete: wire.HookJobSucceeded, wire.JobFailed: wire.HookJobFailed}[run.Outcome]
		if kind == "" {
			continue
		}
		known := was == nil
		if was != nil {
			known = run.N < was.Run.N || run.N == was.Run.N && was.Run.Outcome != ""
		}
		list = append(list, hooks.Notice{
			Kind: kind, At: run.Ended, Position: fmt.Sprintf("run %d", run.N), Fresh: cl.everHeard && !known,
			Data: wire.HookData{
				Source: "cluster/" + cl.Name, Subject: subject, Namespace: c.m.namespace(r.App), Application: r.App, Service: r.Service, Cluster: cl.Name,
				What: fmt.Sprintf("run %d is %s: %s", run.N, run.Outcome, run.Why),
			},
		})
	}
	c.hooks.Tell(list...)
}

// Where a cluster is.
const (
	clusterLost = "lost"
	clusterBack = "back"
)

// tellCluster notes what became of a cluster.
func (c *core) tellCluster(kind, name, position, what string, now time.Time) {
	n := hooks.Notice{
		Kind: kind, At: now, Position: position, Fresh: true, Note: true, Last: kind == wire.HookClusterRemoved,
		Data: wire.HookData{Subject: "cluster/" + name, Cluster: name, What: what},
	}
	if kind == wire.HookClusterBack {
		n.Only = clusterLost // it may have been lost before this process began
	}
	c.hooks.Tell(n)
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

// agreed is what the gates have agreed to: a revision of an application.
type agreed struct {
	asked    bool
	revision uint64
	warnings []string
}

// still says whether what is about to be done is what was agreed to.
func (a *agreed) still(res wire.ApplyResult) error {
	if !a.asked || res.Change == "unchanged" || res.Revision == a.revision {
		return nil
	}
	return wire.Problemf(409, "changed-meanwhile", "look at it, then apply again: verge diff", "nothing was changed: somebody else did meanwhile",
		"%s would become revision %d, and hooks were asked about %d", res.Name, res.Revision, a.revision)
}

// gateApply asks the hooks that are to be asked before a descriptor becomes what counts,
// if it would. The mutex is not held.
func (b backend) gateApply(ctx context.Context, spec *api.Application, source []byte) (a agreed, err error) {
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
	a.asked, a.revision = true, res.Revision
	a.warnings, err = b.askHooks(ctx, wire.HookData{
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
	return b.hooks.Pause(ctx, namespace, name, by)
}

// ResumeHook implements rest.Backend.
func (b backend) ResumeHook(ctx context.Context, namespace, name string) (wire.HookView, error) {
	return b.hooks.Resume(ctx, namespace, name)
}

// TestHook implements rest.Backend.
func (b backend) TestHook(ctx context.Context, namespace, name string) (wire.HookTested, error) {
	return b.hooks.Test(ctx, namespace, name, rest.Caller(ctx))
}

// Hooks implements rest.Backend.
func (b backend) Hooks(context.Context) ([]wire.HookView, error) { return b.hooks.Hooks("", true), nil }
