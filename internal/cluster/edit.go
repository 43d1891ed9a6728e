package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/tier/keeper"
	"github.com/verge-edge/verge/internal/wire"
)

// wish is what an operator wants of one service at this site.
type wish struct {
	gone     bool
	replicas int
	most     int          // of them, where the requests decide; 0: as many
	spec     *api.Service // nil: as it is
}

// edit is a set of wishes, and what they come to.
type edit struct {
	c   *core
	m   *model // c's own, or a copy that nothing is stored of
	by  string
	now time.Time

	locals   map[string]*local // nil: taken back
	changes  uint64
	said     []string // in words, for people
	warnings []string
	app      string
	ns       string // of the application
}

// mayEdit refuses an edit of an application where the root could be asked instead,
// unless that is not meant. The mutex is held.
func (c *core) mayEdit(ctx context.Context, app string, now time.Time) error {
	if c.rootAway() == nil && !rest.Local(ctx) {
		return wire.Problemf(409, "root-connected", "make the change at the root; or, if it is meant for this site alone, say --local",
			"the root is connected", "cluster %s takes %s from its root, which would not know of a change that is made here", c.name, app)
	}
	if err := c.reload(ctx, now); err != nil {
		return unstored(err)
	}
	if c.m.Unasked(state.TheRoot) {
		return wire.Problemf(409, "recovering", "wait until the root has been heard, or go on without it: verge recovery finish root",
			"the cluster was restored and does not know yet what is wanted here", "a change now could be made of what is long over")
	}
	return nil
}

// beginEdit starts an edit of an application. The mutex is held.
func (c *core) beginEdit(ctx context.Context, app string, now time.Time) (*edit, error) {
	if err := c.mayEdit(ctx, app, now); err != nil {
		return nil, err
	}
	// What the root has overtaken is put into the books before anything is added.
	t := c.m.begin()
	t.weigh(now)
	if _, left, err := c.keeper.Parts(ctx, t); cmp.Or(err, left) != nil {
		return nil, unstored(cmp.Or(err, left))
	}
	c.tell(t, now)
	return c.newEdit(ctx, c.m, app, now), nil
}

// rehearseEdit starts an edit of which nothing will be stored. The mutex is held.
func (c *core) rehearseEdit(ctx context.Context, app string, now time.Time) (*edit, error) {
	if err := c.mayEdit(ctx, app, now); err != nil {
		return nil, err
	}
	m := c.m.clone()
	t := m.begin()
	t.weigh(now)
	t.Done()
	return c.newEdit(ctx, m, app, now), nil
}

func (c *core) newEdit(ctx context.Context, m *model, app string, now time.Time) *edit {
	return &edit{c: c, m: m, by: rest.Caller(ctx), now: now.Round(0), locals: map[string]*local{}, changes: m.changes(), app: app, ns: m.Namespace(app)}
}

// want notes a wish about a service. It reports whether that changes anything.
func (e *edit) want(service string, w wish, rootKnows bool) (changed bool) {
	m, key := e.m, e.app+"."+service
	given, old := m.Given[key], m.locals[key]
	next := &local{
		V: wire.Version, Namespace: e.ns, App: e.app, Service: service, Gone: w.gone, Replicas: w.replicas, Most: w.most, Spec: w.spec, By: e.by, At: e.now,
		Base: base{Known: rootKnows},
	}
	if given != nil {
		next.Base.Revision, next.Base.Replicas, next.Base.Spec = given.Revision, given.Min, given.Spec
		if w.spec == nil && old != nil && !old.Gone {
			next.Spec = old.Spec // another number of what was changed before
		}
		if next.Spec != nil && sameButReplicas(next.Spec, given.Spec) {
			next.Spec = nil
		}
	} else if w.spec == nil && old != nil {
		next.Spec = old.Spec
	}
	switch {
	case given == nil && (w.gone || next.Spec == nil), given != nil && !w.gone && next.Spec == nil && w.replicas == given.Min:
		next = nil // as the root says
	case w.gone:
		next.Replicas, next.Spec = 0, nil
	}
	if next == nil && old == nil {
		return false
	}
	if next != nil && old != nil && next.Gone == old.Gone && next.Replicas == old.Replicas && next.Most == old.Most && records.Same(next.Spec, old.Spec) {
		return false
	}
	if next == nil {
		e.locals[key] = nil
		e.said = append(e.said, service+": as the root says again")
		return true
	}
	e.changes++
	next.Number = e.changes
	if old != nil && records.Same(next.Spec, old.Spec) {
		next.Number, e.changes = old.Number, e.changes-1 // the same program under the same revision
	}
	e.locals[key] = next
	e.said = append(e.said, service+": "+m.words(next))
	return true
}

