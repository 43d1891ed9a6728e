package cluster

import (
	"context"
	"net/url"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
)

// Plugins implements rest.Backend.
func (b backend) Plugins(context.Context) ([]wire.PluginView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pluginViews(time.Now()), nil
}

// pluginViews are the plugins that are registered, and those as which somebody has
// joined. The mutex is held.
func (c *core) pluginViews(now time.Time) []wire.PluginView {
	views := map[string]*wire.PluginView{}
	for name, p := range c.plugins {
		b := c.m.breakers[name]
		v := &wire.PluginView{
			Name: name, Cluster: c.name, Registered: true, Address: shown(p.config.URL), Joint: p.config.Joint, Default: c.m.byDefault == pluginDefault+name,
			Open: p.open, Spared: p.spared, Last: p.last, Failure: p.failure, Failed: b.Failed, Resting: b.Open(),
		}
		if b.Open() && now.Before(b.Until) {
			v.Until = b.Until.Round(0)
		}
		for result, n := range p.calls {
			if n > 0 {
				if v.Calls == nil {
					v.Calls = map[string]uint64{}
				}
				v.Calls[result] = n
			}
		}
		views[name] = v
	}
	for _, s := range c.m.Shares {
		if _, name := c.m.schedulerOf(s); views[name] != nil {
			views[name].Services++
		}
	}
	for _, key := range records.SortedKeys(c.m.members) {
		name, m := pluginOf(key), c.m.members[key]
		if views[name] == nil {
			views[name] = &wire.PluginView{Name: name, Cluster: c.name}
		}
		views[name].Identities = append(views[name].Identities, wire.PluginIdentity{ID: m.KeyHash[:min(len(m.KeyHash), 12)], Joined: m.Joined, Expires: m.Expires})
	}
	var out []wire.PluginView
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
