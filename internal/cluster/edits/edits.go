package edits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/notify"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/tier/keeper"
	"github.com/verge-edge/verge/internal/wire"
)

// Edit is a set of wishes, and what they come to.
type Edit struct {
	C   *core.Core
	M   *state.Model // c's own, or a copy that nothing is stored of
	by  string       // who asks for it
	Now time.Time

	Locals   map[string]*localedit.Change // by application and service; nil: taken back
	changes  uint64                       // how many there have been, with these
	said     []string                     // what changes in words, for people
	warnings []string                     // what whoever asks should know
	App      string
	Ns       string // of the application
}

// MayEdit refuses an edit of an application where the root could be asked instead,
// unless that is not meant. The caller has the model.
func MayEdit(ctx context.Context, c *core.Core, app string, now time.Time) error {
	if uplink.RootAway(c) == nil && !rest.Local(ctx) {
		return wire.Problemf(409, "root-connected",
			"make the change at the root; or, if it is meant for this site alone, say --local",
			"the root is connected", "cluster %s takes %s from its root, which would not know of a change that "+
				"is made here", c.ClusterName, app)
	}
	if err := core.Reload(ctx, c, now); err != nil {
		return core.Unstored(err)
	}
	if c.M.Unasked(state.TheRoot) {
		return wire.Problemf(409, "recovering",
			"wait until the root has been heard, or go on without it: verge recovery finish root",
			"the cluster was restored and does not know yet what is wanted here",
			"a change now could be made of what is long over")
	}
	return nil
}

// beginEdit starts an edit of an application. The caller has the model.
func beginEdit(ctx context.Context, c *core.Core, app string, now time.Time) (*Edit, error) {
	if err := MayEdit(ctx, c, app, now); err != nil {
		return nil, err
	}
	// What the root has overtaken is put into the books before anything is added.
	t := c.M.Begin()
	localedit.Weigh(t, now)
	if _, left, err := c.Keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return nil, core.Unstored(cmp.Or(err, left))
	}
	workers.Tell(c, t, now)
	return newEdit(ctx, c, c.M, app, now), nil
}

// RehearseEdit starts an edit of which nothing will be stored. The caller has the model.
func RehearseEdit(ctx context.Context, c *core.Core, app string, now time.Time) (*Edit, error) {
	if err := MayEdit(ctx, c, app, now); err != nil {
		return nil, err
	}
	m := c.M.Clone()
	t := m.Begin()
	localedit.Weigh(t, now)
	t.Done()
	return newEdit(ctx, c, m, app, now), nil
}

func newEdit(ctx context.Context, c *core.Core, m *state.Model, app string, now time.Time) *Edit {
	return &Edit{C: c, M: m, by: rest.Caller(ctx), Now: now.Round(0), Locals: map[string]*localedit.Change{},
		changes: localedit.Changes(m), App: app, Ns: m.Namespace(app)}
}

// want notes a wish about a service. It reports whether that changes anything.
func (e *Edit) want(service string, w localedit.Wish, rootKnows bool) (changed bool) {
	m, key := e.M, e.App+"."+service
	given, old := m.FromRoot[key], localedit.Table.Rows(m.DB)[key]
	next := &localedit.Change{
		V: wire.Version, Namespace: e.Ns, App: e.App, Service: service, Gone: w.Gone, Replicas: w.Replicas,
		Most: w.Most, Spec: w.Spec, By: e.by, At: e.Now,
		Base: localedit.Base{Known: rootKnows},
	}
	if given != nil {
		next.Base.Revision, next.Base.Replicas, next.Base.Spec = given.Revision, given.Min, given.Spec
		if w.Spec == nil && old != nil && !old.Gone {
			next.Spec = old.Spec // another number of what was changed before
		}
		if next.Spec != nil && localedit.SameButReplicas(next.Spec, given.Spec) {
			next.Spec = nil
		}
	} else if w.Spec == nil && old != nil {
		next.Spec = old.Spec
	}
	switch {
	case given == nil && (w.Gone || next.Spec == nil), given != nil && !w.Gone && next.Spec == nil &&
		w.Replicas == given.Min:
		next = nil // as the root says
	case w.Gone:
		next.Replicas, next.Spec = 0, nil
	}
	if next == nil && old == nil {
		return false
	}
	if next != nil && old != nil && next.Gone == old.Gone && next.Replicas == old.Replicas && next.Most == old.Most &&
		records.Same(next.Spec, old.Spec) {
		return false
	}
	if next == nil {
		e.Locals[key] = nil
		e.said = append(e.said, service+": as the root says again")
		return true
	}
	e.changes++
	next.Number = e.changes
	if old != nil && records.Same(next.Spec, old.Spec) {
		next.Number, e.changes = old.Number, e.changes-1 // the same program under the same revision
	}
	e.Locals[key] = next
	e.said = append(e.said, service+": "+localedit.Describe(next))
	return true
}

