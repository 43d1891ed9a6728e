package consult

import (
	"net/url"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/plugin"
)

// PluginViews are the plugins that are registered, and those as which somebody has
// joined. The caller has the model.
func PluginViews(c *core.Core, now time.Time) []apiv1.PluginView {
	views := map[string]*apiv1.PluginView{}
	for name, p := range Memory(c.M).Plugins {
		b := advisor.Memory(c.M).Breakers[name]
		v := &apiv1.PluginView{
			Name: name, Cluster: c.ClusterName, Registered: true, Address: shown(p.Config.URL), Joint: p.Config.Joint,
			Default: c.M.Scheduler == state.PluginDefault+name,
			Open:    p.Open, Spared: p.Spared, Last: p.Last, Failure: p.Failure, Failed: b.Failed, Resting: b.Open(),
		}
		if b.Open() && now.Before(b.Until) {
			v.Until = b.Until.Round(0)
		}
		for result, n := range p.Calls {
			if n > 0 {
				if v.Calls == nil {
					v.Calls = map[string]uint64{}
				}
				v.Calls[result] = n
			}
		}
		views[name] = v
	}
	for _, s := range c.M.Shares {
		if _, name := state.SchedulerOf(c.M, s); views[name] != nil {
			views[name].Services++
		}
	}
	for _, key := range records.SortedKeys(advisor.Members.Rows(c.M.DB)) {
		name, m := pluginOf(key), advisor.Members.Rows(c.M.DB)[key]
		if views[name] == nil {
			views[name] = &apiv1.PluginView{Name: name, Cluster: c.ClusterName}
		}
		views[name].Identities = append(views[name].Identities,
			apiv1.PluginIdentity{ID: m.KeyHash[:min(len(m.KeyHash), 12)], Joined: m.Joined, Expires: m.Expires})
	}
	var out []apiv1.PluginView
	for _, name := range records.SortedKeys(views) {
		out = append(out, *views[name])
	}
	return out
}

// shown is the address of a plugin without what may be a secret.
func shown(address string) string {
	u, err := plugin.CheckURL(address)
	if err != nil {
		return ""
	}
	if address == plugin.OnBus {
		return address
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
