package root

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/quota"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// maxNamespaces bounds how many there are.
const maxNamespaces = 10_000

// CreateNamespace implements rest.Backend.
func (b backend) CreateNamespace(ctx context.Context, r wire.NamespaceRequest) (wire.NamespaceView, error) {
	if err := checkStanding(&r.Standing); err != nil {
		return wire.NamespaceView{}, err
	}
	if err := checkQuota(r.Quota); err != nil {
		return wire.NamespaceView{}, err
	}
	if !enroll.IsName(r.Name) {
		return wire.NamespaceView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a namespace", "%q", r.Name)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.NamespaceView{}, unstored(err)
	}
	switch {
	case b.m.hasNamespace(r.Name):
		return wire.NamespaceView{}, wire.Problemf(409, "name-taken", "change its quota with: verge namespace quota "+r.Name, "there is such a namespace already", "%s", r.Name)
	case len(b.m.namespaces) >= maxNamespaces:
		return wire.NamespaceView{}, wire.Problemf(409, "too-many", "remove one that is not used: verge namespace rm NAME", "there are too many namespaces", "%d, at most %d", len(b.m.namespaces), maxNamespaces)
	}
	ns := &wire.Namespace{V: wire.Version, Name: r.Name, Quota: r.Quota, Standing: r.Standing, Created: now, By: rest.Caller(ctx)}
	return b.putNamespace(ctx, ns, "created")
}

// SetQuota implements rest.Backend. A quota may be less than what is used: then
// nothing more is accepted until it fits again.
func (b backend) SetQuota(ctx context.Context, name string, q wire.Quota) (wire.NamespaceView, error) {
	if err := checkQuota(q); err != nil {
		return wire.NamespaceView{}, err
	}
	v, err := b.setQuota(ctx, name, q)
	if err == nil {
		_ = b.addObjects(ctx, &v) // the change stands, whatever else can be said of it
	}
	return v, err
}

func (b backend) setQuota(ctx context.Context, name string, q wire.Quota) (wire.NamespaceView, error) {
	return b.changeNamespace(ctx, name, "quota changed", func(ns *wire.Namespace) { ns.Quota = q })
}

// SetStanding implements rest.Backend. What has a higher priority already than is
// allowed keeps it; against others it counts no more than what is.
func (b backend) SetStanding(ctx context.Context, name string, s wire.Standing) (wire.NamespaceView, error) {
	if err := checkStanding(&s); err != nil {
		return wire.NamespaceView{}, err
	}
	v, err := b.changeNamespace(ctx, name, fmt.Sprintf("standing changed: weight %d, highest priority against others %d, instances may ask for %s, hosts %s, ports of gateways %s", max(1, s.Weight), s.MaxPriority, s.Allowed(), cmp.Or(s.Hosts, wire.PublishAny), cmp.Or(s.Ports, wire.PublishAny)), func(ns *wire.Namespace) { ns.Standing = s })
	if err == nil {
		b.forgive(name)
		loop.Poke(b.wake) // the clusters have it from their shares
		_ = b.addObjects(ctx, &v)
	}
	return v, err
}

// checkStanding brings a standing into the one form.
func checkStanding(s *wire.Standing) error {
	allow, err := wire.ParseAllow(s.Allow)
	if err != nil {
		return wire.Problemf(422, "bad-standing", "write names joined by +: writable-root+NET_RAW", "this cannot be the standing of a namespace", "allow: %v", err)
	}
	s.Allow = allow
	if s.Hosts, err = wire.ParseHosts(s.Hosts); err != nil {
		return wire.Problemf(422, "bad-standing", "write names joined by +: shop.example+*.shop.example, or any, or none", "this cannot be the standing of a namespace", "hosts: %v", err)
	}
	if s.Ports, err = wire.ParsePorts(s.Ports); err != nil {
		return wire.Problemf(422, "bad-standing", "write ports joined by +: 5432/tcp+6000-6099", "this cannot be the standing of a namespace", "ports: %v", err)
	}
	return nil
}