// tx is what stores the edit. It is refused where it is too much.
func (e *edit) tx() (*tx, error) {
	t := e.m.begin()
	after := len(e.m.locals)
	for _, key := range records.SortedKeys(e.locals) {
		l := e.locals[key]
		if l == nil {
			after--
		} else if e.m.locals[key] == nil {
			after++
		}
		t.locals[key] = l
	}
	if after > maxLocals {
		return nil, wire.Problemf(409, "too-many-changes", "take some back (verge local), or make them at the root", "too many services were changed here",
			"%d, at most %d", after, maxLocals)
	}
	localsTable.Put(t.Rows, "", &e.changes)
	t.Tally(e.app, wire.Tally{Changes: uint64(len(e.locals))})
	groups, err := t.Encode()
	if err != nil {
		return nil, err
	}
	var large *keeper.TooLargeError
	if errors.As(keeper.Fits(groups), &large) {
		return nil, wire.Problemf(413, "too-large", "split it into several applications", "the change is too large to be stored", "%d bytes for %d services", large.Bytes, len(e.locals))
	}
	return t, nil
}

// commit stores the edit and makes it count.
func (e *edit) commit(ctx context.Context) error {
	c := e.c
	// A change made as soon as the link is down is one since the root was lost.
	c.noteRoot(c.rootAway())
	t, err := e.tx()
	if err != nil {
		return err
	}
	// A change is there as a whole or not at all.
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	c.place()
	for _, s := range e.said {
		c.events.Add(e.now, c.m.Tier(), "application/"+e.app, fmt.Sprintf("%s, by %s (local)", s, e.by))
	}
	for _, key := range records.SortedKeys(e.locals) {
		if l := e.locals[key]; l != nil {
			c.tellLocal(key, l, true)
		} else {
			c.localOver(key, e.ns, nil, e.by, "taken back", e.now)
		}
	}
	loop.Poke(c.wake)
	return nil
}

func unstored(err error) error {
	if p := records.Refused(err); p != nil {
		return p
	}
	if errors.Is(err, bus.ErrUnknownOutcome) {
		return wire.Problemf(503, "outcome-unknown", "look (verge local) before you try again", "it is not known whether this was stored", "%v", err)
	}
	return wire.Problemf(507, "not-stored", "free some space or repair the disk of the cluster, then try again", "nothing was changed: it could not be stored", "%v", err)
}

// parsed is a descriptor with what is to be said about it.
func parsed(source []byte) (*api.Application, wire.ApplyResult, error) {
	var res wire.ApplyResult
	spec, warnings, err := descriptor.Parse("descriptor", source)
	if err != nil {
		return nil, res, rest.InvalidDescriptor(err)
	}
	res.Name = spec.Application
	for _, w := range warnings {
		res.Warnings = append(res.Warnings, w.String())
	}
	return spec, res, nil
}

// applyLocal makes an application at this site what a descriptor says.
func (c *core) applyLocal(ctx context.Context, source []byte, dryRun bool, now time.Time) (wire.ApplyResult, error) {
	return c.applyAgreed(ctx, source, dryRun, hooks.Agreed{}, now)
}

