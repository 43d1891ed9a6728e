package clusters

import (
	"time"

	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// DrainView says what is still in a cluster.
func DrainView(m *state.Model, name string, now time.Time) rpc.DrainView {
	c := m.Clusters[name]
	v := rpc.DrainView{Left: []rpc.DrainItem{}, Source: state.Tier, AgeSeconds: -1}
	if c.EverHeard {
		v.AgeSeconds = now.Sub(c.Heard).Seconds()
	}
	if c.Draining() {
		v.Cordon = c.Cordon
	}
	t := m.Read()
	all := t.Instances("")
	replaces := map[wire.InstanceID]*wire.Instance{}
	stuck := map[string]string{} // why the next of a service finds no cluster, by app.service
	for _, i := range all {
		if i.Replaces != "" && !i.Draining {
			replaces[i.Replaces] = i
		}
	}
	for _, i := range all {
		if r := replaces[i.ID]; i.Cluster == name && r != nil && r.Cluster == "" && r.Reason != "" {
			stuck[i.App+"."+i.Service] = r.Reason
		}
	}
	for _, i := range all {
		rep := c.Seen[i.ID]
		if i.Cluster != name || rep != nil && rep.State == wire.Terminated && !i.Draining {
			continue
		}
		v.Left = append(v.Left, drainItem(m, i, c, replaces[i.ID], stuck[i.App+"."+i.Service]))
	}
	return v
}

func drainItem(m *state.Model, i *wire.Instance, c *state.Cluster, next *wire.Instance, stuck string) rpc.DrainItem {
	item := rpc.DrainItem{Instance: i.ID}
	switch app := m.Apps[i.App]; {
	case i.Draining:
		item.State, item.Why = "ending", "it stops in its orderly way"
	case app != nil && app.Spec.Services[i.Service] != nil && app.Spec.Services[i.Service].Pins():
		item.State, item.Why = "stays", "it has a volume in that cluster and nowhere else"
	case i.Unreachable || c.Suspect:
		item.State, item.Why = "waiting", "the cluster is away; what it runs ends when it is back"
	case stuck != "":
		item.State, item.Why = "stays", stuck
	case next != nil && next.Cluster != "":
		item.State, item.To, item.Why = "moving", next.Cluster, next.ID+" is not ready yet"
		if cur := m.Merged(next); cur.Reason != "" {
			item.Why += ": " + cur.Reason
		}
	default:
		item.State, item.Why = "waiting", "another of its service moves first"
	}
	return item
}