// checkQuota refuses bounds that could never be passed, or be understood.
func checkQuota(q wire.Quota) error {
	if err := quota.Check(q); err != nil {
		return wire.Problemf(422, "bad-quota", "name devices as services do: device.camera=2", "this cannot be the quota of a namespace", "%v", err)
	}
	return nil
}

// forgive asks clusters again for what they gave back of a namespace: they may say
// something else now.
func (b backend) forgive(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.m.clusters {
		for key := range c.refused {
			if app, _, _ := strings.Cut(key, "."); b.m.apps[app] != nil && wire.NamespaceOf(b.m.apps[app].Spec) == namespace {
				delete(c.refused, key)
			}
		}
	}
}

// changeNamespace stores a namespace with a change.
func (b backend) changeNamespace(ctx context.Context, name, what string, change func(*wire.Namespace)) (wire.NamespaceView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.NamespaceView{}, unstored(err)
	}
	if !b.m.hasNamespace(name) {
		return wire.NamespaceView{}, noNamespace(name)
	}
	next := wire.Namespace{V: wire.Version, Name: name, Created: now, By: rest.Caller(ctx)}
	if old := b.m.namespaces[name]; old != nil {
		next = *old
	}
	change(&next)
	return b.putNamespace(ctx, &next, what)
}

// putNamespace stores a namespace. The mutex is held.
func (b backend) putNamespace(ctx context.Context, ns *wire.Namespace, what string) (wire.NamespaceView, error) {
	t := b.m.begin()
	namespaceTable.Put(t.rows, ns.Name, ns)
	publishTable.Put(t.rows, ns.Name, ns.Standing.Publish())
	if err := b.keeper.Whole(ctx, t); err != nil {
		return wire.NamespaceView{}, unstored(err)
	}
	b.tellAll()
	b.events.Add(time.Now(), tier, "namespace/"+ns.Name, what)
	b.notify()
	return b.m.namespaceView(ns.Name), nil
}

// RemoveNamespace implements rest.Backend.
func (b backend) RemoveNamespace(ctx context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.reload(ctx, time.Now()); err != nil {
		return unstored(err)
	}
	var apps []string
	for _, app := range records.SortedKeys(b.m.apps) {
		if wire.NamespaceOf(b.m.apps[app].Spec) == name {
			apps = append(apps, app)
		}
	}
	switch {
	case !b.m.hasNamespace(name):
		return noNamespace(name)
	case len(apps) > 0:
		return wire.Problemf(409, "not-empty", "delete them first: verge delete application/"+apps[0], "the namespace is in use",
			"it has %s: %s", wire.Count(len(apps), "application"), shorten(apps, 5))
	case len(b.m.vault.of(name)) > 0:
		secrets := b.m.vault.of(name)
		return wire.Problemf(409, "not-empty", "remove them first: verge secret rm "+secrets[0]+" --namespace "+name, "the namespace is in use",
			"it has %s: %s", wire.Count(len(secrets), "secret"), shorten(secrets, 5))
	case len(b.hooks.Of(name)) > 0:
		of := b.hooks.Of(name)
		return wire.Problemf(409, "not-empty", "remove them first: verge hook rm "+of[0]+" --namespace "+name, "the namespace is in use",
			"it has %s: %s", wire.Count(len(of), "hook"), shorten(of, 5))
	case b.shelf.Holds(ctx, name):
		return wire.Problemf(409, "not-empty", "see them with verge object ls --namespace "+name+", and remove them: verge object rm NAME --namespace "+name, "the namespace is in use", "it has objects")
	case name == api.DefaultNamespace:
		return wire.Problemf(409, "default-namespace", "give it a quota instead: verge namespace quota default applications=1", "the namespace cannot be removed",
			"%s is that of applications which name none", name)
	}
	if err := b.forgetNamespace(ctx, name); b.keeper.Wrote(err) != nil {
		return unstored(err)
	}
	delete(b.m.namespaces, name)
	delete(publishTable.Rows(b.m.db), name)
	b.tellAll()
	b.events.Add(time.Now(), tier, "namespace/"+name, "removed")
	b.notify()
	return nil
}

