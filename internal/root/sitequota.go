package root

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/quota"
	"github.com/verge-edge/verge/internal/wire"
)

// What sites change while the root is away is not asked of a quota. When they tell
// of it, it counts: it is shown, it is said where a quota is passed, and as long as
// it is, nothing more is accepted. Nothing is ended for it.

// atSites is what sites ask for beyond what they were given, by namespace: whole is
// all of it, ours the part that is of applications of this root. Only that keeps
// others from growing: what else runs at a site is the site's word alone.
func (m *model) atSites() (whole, ours map[string]wire.Quota, where map[string][]string) {
	whole, ours, where = map[string]wire.Quota{}, map[string]wire.Quota{}, map[string][]string{}
	for _, name := range records.SortedKeys(m.clusters) {
		for _, key := range records.SortedKeys(m.clusters[name].locals) {
			l := m.clusters[name].locals[key]
			app, ns := m.apps[l.App], cmp.Or(l.Namespace, api.DefaultNamespace)
			given, base := 0, quota.Each{}
			if s := m.shares[name+"."+key]; s != nil && app != nil {
				given, base = s.Min, quota.Needs(s.Spec)
			}
			n := quota.More(min(l.Replicas, api.MaxReplicas), quota.Each{Resources: l.Needs, Devices: l.Devices}, given, base)
			if app != nil {
				ns = wire.NamespaceOf(app.Spec)
				ours[ns] = quota.Add(ours[ns], n)
			}
			if n.IsZero() {
				continue
			}
			whole[ns] = quota.Add(whole[ns], n)
			if !slices.Contains(where[ns], name) {
				where[ns] = append(where[ns], name)
			}
		}
	}
	return whole, ours, where
}

// overQuota says in words that a namespace is over its quota, and by whose doing; ""
// if it is not.
func (m *model) overQuota(name string, used wire.Quota, where []string) string {
	ns := m.namespaces[name]
	if ns == nil {
		return ""
	}
	over := quota.Over(ns.Quota, used)
	if over == "" {
		return ""
	}
	text := fmt.Sprintf("namespace %s is over its quota, and nothing more is accepted in it: %s", name, over)
	if len(where) > 0 {
		text += "; changes at sites are in that: cluster " + shorten(where, 5) + " (verge local)"
	}
	return text
}

// quotaProblems are the namespaces that are over their quota, of those that who asks
// may see.
func (c *core) quotaProblems(ctx context.Context) (problems []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.m.used()
	whole, _, where := c.m.atSites()
	for _, name := range records.SortedKeys(c.m.namespaces) {
		if access.May(access.From(ctx), access.See, access.Object{Kind: access.Namespace, Name: name, Namespace: name}) != nil {
			continue
		}
		if text := c.m.overQuota(name, quota.Add(used[name], whole[name]), where[name]); text != "" {
			problems = append(problems, text)
		}
	}
	return problems
}

// tellQuota makes an event where a change at a site brings a namespace over its
// quota, or changes by how much.
func (c *core) tellQuota(app, namespace string, now time.Time) {
	name := cmp.Or(namespace, api.DefaultNamespace)
	if a := c.m.apps[app]; a != nil {
		name = wire.NamespaceOf(a.Spec)
	}
	if c.m.namespaces[name] == nil {
		return
	}
	whole, _, where := c.m.atSites()
	if text := c.m.overQuota(name, quota.Add(c.m.used()[name], whole[name]), where[name]); text != "" {
		c.events.Add(now, tier, "namespace/"+name, text)
	}
}