// Tx is what stores the edit. It is refused where it is too much.
func (e *Edit) Tx() (*state.Tx, error) {
	t := e.M.Begin()
	after := len(localedit.Table.Rows(e.M.DB))
	for _, key := range records.SortedKeys(e.Locals) {
		l := e.Locals[key]
		if l == nil {
			after--
		} else if localedit.Table.Rows(e.M.DB)[key] == nil {
			after++
		}
		localedit.Table.Put(t.Rows, key, l)
	}
	if after > localedit.MaxChanges {
		return nil, wire.Problemf(409, "too-many-changes", "take some back (verge local), or make them at the root",
			"too many services were changed here",
			"%d, at most %d", after, localedit.MaxChanges)
	}
	localedit.CountTable.Put(t.Rows, "", &e.changes)
	t.Count(e.App, wire.Counters{Changes: uint64(len(e.Locals))})
	groups, err := t.Encode()
	if err != nil {
		return nil, err
	}
	var large *keeper.TooLargeError
	if errors.As(keeper.Fits(groups), &large) {
		return nil, wire.Problemf(413, "too-large", "split it into several applications",
			"the change is too large to be stored", "%d bytes for %d services", large.Bytes, len(e.Locals))
	}
	return t, nil
}

// Commit stores the edit and makes it count.
func (e *Edit) Commit(ctx context.Context) error {
	c := e.C
	// A change made as soon as the link is down is one since the root was lost.
	uplink.NoteRoot(c, uplink.RootAway(c))
	t, err := e.Tx()
	if err != nil {
		return err
	}
	// A change is there as a whole or not at all.
	if err := c.Keeper.Whole(ctx, t); err != nil {
		return core.Unstored(err)
	}
	core.Place(c)
	for _, s := range e.said {
		c.EventRing.Note(e.Now, event.LocalChanged, e.App, fmt.Sprintf("%s, by %s (local)", s, e.by))
	}
	for _, key := range records.SortedKeys(e.Locals) {
		if l := e.Locals[key]; l != nil {
			notify.TellLocal(c, key, l, true)
		} else {
			notify.LocalOver(c, key, e.Ns, nil, e.by, "taken back", e.Now)
		}
	}
	loop.Poke(c.Wake)
	return nil
}

// ApplyLocal makes an application at this site what a descriptor says.
func ApplyLocal(ctx context.Context, c *core.Core, source []byte, dryRun bool, now time.Time) (apiv1.ApplyResult,
	error) {
	return ApplyAgreed(ctx, c, source, dryRun, hooks.Agreed{}, now)
}

// ApplyAgreed is ApplyLocal of what hooks may have agreed to.
func ApplyAgreed(ctx context.Context, c *core.Core, source []byte, dryRun bool, agreed hooks.Agreed,
	now time.Time) (apiv1.ApplyResult, error) {
	spec, res, err := localedit.Parse(source)
	if err != nil {
		return res, err
	}
	return core.View2(c, func(m *state.Model) (apiv1.ApplyResult, error) {
		var e *Edit
		if dryRun {
			e, err = RehearseEdit(ctx, c, spec.Application, now)
		} else {
			e, err = beginEdit(ctx, c, spec.Application, now)
		}
		if err != nil {
			return res, err
		}
		if err := e.Apply(access.From(ctx), spec, &res); err != nil || dryRun || res.Change == "unchanged" {
			return res, err
		}
		if err := agreed.Still(res); err != nil {
			return apiv1.ApplyResult{}, err
		}
		if err := e.Commit(ctx); err != nil {
			return apiv1.ApplyResult{}, err
		}
		res.Revision = localedit.Revision(m, spec.Application)
		return res, nil
	})
}

