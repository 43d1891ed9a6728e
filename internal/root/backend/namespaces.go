package backend

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

var _ rest.Namespaces = Backend{}

// CreateNamespace implements rest.Backend.
func (b Backend) CreateNamespace(ctx context.Context, r apiv1.NamespaceRequest) (apiv1.NamespaceView, error) {
	if err := namespaces.CheckStanding(&r.Standing); err != nil {
		return apiv1.NamespaceView{}, err
	}
	if err := namespaces.CheckQuota(r.Quota); err != nil {
		return apiv1.NamespaceView{}, err
	}
	if !enroll.IsName(r.Name) {
		return apiv1.NamespaceView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63",
			"this cannot be the name of a namespace", "%q", r.Name)
	}
	return b.updateNamespace(ctx, r.Name, func(t *state.Tx) (*record.Namespace, error) {
		m := t.Model
		switch {
		case namespaces.Has(m, r.Name):
			return nil, wire.Problemf(409, "name-taken",
				"change its quota with: verge namespace quota "+r.Name, "there is such a namespace already", "%s", r.Name)
		case len(m.Namespaces) >= namespaces.MaxNamespaces:
			return nil, wire.Problemf(409, "too-many",
				"remove one that is not used: verge namespace rm NAME", "there are too many namespaces", "%d, at most %d",
				len(m.Namespaces), namespaces.MaxNamespaces)
		}
		t.Event(event.NamespaceCreated, r.Name, "created")
		return &record.Namespace{V: wire.Version, Name: r.Name, Quota: r.Quota, Standing: r.Standing, Created: t.Now,
			By: rest.Caller(ctx)}, nil
	})
}

// SetQuota implements rest.Backend. A quota may be less than what is used: then
// nothing more is accepted until it fits again.
func (b Backend) SetQuota(ctx context.Context, name string, q wire.Quota) (apiv1.NamespaceView, error) {
	if err := namespaces.CheckQuota(q); err != nil {
		return apiv1.NamespaceView{}, err
	}
	v, err := b.changeNamespace(ctx, name, event.NamespaceQuota, "quota changed",
		func(ns *record.Namespace) { ns.Quota = q })
	if err == nil {
		_ = b.addObjects(ctx, &v) // the change stands, whatever else can be said of it
	}
	return v, err
}

// SetStanding implements rest.Backend. What has a higher priority already than is
// allowed keeps it; against others it counts no more than what is.
func (b Backend) SetStanding(ctx context.Context, name string, s wire.Standing) (apiv1.NamespaceView, error) {
	if err := namespaces.CheckStanding(&s); err != nil {
		return apiv1.NamespaceView{}, err
	}
	v, err := b.changeNamespace(ctx, name, event.NamespaceStanding,
		fmt.Sprintf("standing changed: weight %d, highest priority against others %d, instances may ask for %s, "+
			"hosts %s, ports of gateways %s", max(1, s.Weight), s.MaxPriority, s.Allowed(),
			cmp.Or(s.Hosts, wire.PublishAny), cmp.Or(s.Ports, wire.PublishAny)),
		func(ns *record.Namespace) { ns.Standing = s })
	if err == nil {
		b.forgive(name)
		loop.Poke(b.Wake) // the clusters have it from their shares
		_ = b.addObjects(ctx, &v)
	}
	return v, err
}

// forgive asks clusters again for what they gave back of a namespace: they may say
// something else now.
func (b Backend) forgive(namespace string) {
	core.Do(b.Core, func(m *state.Model) {
		for _, c := range m.Clusters {
			for key := range c.Refused {
				if app, _, _ := strings.Cut(key, "."); m.Apps[app] != nil &&
					wire.NamespaceOf(m.Apps[app].Spec) == namespace {
					delete(c.Refused, key)
				}
			}
		}
	})
}

// changeNamespace stores a namespace with a change.
func (b Backend) changeNamespace(
	ctx context.Context, name string, kind event.Kind, what string, change func(*record.Namespace),
) (apiv1.NamespaceView, error) {
	return b.updateNamespace(ctx, name, func(t *state.Tx) (*record.Namespace, error) {
		if !namespaces.Has(t.Model, name) {
			return nil, namespaces.NotFound(name)
		}
		next := record.Namespace{V: wire.Version, Name: name, Created: t.Now, By: rest.Caller(ctx)}
		if old := t.Model.Namespaces[name]; old != nil {
			next = *old
		}
		change(&next)
		t.Event(kind, name, "%s", what)
		return &next, nil
	})
}