func shorten(list []string, most int) string {
	text := ""
	for i, s := range list {
		if i == most {
			return fmt.Sprintf("%s and %d more", text, len(list)-most)
		}
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text
}

// Namespaces implements rest.Backend.
func (b backend) Namespaces(ctx context.Context) ([]wire.NamespaceView, error) {
	out := b.listNamespaces()
	views := make([]*wire.NamespaceView, len(out))
	for i := range out {
		views[i] = &out[i]
	}
	return out, b.addObjects(ctx, views...)
}

func (b backend) listNamespaces() []wire.NamespaceView {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := map[string]bool{api.DefaultNamespace: true}
	for name := range b.m.namespaces {
		names[name] = true
	}
	for _, app := range b.m.apps {
		names[wire.NamespaceOf(app.Spec)] = true
	}
	out := []wire.NamespaceView{}
	view := b.m.namespaceViews()
	for _, name := range records.SortedKeys(names) {
		out = append(out, view(name))
	}
	return out
}

// Namespace implements rest.Backend.
func (b backend) Namespace(ctx context.Context, name string) (wire.NamespaceView, error) {
	v, err := b.viewOf(name)
	if err != nil {
		return v, err
	}
	b.mu.Lock()
	v.Shares = b.m.namespaceShares(access.From(ctx), name)
	b.mu.Unlock()
	return v, b.addObjects(ctx, &v)
}

// namespaceShares are the dominant shares of a namespace in the clusters that who asks
// may see, of those in which anything of it runs or is about to.
func (m *model) namespaceShares(who access.Who, name string) []wire.NamespaceShare {
	used := map[string]api.Resources{}
	for _, i := range m.insts {
		c, app := m.clusters[i.Cluster], m.apps[i.App]
		if c == nil || app == nil || wire.NamespaceOf(app.Spec) != name || app.Spec.Services[i.Service] == nil {
			continue
		}
		if rep := c.seen[i.ID]; rep != nil && !rep.Asleep && (rep.State == wire.Running || rep.State == wire.WorkerScheduled) {
			used[i.Cluster] = amount.Add(used[i.Cluster], app.Spec.Services[i.Service].Resources)
		}
	}
	var out []wire.NamespaceShare
	for _, cluster := range records.SortedKeys(used) {
		if access.May(who, access.See, access.Object{Kind: access.Cluster, Name: cluster, Cluster: cluster}) != nil {
			continue
		}
		if share, of := amount.DominantShare(m.clusters[cluster].view().Aggregate.Capacity, used[cluster]); of != "" {
			out = append(out, wire.NamespaceShare{Cluster: cluster, Share: share, Resource: of})
		}
	}
	return out
}

func (b backend) viewOf(name string) (wire.NamespaceView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.m.hasNamespace(name) {
		return wire.NamespaceView{}, noNamespace(name)
	}
	return b.m.namespaceView(name), nil
}

func noNamespace(name string) error {
	return wire.Problemf(404, "no-such-namespace", "an administrator can make it: verge namespace create "+name, "there is no such namespace", "%s is not known", name)
}

// hasNamespace: it has a record, or it needs none.
func (m *model) hasNamespace(name string) bool {
	if name == api.DefaultNamespace || m.namespaces[name] != nil {
		return true
	}
	for _, app := range m.apps {
		if wire.NamespaceOf(app.Spec) == name {
			return true // applied when no record was asked for
		}
	}
	return false
}

// used is what the applications of each namespace ask for.
func (m *model) used() map[string]wire.Quota {
	out := map[string]wire.Quota{}
	for _, app := range m.apps {
		ns := wire.NamespaceOf(app.Spec)
		out[ns] = quota.Add(out[ns], quota.Of(app.Spec))
	}
	return out
}

func (m *model) namespaceView(name string) wire.NamespaceView { return m.namespaceViews()(name) }

// namespaceViews looks once at all applications, for who shows several namespaces.
func (m *model) namespaceViews() func(name string) wire.NamespaceView {
	used, unallowed := m.used(), m.unallowed()
	local, _, _ := m.atSites()
	return func(name string) wire.NamespaceView {
		v := wire.NamespaceView{Name: name, Used: quota.Add(used[name], local[name]), AtSites: local[name], Unallowed: unallowed[name]}
		if ns := m.namespaces[name]; ns != nil {
			v.Quota, v.Standing, v.Created, v.By = ns.Quota, ns.Standing, ns.Created, ns.By
		}
		return v
	}
}

// standing of a namespace.
func (m *model) standing(name string) wire.Standing {
	if ns := m.namespaces[name]; ns != nil {
		return ns.Standing
	}
	return wire.Standing{}
}

// ranks says whether the services of an application may have the priorities that they
// are to have. One that is no higher than before is not refused. The mutex is held.
func (m *model) ranks(app *wire.Application) error {
	name := wire.NamespaceOf(app.Spec)
	most := m.standing(name).MaxPriority
	if most == 0 || !app.Deleting.IsZero() {
		return nil
	}
	var over []string
	highest := 0
	for _, svc := range app.Spec.ServiceNames() {
		p := app.Spec.Services[svc].Priority
		if p <= most {
			continue
		}
		if old := m.apps[app.Name]; old != nil && wire.NamespaceOf(old.Spec) == name && old.Spec.Services[svc] != nil && old.Spec.Services[svc].Priority >= p {
			continue
		}
		highest = max(highest, p)
		over = append(over, fmt.Sprintf("services.%s.priority is %d", svc, p))
	}
	if len(over) == 0 {
		return nil
	}
	raised := m.standing(name) // what is not named would be as it is without
	raised.MaxPriority = highest
	return wire.Problemf(403, "over-priority", fmt.Sprintf("lower it, or have the bound raised by an administrator: verge namespace standing %s %s", name, raised),
		"nothing was changed: the namespace may not have so high a priority", "%s; namespace %s may have %d at most, since its priorities count against other namespaces", shorten(over, 3), name, most)
}

// rights says whether the containers of an application may do what they are to. What
// they could before is not refused. The mutex is held.
func (m *model) rights(app *wire.Application) error {
	if !app.Deleting.IsZero() {
		return nil
	}
	name := wire.NamespaceOf(app.Spec)
	return wire.ForbiddenRights(name, m.standing(name), app.Spec, func(svc string) *api.Service {
		if old := m.apps[app.Name]; old != nil && wire.NamespaceOf(old.Spec) == name {
			return old.Spec.Services[svc]
		}
		return nil
	})
}

// fits says whether its namespace lets an application be as it is to be, by its quota,
// the priorities that it may have and what its containers may do. The mutex is held.
func (m *model) fits(app *wire.Application) error {
	if err := m.ranks(app); err != nil {
		return err
	}
	if err := m.rights(app); err != nil {
		return err
	}
	name := wire.NamespaceOf(app.Spec)
	ns := m.namespaces[name]
	if ns == nil || ns.Quota.IsZero() || !app.Deleting.IsZero() {
		return nil
	}
	_, local, _ := m.atSites()
	others, before := local[name], wire.Quota{}
	for _, a := range m.apps {
		switch {
		case a.Name == app.Name:
			before = quota.Of(a.Spec)
		case wire.NamespaceOf(a.Spec) == name:
			others = quota.Add(others, quota.Of(a.Spec))
		}
	}
	over := quota.Exceeded(ns.Quota, others, before, quota.Of(app.Spec))
	if over == "" {
		return nil
	}
	return wire.Problemf(403, "over-quota", "ask for less, delete something (verge get applications -n "+name+"), or have the quota raised (verge namespace quota "+name+")",
		"nothing was changed: the quota of the namespace does not allow it", "namespace %s: %s", name, over)
}

// admits says whether an application may be applied to its namespace. The mutex is
// held.
func (m *model) admits(who access.Who, app, old *wire.Application) error {
	name := wire.NamespaceOf(app.Spec)
	switch {
	case old != nil && wire.NamespaceOf(old.Spec) != name:
		return nameTaken(who, old)
	case !m.hasNamespace(name):
		return noNamespace(name)
	}
	return m.fits(app)
}