// Apply notes what a descriptor wants of the site, and says what that changes.
func (e *Edit) Apply(who access.Who, spec *api.Application, res *apiv1.ApplyResult) error {
	m := e.M
	if ns := wire.NamespaceOf(spec); e.Ns != "" && e.Ns != ns {
		detail := spec.Application + " is the name of another application"
		if state.MaySee(m, who, spec.Application) {
			detail = fmt.Sprintf("%s belongs to namespace %s, and an application cannot change its namespace",
				spec.Application, e.Ns)
		}
		return wire.Problemf(409, "name-taken", "choose another name for the application", "the name is taken", "%s",
			detail)
	} else {
		e.Ns = ns
	}
	if err := localedit.Rights(m, spec); err != nil {
		return err
	}
	if err := hostsFree(m, who, spec); err != nil {
		return err
	}
	known := localedit.RootKnows(m)[spec.Application]
	before := localedit.Revision(m, spec.Application)
	there := known || before > 0
	for _, name := range spec.ServiceNames() {
		s := spec.Services[name]
		key := spec.Application + "." + name
		given := m.FromRoot[key]
		w := localedit.Wish{Replicas: s.Replicas.Min, Spec: s}
		if s.Replicas.Elastic() {
			w.Most = s.Replicas.Max
		}
		if e.want(name, w, known) {
			switch {
			case given == nil && known:
				e.warnings = append(e.warnings,
					fmt.Sprintf("services.%s: the root runs it elsewhere, or not at all; now it runs here too", name))
			case given != nil && given.Min != s.Replicas.Min:
				e.warnings = append(e.warnings,
					fmt.Sprintf("services.%s.replicas: the number counts for this site alone, where the root wants %d", name, given.Min))
			}
		}
	}
	for _, key := range records.SortedKeys(m.Shares) {
		if s := m.Shares[key]; s.App == spec.Application && spec.Services[s.Service] == nil {
			e.want(s.Service, localedit.Wish{Gone: true}, known)
		}
	}
	res.Warnings = append(res.Warnings, e.warnings...)
	res.Changes = len(e.Locals)
	switch {
	case len(e.Locals) == 0:
		res.Change, res.Revision = "unchanged", before
		return nil
	case there:
		res.Change = "updated"
	default:
		res.Change = "created"
	}
	res.Revision = e.revision()
	return nil
}

// revision of the application after the edit, before it is made.
func (e *Edit) revision() uint64 {
	var most uint64
	for key, s := range e.M.Shares {
		if _, edited := e.Locals[key]; s.App == e.App && !edited {
			most = max(most, s.Revision)
		}
	}
	for key, l := range e.Locals {
		if l != nil {
			most = max(most, l.Revision())
		} else if g := e.M.FromRoot[key]; g != nil {
			most = max(most, g.Revision)
		}
	}
	return most
}

// hostsFree says whether no other application publishes a host of spec here. Who
// may not see the other is not told which it is.
func hostsFree(m *state.Model, who access.Who, spec *api.Application) error {
	taken := standing.Claims{}
	note := func(app, key, namespace string, ports []api.Port) {
		if app == spec.Application {
			return
		}
		if !state.MaySee(m, who, app) {
			key = "another application"
		}
		taken.Add(key, cmp.Or(namespace, api.DefaultNamespace), ports)
	}
	for key, r := range m.Far {
		note(r.App, key, r.Namespace, r.Ports)
	}
	for key, s := range m.Shares {
		note(s.App, key, s.Namespace, s.Spec.Ports)
	}
	namespace := wire.NamespaceOf(spec)
	var had []api.Port
	for _, s := range m.Shares {
		if s.App == spec.Application && state.GroupOf(s) == namespace {
			had = append(had, s.Spec.Ports...)
		}
	}
	return taken.Free(spec, localedit.StandingOf(m, namespace), m.Publish(), had)
}

// DeleteLocal ends an application at this site.
func DeleteLocal(ctx context.Context, c *core.Core, app string, now time.Time) error {
	return core.View(c, func(m *state.Model) error {
		e, err := beginEdit(ctx, c, app, now)
		if err != nil {
			return err
		}
		found := false
		known := localedit.RootKnows(m)[app]
		for _, key := range records.SortedKeys(m.Shares) {
			if s := m.Shares[key]; s.App == app {
				found = true
				e.want(s.Service, localedit.Wish{Gone: true}, known)
			}
		}
		switch {
		case found:
			return e.Commit(ctx)
		case localedit.Ending(m, app):
			return nil // it is on its way
		}
		return NoApp(c, app)
	})
}

