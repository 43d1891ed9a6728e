package clusters

import (
	"cmp"
	"context"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/quota"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// QuotaProblems are the namespaces that are over their quota, of those that who asks
// may see.
func QuotaProblems(ctx context.Context, c *core.Core) []string {
	return core.View(c, func(m *state.Model) (problems []string) {
		used := namespaces.Used(m)
		whole, _, where := namespaces.AtSites(m)
		for _, name := range records.SortedKeys(m.Namespaces) {
			if access.May(access.From(ctx), access.See,
				access.Object{Kind: access.Namespace, Name: name, Namespace: name}) != nil {
				continue
			}
			if text := namespaces.OverQuota(m, name, quota.Add(used[name], whole[name]), where[name]); text != "" {
				problems = append(problems, text)
			}
		}
		return problems
	})
}

// tellQuota makes an event where a change at a site brings a namespace over its
// quota, or changes by how much.
func tellQuota(c *core.Core, app, namespace string, now time.Time) {
	name := cmp.Or(namespace, api.DefaultNamespace)
	if a := c.M.Apps[app]; a != nil {
		name = wire.NamespaceOf(a.Spec)
	}
	if c.M.Namespaces[name] == nil {
		return
	}
	whole, _, where := namespaces.AtSites(c.M)
	if text := namespaces.OverQuota(c.M, name, quota.Add(namespaces.Used(c.M)[name], whole[name]),
		where[name]); text != "" {
		c.EventRing.Note(now, event.NamespaceOverQuota, name, text)
	}
}