// applyAgreed is applyLocal of what hooks may have agreed to.
func (c *core) applyAgreed(ctx context.Context, source []byte, dryRun bool, agreed hooks.Agreed, now time.Time) (wire.ApplyResult, error) {
	spec, res, err := parsed(source)
	if err != nil {
		return res, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	begin := c.beginEdit
	if dryRun {
		begin = c.rehearseEdit
	}
	e, err := begin(ctx, spec.Application, now)
	if err != nil {
		return res, err
	}
	if err := e.apply(access.From(ctx), spec, &res); err != nil || dryRun || res.Change == "unchanged" {
		return res, err
	}
	if err := agreed.Still(res); err != nil {
		return wire.ApplyResult{}, err
	}
	if err := e.commit(ctx); err != nil {
		return wire.ApplyResult{}, err
	}
	res.Revision = c.m.localRevision(spec.Application)
	return res, nil
}

// apply notes what a descriptor wants of the site, and says what that changes.
func (e *edit) apply(who access.Who, spec *api.Application, res *wire.ApplyResult) error {
	m := e.m
	if ns := wire.NamespaceOf(spec); e.ns != "" && e.ns != ns {
		detail := spec.Application + " is the name of another application"
		if m.maySee(who, spec.Application) {
			detail = fmt.Sprintf("%s belongs to namespace %s, and an application cannot change its namespace", spec.Application, e.ns)
		}
		return wire.Problemf(409, "name-taken", "choose another name for the application", "the name is taken", "%s", detail)
	} else {
		e.ns = ns
	}
	if err := m.rights(spec); err != nil {
		return err
	}
	if err := m.hostsFree(who, spec); err != nil {
		return err
	}
	known := m.rootKnows()[spec.Application]
	before := m.localRevision(spec.Application)
	there := known || before > 0
	for _, name := range spec.ServiceNames() {
		s := spec.Services[name]
		key := spec.Application + "." + name
		given := m.Given[key]
		w := wish{replicas: s.Replicas.Min, spec: s}
		if s.Replicas.Elastic() {
			w.most = s.Replicas.Max
		}
		if e.want(name, w, known) {
			switch {
			case given == nil && known:
				e.warnings = append(e.warnings, fmt.Sprintf("services.%s: the root runs it elsewhere, or not at all; now it runs here too", name))
			case given != nil && given.Min != s.Replicas.Min:
				e.warnings = append(e.warnings, fmt.Sprintf("services.%s.replicas: the number counts for this site alone, where the root wants %d", name, given.Min))
			}
		}
	}
	for _, key := range records.SortedKeys(m.Shares) {
		if s := m.Shares[key]; s.App == spec.Application && spec.Services[s.Service] == nil {
			e.want(s.Service, wish{gone: true}, known)
		}
	}
	res.Warnings = append(res.Warnings, e.warnings...)
	res.Changes = len(e.locals)
	switch {
	case len(e.locals) == 0:
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

// rights says whether the containers of an application may do what they are to, by what
// the root has last said of its namespace. What they can already is not refused.
func (m *model) rights(spec *api.Application) error {
	namespace := wire.NamespaceOf(spec)
	standing := m.standingOf(namespace)
	return wire.ForbiddenRights(namespace, standing, spec, func(svc string) *api.Service {
		if s := m.Shares[spec.Application+"."+svc]; s != nil && groupOf(s) == namespace {
			return s.Spec
		}
		return nil
	})
}

// standingOf is what the root has last said of a namespace.
func (m *model) standingOf(namespace string) (standing wire.Standing) {
	for _, key := range records.SortedKeys(m.Given) {
		if s := m.Given[key]; groupOf(s) == namespace && (s.Standing.Allow != "" || standing == wire.Standing{}) {
			standing = s.Standing
		}
	}
	if p := m.publish[namespace]; p != nil { // also where nothing of it runs here
		standing.Hosts, standing.Ports = p.Hosts, p.Ports
	}
	return standing
}

// revision of the application after the edit, before it is made.
func (e *edit) revision() uint64 {
	var most uint64
	for key, s := range e.m.Shares {
		if _, edited := e.locals[key]; s.App == e.app && !edited {
			most = max(most, s.Revision)
		}
	}
	for key, l := range e.locals {
		if l != nil {
			most = max(most, l.revision())
		} else if g := e.m.Given[key]; g != nil {
			most = max(most, g.Revision)
		}
	}
	return most
}

// localRevision of what counts here of an application; 0 for none.
func (m *model) localRevision(app string) (most uint64) {
	for _, s := range m.Shares {
		if s.App == app {
			most = max(most, s.Revision)
		}
	}
	return most
}

// hostsFree says whether no other application publishes a host of spec here. Who
// may not see the other is not told which it is.
func (m *model) hostsFree(who access.Who, spec *api.Application) error {
	taken := wire.Claims{}
	note := func(app, key, namespace string, ports []api.Port) {
		if app == spec.Application {
			return
		}
		if !m.maySee(who, app) {
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
		if s.App == spec.Application && groupOf(s) == namespace {
			had = append(had, s.Spec.Ports...)
		}
	}
	return taken.Free(spec, m.standingOf(namespace), m.publish, had)
}

// deleteLocal ends an application at this site.
func (c *core) deleteLocal(ctx context.Context, app string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, err := c.beginEdit(ctx, app, now)
	if err != nil {
		return err
	}
	found := false
	known := c.m.rootKnows()[app]
	for _, key := range records.SortedKeys(c.m.Shares) {
		if s := c.m.Shares[key]; s.App == app {
			found = true
			e.want(s.Service, wish{gone: true}, known)
		}
	}
	switch {
	case found:
		return e.commit(ctx)
	case c.m.ending(app):
		return nil // it is on its way
	}
	return c.noApp(app)
}

// ending: nothing of the application is wanted here, and something still runs.
func (m *model) ending(app string) bool {
	for _, i := range m.Insts {
		if i.App == app {
			return true
		}
	}
	return false
}

func (c *core) noApp(app string) error {
	return wire.Problemf(404, "no-such-application", "verge get applications", "there is no such application", "nothing of %s is in cluster %s", app, c.name)
}

// scaleLocal changes how many instances of a service run at this site.
func (c *core) scaleLocal(ctx context.Context, app, service string, replicas int, now time.Time) (wire.ApplyResult, error) {
	res := wire.ApplyResult{Name: app, Change: "unchanged"}
	if replicas < 0 || replicas > api.MaxReplicas {
		return res, wire.Problemf(422, "cannot-scale", "verge get services --app "+app, "it cannot be scaled to that", "%d replicas: a service has 0 to %d", replicas, api.MaxReplicas)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, err := c.beginEdit(ctx, app, now)
	if err != nil {
		return res, err
	}
	s := c.m.Shares[app+"."+service]
	if s == nil {
		if c.m.localRevision(app) == 0 {
			return res, c.noApp(app)
		}
		return res, wire.Problemf(404, "no-such-service", "verge get services --app "+app, "there is no such service", "%s.%s is not in cluster %s", app, service, c.name)
	}
	res.Revision = s.Revision
	if s.Spec.Job != nil {
		return res, wire.Problemf(422, "cannot-scale", "change job.completions or job.parallelism in its descriptor", "it cannot be scaled", "%s.%s is a job of %d completions", app, service, s.Spec.Job.Completions)
	}
	if d := c.m.delegated(app + "." + service); d != nil && d.Max > d.Min {
		return res, wire.ScalesItself(app, service, s.Spec.Replicas)
	}
	if !e.want(service, wish{replicas: replicas}, c.m.rootKnows()[app]) {
		return res, nil
	}
	if err := e.commit(ctx); err != nil {
		return wire.ApplyResult{}, err
	}
	res.Change, res.Changes, res.Revision = "updated", 1, c.m.Shares[app+"."+service].Revision
	return res, nil
}

// dropLocal takes local changes back, of one service or (service "") of all of an
// application: what the root says counts again, and what it does not know ends.
func (c *core) dropLocal(ctx context.Context, app, service string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return unstored(err)
	}
	e := c.newEdit(ctx, c.m, app, now)
	for _, key := range records.SortedKeys(c.m.locals) {
		if l := c.m.locals[key]; l.App == app && (service == "" || l.Service == service) {
			e.locals[key] = nil
			e.said = append(e.said, l.Service+": taken back ("+c.m.words(l)+")")
		}
	}
	if len(e.locals) == 0 {
		name := app
		if service != "" {
			name += "." + service
		}
		return wire.Problemf(404, "no-such-change", "verge local", "there is no such local change", "nothing of %s was changed in cluster %s", name, c.name)
	}
	return e.commit(ctx)
}

// ackConflict forgets a conflict.
func (c *core) ackConflict(ctx context.Context, id string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return unstored(err)
	}
	x := c.m.conflicts[id]
	if x == nil {
		return wire.Problemf(404, "no-such-conflict", "verge local", "there is no such conflict", "%s is not known in cluster %s", id, c.name)
	}
	t := c.m.begin()
	t.conflicts[id] = nil
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	c.events.Add(now, c.m.Tier(), "application/"+x.Local.App, fmt.Sprintf("conflict %s about %s was acknowledged by %s", id, x.Local.Service, rest.Caller(ctx)))
	loop.Poke(c.wake)
	return nil
}