// NoApp is the error for an application that is not here.
func NoApp(c *core.Core, app string) error {
	return wire.Problemf(404, "no-such-application", "verge get applications", "there is no such application",
		"nothing of %s is in cluster %s", app, c.ClusterName)
}

// ScaleLocal changes how many instances of a service run at this site.
func ScaleLocal(ctx context.Context, c *core.Core, app, service string, replicas int, now time.Time) (apiv1.ApplyResult,
	error) {
	res := apiv1.ApplyResult{Name: app, Change: "unchanged"}
	if replicas < 0 || replicas > api.MaxReplicas {
		return res, wire.Problemf(422, "cannot-scale", "verge get services --app "+app, "it cannot be scaled to that",
			"%d replicas: a service has 0 to %d", replicas, api.MaxReplicas)
	}
	return core.View2(c, func(m *state.Model) (apiv1.ApplyResult, error) {
		e, err := beginEdit(ctx, c, app, now)
		if err != nil {
			return res, err
		}
		s := m.Shares[app+"."+service]
		if s == nil {
			if localedit.Revision(m, app) == 0 {
				return res, NoApp(c, app)
			}
			return res, wire.Problemf(404, "no-such-service", "verge get services --app "+app,
				"there is no such service", "%s.%s is not in cluster %s", app, service, c.ClusterName)
		}
		res.Revision = s.Revision
		if s.Spec.Job != nil {
			return res, wire.Problemf(422, "cannot-scale",
				"change job.completions or job.parallelism in its descriptor", "it cannot be scaled",
				"%s.%s is a job of %d completions", app, service, s.Spec.Job.Completions)
		}
		if d := autoscale.Delegated(m, app+"."+service); d != nil && d.Max > d.Min {
			return res, wire.ScalesItself(app, service, s.Spec.Replicas)
		}
		if !e.want(service, localedit.Wish{Replicas: replicas}, localedit.RootKnows(m)[app]) {
			return res, nil
		}
		if err := e.Commit(ctx); err != nil {
			return apiv1.ApplyResult{}, err
		}
		res.Change, res.Changes, res.Revision = "updated", 1, m.Shares[app+"."+service].Revision
		return res, nil
	})
}

// DropLocal takes local changes back, of one service or (service "") of all of an
// application: what the root says counts again, and what it does not know ends.
func DropLocal(ctx context.Context, c *core.Core, app, service string, now time.Time) error {
	return core.View(c, func(m *state.Model) error {
		if err := core.Reload(ctx, c, now); err != nil {
			return core.Unstored(err)
		}
		e := newEdit(ctx, c, m, app, now)
		for _, key := range records.SortedKeys(localedit.Table.Rows(m.DB)) {
			if l := localedit.Table.Rows(m.DB)[key]; l.App == app && (service == "" || l.Service == service) {
				e.Locals[key] = nil
				e.said = append(e.said, l.Service+": taken back ("+localedit.Describe(l)+")")
			}
		}
		if len(e.Locals) == 0 {
			name := app
			if service != "" {
				name += "." + service
			}
			return wire.Problemf(404, "no-such-change", "verge local", "there is no such local change",
				"nothing of %s was changed in cluster %s", name, c.ClusterName)
		}
		return e.Commit(ctx)
	})
}

// AckConflict forgets a conflict.
func AckConflict(ctx context.Context, c *core.Core, id string, now time.Time) error {
	return core.Update(ctx, c, now, func(t *state.Tx) error {
		x := localedit.ConflictTable.Get(t.Rows, id)
		if x == nil {
			return wire.Problemf(404, "no-such-conflict", "verge local", "there is no such conflict",
				"%s is not known in cluster %s", id, c.ClusterName)
		}
		localedit.ConflictTable.Put(t.Rows, id, nil)
		t.Event(event.LocalAcknowledged, x.Local.App, "conflict %s about %s was acknowledged by %s", id,
			x.Local.Service, rest.Caller(ctx))
		return nil
	})
}