// updateNamespace stores what change makes of a namespace, and has all clusters told.
func (b Backend) updateNamespace(ctx context.Context, name string,
	change func(t *state.Tx) (*record.Namespace, error)) (v apiv1.NamespaceView, err error) {
	if err := core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) error {
		ns, err := change(t)
		if err != nil {
			return err
		}
		state.NamespaceTable.Put(t.Rows, name, ns)
		namespaces.PublishTable.Put(t.Rows, name, ns.Standing.Publish())
		return nil
	}); err != nil {
		return v, err
	}
	clusters.TellAll(b.Core)
	return core.View(b.Core, func(m *state.Model) apiv1.NamespaceView { return namespaces.View(m, name) }), nil
}

// RemoveNamespace implements rest.Backend.
func (b Backend) RemoveNamespace(ctx context.Context, name string) error {
	if err := core.View(b.Core, func(m *state.Model) error {
		if err := core.Reload(ctx, b.Core, time.Now()); err != nil {
			return core.Unstored(err)
		}
		var apps []string
		for _, app := range records.SortedKeys(m.Apps) {
			if wire.NamespaceOf(m.Apps[app].Spec) == name {
				apps = append(apps, app)
			}
		}
		switch {
		case !namespaces.Has(m, name):
			return namespaces.NotFound(name)
		case len(apps) > 0:
			return wire.Problemf(409, "not-empty", "delete them first: verge delete application/"+apps[0],
				"the namespace is in use",
				"it has %s: %s", wire.Count(len(apps), "application"), namespaces.Shorten(apps, 5))
		case len(secrets.Names(m, name)) > 0:
			secrets := secrets.Names(m, name)
			return wire.Problemf(409, "not-empty", "remove them first: verge secret rm "+secrets[0]+" --namespace "+name,
				"the namespace is in use",
				"it has %s: %s", wire.Count(len(secrets), "secret"), namespaces.Shorten(secrets, 5))
		case len(b.HookKeeper.Of(name)) > 0:
			of := b.HookKeeper.Of(name)
			return wire.Problemf(409, "not-empty", "remove them first: verge hook rm "+of[0]+" --namespace "+name,
				"the namespace is in use",
				"it has %s: %s", wire.Count(len(of), "hook"), namespaces.Shorten(of, 5))
		case b.ObjectStore.Holds(ctx, name):
			return wire.Problemf(409, "not-empty",
				"see them with verge object ls --namespace "+name+", and remove them: verge object rm NAME "+
					"--namespace "+name, "the namespace is in use", "it has objects")
		case name == api.DefaultNamespace:
			return wire.Problemf(409, "default-namespace",
				"give it a quota instead: verge namespace quota default applications=1", "the namespace cannot be removed",
				"%s is that of applications which name none", name)
		}
		t := m.Begin()
		state.NamespaceTable.Put(t.Rows, name, nil)
		namespaces.PublishTable.Changes(t.Rows)[name] = nil // also one that could not be read
		// With all roles in it: who has one now has none in a namespace of that name that is made later.
		if err := b.LeaveNamespace(ctx, name, func(ops ...bus.Op) error {
			return b.Keeper.Whole(ctx, t, ops...)
		}); err != nil {
			return core.Unstored(err)
		}
		b.EventRing.Note(time.Now(), event.NamespaceRemoved, name, "removed")
		core.Notify(b.Core)
		return nil
	}); err != nil {
		return err
	}
	clusters.TellAll(b.Core)
	return nil
}

// Namespaces implements rest.Backend.
func (b Backend) Namespaces(ctx context.Context) ([]apiv1.NamespaceView, error) {
	out := b.listNamespaces()
	views := make([]*apiv1.NamespaceView, len(out))
	for i := range out {
		views[i] = &out[i]
	}
	return out, b.addObjects(ctx, views...)
}

func (b Backend) listNamespaces() []apiv1.NamespaceView {
	return core.View(b.Core, func(m *state.Model) []apiv1.NamespaceView {
		names := map[string]bool{api.DefaultNamespace: true}
		for name := range m.Namespaces {
			names[name] = true
		}
		for _, app := range m.Apps {
			names[wire.NamespaceOf(app.Spec)] = true
		}
		out := []apiv1.NamespaceView{}
		view := namespaces.Views(m)
		for _, name := range records.SortedKeys(names) {
			out = append(out, view(name))
		}
		return out
	})
}

// Namespace implements rest.Backend.
func (b Backend) Namespace(ctx context.Context, name string) (apiv1.NamespaceView, error) {
	v, err := core.View2(b.Core, func(m *state.Model) (v apiv1.NamespaceView, err error) {
		if !namespaces.Has(m, name) {
			return v, namespaces.NotFound(name)
		}
		v = namespaces.View(m, name)
		v.Shares = namespaces.SharesOf(m, access.From(ctx), name)
		return v, nil
	})
	if err != nil {
		return v, err
	}
	return v, b.addObjects(ctx, &v)
}
