package namespaces

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/quota"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What sites change while the root is away is not asked of a quota. When they tell
// of it, it counts: it is shown, it is said where a quota is passed, and as long as
// it is, nothing more is accepted. Nothing is ended for it.

// AtSites is what sites ask for beyond what they were given, by namespace: whole is
// all of it, ours the part that is of applications of this root. Only that keeps
// others from growing: what else runs at a site is the site's word alone.
func AtSites(m *state.Model) (whole, ours map[string]wire.Quota, where map[string][]string) {
	whole, ours, where = map[string]wire.Quota{}, map[string]wire.Quota{}, map[string][]string{}
	for _, name := range records.SortedKeys(m.Clusters) {
		for _, key := range records.SortedKeys(m.Clusters[name].Locals) {
			l := m.Clusters[name].Locals[key]
			app, ns := m.Apps[l.App], cmp.Or(l.Namespace, api.DefaultNamespace)
			given, base := 0, quota.Each{}
			if s := m.Shares[name+"."+key]; s != nil && app != nil {
				given, base = s.Min, quota.Needs(s.Spec)
			}
			n := quota.More(min(l.Replicas, api.MaxReplicas), quota.Each{Resources: l.Needs, Devices: l.Devices},
				given, base)
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

// OverQuota says in words that a namespace is over its quota, and by whose doing; ""
// if it is not.
func OverQuota(m *state.Model, name string, used wire.Quota, where []string) string {
	ns := m.Namespaces[name]
	if ns == nil {
		return ""
	}
	over := quota.Over(ns.Quota, used)
	if over == "" {
		return ""
	}
	text := fmt.Sprintf("namespace %s is over its quota, and nothing more is accepted in it: %s", name, over)
	if len(where) > 0 {
		text += "; changes at sites are in that: cluster " + Shorten(where, 5) + " (verge local)"
	}
	return text
}
