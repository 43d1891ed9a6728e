package namespaces

import (
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/quota"
	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/policy/standing/publish"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// KeyPublish + namespace is the key of what it may publish, for all clusters.
const KeyPublish = "publish."

// PublishTable is what namespaces may publish. It is written with its namespace, and read by clusters alone.
var PublishTable = table.Add(&state.Schema, records.Kind{
	Prefix: KeyPublish, Fate: records.Aside,
	Drop: "the clusters are not told any more what the namespace may publish, until its standing is set again",
}, table.Rules[wire.Publish]{Group: state.InNamespace[wire.Publish]})

// nameTaken is the refusal of an application whose name another namespace has.
// Names are unique at a root, since instances are called by them everywhere; so
// that a name is taken can be learnt, but by whom only by those who may see it.
func nameTaken(who access.Who, old *record.Application) error {
	detail := old.Name + " is the name of another application"
	if state.MaySee(who, old) {
		detail = fmt.Sprintf("%s belongs to namespace %s, and an application cannot change its namespace", old.Name,
			wire.NamespaceOf(old.Spec))
	}
	return wire.Problemf(409, "name-taken", "choose another name for the application", "the name is taken", "%s",
		detail)
}

// MaxNamespaces bounds how many there are.
const MaxNamespaces = 10_000

// CheckStanding brings a standing into the one form.
func CheckStanding(s *wire.Standing) error {
	allow, err := standing.ParseAllow(s.Allow)
	if err != nil {
		return wire.Problemf(422, "bad-standing", "write names joined by +: writable-root+NET_RAW",
			"this cannot be the standing of a namespace", "allow: %v", err)
	}
	s.Allow = allow
	if s.Hosts, err = publish.ParseHosts(s.Hosts); err != nil {
		return wire.Problemf(422, "bad-standing",
			"write names joined by +: shop.example+*.shop.example, or any, or none",
			"this cannot be the standing of a namespace", "hosts: %v", err)
	}
	if s.Ports, err = publish.ParsePorts(s.Ports); err != nil {
		return wire.Problemf(422, "bad-standing", "write ports joined by +: 5432/tcp+6000-6099",
			"this cannot be the standing of a namespace", "ports: %v", err)
	}
	return nil
}

// CheckQuota refuses bounds that could never be passed, or be understood.
func CheckQuota(q wire.Quota) error {
	if err := quota.Check(q); err != nil {
		return wire.Problemf(422, "bad-quota", "name devices as services do: device.camera=2",
			"this cannot be the quota of a namespace", "%v", err)
	}
	return nil
}

// Shorten joins at most most of a list, and says how many more there are.
func Shorten(list []string, most int) string {
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

// SharesOf are the dominant shares of a namespace in the clusters that who asks
// may see, of those in which anything of it runs or is about to.
func SharesOf(m *state.Model, who access.Who, name string) []apiv1.NamespaceShare {
	used := map[string]api.Resources{}
	for _, i := range m.Insts {
		c, app := m.Clusters[i.Cluster], m.Apps[i.App]
		if c == nil || app == nil || wire.NamespaceOf(app.Spec) != name || app.Spec.Services[i.Service] == nil {
			continue
		}
		if rep := c.Seen[i.ID]; rep != nil && !rep.Asleep &&
			(rep.State == wire.Running || rep.State == wire.WorkerScheduled) {
			used[i.Cluster] = amount.Add(used[i.Cluster], app.Spec.Services[i.Service].Resources)
		}
	}
	var out []apiv1.NamespaceShare
	for _, cluster := range records.SortedKeys(used) {
		if access.May(who, access.See, access.Object{Kind: access.Cluster, Name: cluster, Cluster: cluster}) != nil {
			continue
		}
		if share, of := amount.DominantShare(m.Clusters[cluster].View().Aggregate.Capacity, used[cluster]); of != "" {
			out = append(out, apiv1.NamespaceShare{Cluster: cluster, Share: share, Resource: of})
		}
	}
	return out
}

// NotFound returns the error for people who name a namespace that is not known.
func NotFound(name string) error {
	return wire.Problemf(404, "no-such-namespace", "an administrator can make it: verge namespace create "+name,
		"there is no such namespace", "%s is not known", name)
}

// Has says whether there is such a namespace: it has a record, or it needs none.
func Has(m *state.Model, name string) bool {
	if name == api.DefaultNamespace || m.Namespaces[name] != nil {
		return true
	}
	for _, app := range m.Apps {
		if wire.NamespaceOf(app.Spec) == name {
			return true // applied when no record was asked for
		}
	}
	return false
}

// Used is what the applications of each namespace ask for.
func Used(m *state.Model) map[string]wire.Quota {
	out := map[string]wire.Quota{}
	for _, app := range m.Apps {
		ns := wire.NamespaceOf(app.Spec)
		out[ns] = quota.Add(out[ns], quota.Of(app.Spec))
	}
	return out
}

// View is what people are shown of a namespace.
func View(m *state.Model, name string) apiv1.NamespaceView { return Views(m)(name) }

// Views looks once at all applications, for who shows several namespaces.
func Views(m *state.Model) func(name string) apiv1.NamespaceView {
	used, unallowed := Used(m), unallowed(m)
	local, _, _ := AtSites(m)
	return func(name string) apiv1.NamespaceView {
		v := apiv1.NamespaceView{Name: name, Used: quota.Add(used[name], local[name]), AtSites: local[name],
			Unallowed: unallowed[name]}
		if ns := m.Namespaces[name]; ns != nil {
			v.Quota, v.Standing, v.Created, v.By = ns.Quota, ns.Standing, ns.Created, ns.By
		}
		return v
	}
}

// StandingOf of a namespace.
func StandingOf(m *state.Model, name string) wire.Standing {
	if ns := m.Namespaces[name]; ns != nil {
		return ns.Standing
	}
	return wire.Standing{}
}

// ranks says whether the services of an application may have the priorities that they
// are to have. One that is no higher than before is not refused.
func ranks(m *state.Model, app *record.Application) error {
	name := wire.NamespaceOf(app.Spec)
	most := StandingOf(m, name).MaxPriority
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
		if old := m.Apps[app.Name]; old != nil && wire.NamespaceOf(old.Spec) == name &&
			old.Spec.Services[svc] != nil && old.Spec.Services[svc].Priority >= p {
			continue
		}
		highest = max(highest, p)
		over = append(over, fmt.Sprintf("services.%s.priority is %d", svc, p))
	}
	if len(over) == 0 {
		return nil
	}
	raised := StandingOf(m, name) // what is not named would be as it is without
	raised.MaxPriority = highest
	return wire.Problemf(403, "over-priority",
		fmt.Sprintf("lower it, or have the bound raised by an administrator: verge namespace standing %s %s", name,
			raised),
		"nothing was changed: the namespace may not have so high a priority",
		"%s; namespace %s may have %d at most, since its priorities count against other namespaces",
		Shorten(over, 3), name, most)
}

// rights says whether the containers of an application may do what they are to. What
// they could before is not refused.
func rights(m *state.Model, app *record.Application) error {
	if !app.Deleting.IsZero() {
		return nil
	}
	name := wire.NamespaceOf(app.Spec)
	return standing.ForbiddenRights(name, StandingOf(m, name), app.Spec, func(svc string) *api.Service {
		if old := m.Apps[app.Name]; old != nil && wire.NamespaceOf(old.Spec) == name {
			return old.Spec.Services[svc]
		}
		return nil
	})
}

// Fits says whether its namespace lets an application be as it is to be, by its quota,
// the priorities that it may have and what its containers may do.
func Fits(m *state.Model, app *record.Application) error {
	if err := ranks(m, app); err != nil {
		return err
	}
	if err := rights(m, app); err != nil {
		return err
	}
	name := wire.NamespaceOf(app.Spec)
	ns := m.Namespaces[name]
	if ns == nil || ns.Quota.IsZero() || !app.Deleting.IsZero() {
		return nil
	}
	_, local, _ := AtSites(m)
	others, before := local[name], wire.Quota{}
	for _, a := range m.Apps {
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
	return wire.Problemf(403, "over-quota",
		"ask for less, delete something (verge get applications -n "+name+"), or have the quota raised "+
			"(verge namespace quota "+name+")",
		"nothing was changed: the quota of the namespace does not allow it", "namespace %s: %s", name, over)
}

// Admits says whether an application may be applied to its namespace.
func Admits(m *state.Model, who access.Who, app, old *record.Application) error {
	name := wire.NamespaceOf(app.Spec)
	switch {
	case old != nil && wire.NamespaceOf(old.Spec) != name:
		return nameTaken(who, old)
	case !Has(m, name):
		return NotFound(name)
	}
	return Fits(m, app)
}
