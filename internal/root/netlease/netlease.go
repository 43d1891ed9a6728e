package netlease

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/appnumber"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/policy/lease/grant"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// AddressesFree says whether the service addresses that spec fixes are in the pool,
// and no other application's. Who may not see the other is not told which it is.
func AddressesFree(m *state.Model, who access.Who, spec *api.Application) error {
	taken := map[string]string{}
	for name, app := range m.Apps {
		for svc, s := range app.Spec.Services {
			switch {
			case s.ServiceIP == "" || name == spec.Application:
			case state.MaySee(who, app):
				taken[s.ServiceIP] = name + "." + svc
			default:
				taken[s.ServiceIP] = "another application"
			}
		}
	}
	for _, name := range spec.ServiceNames() {
		ip := spec.Services[name].ServiceIP
		if ip == "" {
			continue
		}
		a, err := netip.ParseAddr(ip)
		if net := m.ServiceNetwork(); err != nil || net != nil && !net.Services.Contains(a) {
			pool := lease.DefaultServices
			if net != nil {
				pool = net.Services
			}
			return wire.Problemf(422, "outside-pool", "choose one of "+pool.String()+", or leave service_ip out",
				"a service address is not in the pool of this root", "services.%s.service_ip: %s", name, ip)
		}
		if net := m.ServiceNetwork(); net != nil &&
			(!net.Services.Contains(a.Prev()) || !net.Services.Contains(a.Next())) {
			return wire.Problemf(422, "no-host", "choose another one, or leave service_ip out",
				"a service address is the first or the last of "+net.Services.String()+", which are those of the "+
					"network and its broadcast", "services.%s.service_ip: %s", name, ip)
		}
		if by, ok := taken[ip]; ok {
			return wire.Problemf(409, "address-taken", "choose another one, or leave service_ip out",
				"a service address is taken", "services.%s.service_ip: %s is that of %s already", name, ip, by)
		}
	}
	return nil
}

// Needs of the clusters that may be given something.
func Needs(m *state.Model) map[string]*wire.NetworkNeed {
	out := make(map[string]*wire.NetworkNeed, len(m.Clusters))
	for name, c := range m.Clusters {
		if !c.Revoked.IsZero() {
			continue
		}
		out[name] = nil
		if c.Aggregate != nil {
			out[name] = c.Aggregate.Network
		}
	}
	return out
}

// network as this tx sees it, to be changed with setNetwork.
func network(t *state.Tx) grant.Network {
	return *state.NetworkTable.Get(t.Rows, "")
}

func setNetwork(t *state.Tx, n grant.Network) { state.NetworkTable.Put(t.Rows, "", &n) }

func setLease(t *state.Tx, cluster string, l *wire.ClusterLease) {
	state.LeaseTable.Put(t.Rows, cluster, l)
	t.Nudge[cluster] = true
}

// Grant gives the clusters what they need of the network.
func Grant(t *state.Tx, now time.Time) {
	m := t.Model
	if m.ServiceNetwork() == nil {
		return
	}
	net := network(t)
	if mark := m.Mark(); mark != nil {
		net = net.Leap(state.LeaseTable.Rows(m.DB), mark.At)
	}
	for _, name := range records.SortedKeys(state.LeaseTable.Rows(m.DB)) {
		l, c := state.LeaseTable.Rows(m.DB)[name], m.Clusters[name]
		if c != nil && (l.Key == "" || l.Key == c.KeyHash) {
			continue
		}
		// It was removed, or another node has its name.
		until := now.Add(pki.ClusterTTL)
		if g := m.Gone[l.Key]; g != nil {
			until = g.Until
		}
		net.Rests = append(slices.Clone(net.Rests),
			lease.Rests("cluster "+name, l.Index, l.Numbers, l.Subnets, now.Round(0), until)...)
		setLease(t, name, nil)
	}
	if awake := lease.Awake(net.Rests, now); len(awake) != len(net.Rests) {
		net.Rests = awake
	}
	setNetwork(t, net)
	for name, l := range net.Grant(maps.Collect(state.LeaseTable.All(t.Rows)), Needs(m), m.Mark() != nil, now) {
		l.Key = m.Clusters[name].KeyHash
		setLease(t, name, l)
	}
	relays(t)
}

// relays tells each cluster of those beyond it: the root's, then other clusters'.
func relays(t *state.Tx) {
	all := map[string][]wire.Relay{}
	for name, c := range t.Model.Clusters {
		if c.Aggregate != nil && c.Aggregate.Network != nil {
			all[name] = c.Aggregate.Network.Relays
		}
	}
	names := records.SortedKeys(t.Model.Clusters)
	// Those that have something to say of relays; of a thousand clusters it is a few.
	beyond := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return t.Model.Clusters[name].Aggregate != nil && len(all[name]) == 0
	})
	for _, name := range names {
		l := state.LeaseTable.Get(t.Rows, name)
		if l == nil {
			continue
		}
		var want []wire.Relay
		if Memory(t.Model).Relay != nil {
			want = append(want, *Memory(t.Model).Relay)
		}
		for _, other := range beyond {
			switch {
			case other == name:
			case t.Model.Clusters[other].Aggregate == nil && len(l.Relays) == 0:
			case t.Model.Clusters[other].Aggregate != nil:
				want = append(want, all[other]...)
			default: // not heard since this process started: what it said before
				want = append(want, slices.DeleteFunc(slices.Clone(l.Relays),
					func(r wire.Relay) bool { return !relayOf(r, other) })...)
			}
		}
		want = want[:min(len(want), wire.MaxRelays)]
		if len(want)+len(l.Relays) > 0 && !records.Same(l.Relays, want) {
			next := *l
			next.Relays = want
			setLease(t, name, &next)
		}
	}
}

func relayOf(r wire.Relay, cluster string) bool { return strings.HasPrefix(r.Name, cluster+"/") }

// CheckNeed cuts off what a cluster cannot need, and refuses relays that are not
// its own.
func CheckNeed(n *wire.NetworkNeed, cluster string) {
	if n == nil {
		return
	}
	n.Numbers, n.Subnets = max(n.Numbers, 0), max(n.Subnets, 0)
	n.Relays = slices.DeleteFunc(n.Relays, func(r wire.Relay) bool {
		return !relayOf(r, cluster) || len(r.Name) > state.MaxName || len(r.Key) > state.MaxName ||
			len(r.Addresses) > 8 ||
			slices.ContainsFunc(r.Addresses, func(a string) bool { return len(a) > state.MaxName })
	})
	n.Relays = n.Relays[:min(len(n.Relays), wire.MaxClusterRelays)]
}

// Number gives each application its number: that which its site gave it, where it
// began there, so that what runs keeps its addresses.
func Number(t *state.Tx) {
	if t.Model.ServiceNetwork() == nil {
		return
	}
	var used map[uint32]bool
	for _, name := range records.SortedKeys(t.Model.Apps) {
		app := t.App(name)
		if app == nil || app.Number != 0 || !app.Deleting.IsZero() {
			continue
		}
		if used == nil {
			used = numbers(t)
		}
		next := *app
		if next.Number = siteNumber(t, app, used); next.Number == 0 {
			net := network(t)
			next.Number, net.NextApp = appnumber.Next(net.NextApp, func(n uint32) bool { return used[n] })
			setNetwork(t, net)
		}
		if next.Number == 0 {
			continue // 8 million applications
		}
		used[next.Number] = true
		t.Apps[name] = &next
	}
}

// numbers that applications have, or that routes still say.
func numbers(t *state.Tx) map[uint32]bool {
	used := map[uint32]bool{}
	for _, app := range records.Merged(t.Model.Apps, t.Apps) {
		used[app.Number] = true
	}
	for _, r := range t.Model.Routes {
		used[r.AppNumber] = true
	}
	return used
}

// siteNumber is what a cluster gave an application that began there, 0 if none did.
func siteNumber(t *state.Tx, app *record.Application, used map[uint32]bool) uint32 {
	for _, name := range records.SortedKeys(t.Model.Clusters) {
		c, l := t.Model.Clusters[name], state.LeaseTable.Get(t.Rows, name)
		for _, svc := range app.Spec.ServiceNames() {
			ch := c.Locals[app.Name+"."+svc]
			if ch == nil || l == nil || used[ch.AppNumber] || !appnumber.SiteOwns(l.Index, ch.AppNumber) ||
				ch.Namespace != "" && ch.Namespace != wire.NamespaceOf(app.Spec) {
				continue
			}
			return ch.AppNumber
		}
	}
	return 0
}

// NumberOf an application as this tx sees it.
func NumberOf(t *state.Tx, app string) uint32 {
	if a := t.App(app); a != nil {
		return a.Number
	}
	return 0
}

// AdoptNumber takes over the number under which a cluster runs an application that
// has none here.
func AdoptNumber(t *state.Tx, s *wire.Share) bool {
	app := t.App(s.App)
	if app == nil || app.Number != 0 || s.AppNumber == 0 || s.AppNumber >= 1<<24 || numbers(t)[s.AppNumber] {
		return false
	}
	next := *app
	next.Number = s.AppNumber
	t.Apps[s.App] = &next
	return true
}

// AdoptLease takes over what a cluster has of the network beyond what is known.
func AdoptLease(t *state.Tx, c *state.Cluster) bool {
	if t.Model.ServiceNetwork() == nil || c.Held.Lease == nil {
		return false
	}
	all := maps.Collect(state.LeaseTable.All(t.Rows))
	next := network(t).Adopt(c.Name, c.Held.Lease, all)
	if grant.Known(all[c.Name], next) {
		return false
	}
	next.Key = c.KeyHash
	setLease(t, c.Name, next)
	t.Event(event.ClusterNetwork, c.Name, "it has more of the service network than the backup knows: taken over")
	return true
}

// Endpoint is what other clusters are told of an instance that a cluster reports.
func Endpoint(t *state.Tx, c *state.Cluster, rep *wire.Reported) wire.Endpoint {
	return wire.Endpoint{
		Instance: rep.ID, Cluster: c.Name, Worker: rep.Peer, Address: rep.Address, Relay: rep.Relay,
		Addrs: lease.Ours(state.LeaseTable.Get(t.Rows, c.Name), NumberOf(t, rep.App), rep.Addrs), CPU: rep.CPU,
		Serves: rep.Serves, ServesBy: rep.ServesBy, Trial: rep.Trial, TrialShare: rep.TrialShare,
	}
}

// View is the network as people see it, nil where there is none.
func View(m *state.Model) *apiv1.NetworkView {
	net := m.ServiceNetwork()
	if net == nil {
		return nil
	}
	v := &apiv1.NetworkView{Prefix: net.Prefix, Pool: net.Pool, Services: net.Services,
		Subnets: lease.SubnetsIn(net.Pool)}
	for _, l := range state.LeaseTable.Rows(m.DB) {
		v.Given += block.Count(l.Subnets)
	}
	return v
}

// ClusterView is what a cluster has of it, nil for nothing.
func ClusterView(m *state.Model, c *state.Cluster) *apiv1.ClusterNetwork {
	l := state.LeaseTable.Rows(m.DB)[c.Name]
	if l == nil {
		return nil
	}
	v := &apiv1.ClusterNetwork{Numbers: block.Count(l.Numbers), Subnets: block.Count(l.Subnets)}
	if c.Aggregate != nil && c.Aggregate.Network != nil {
		v.NeedNumbers, v.NeedSubnets, v.Relays = c.Aggregate.Network.Numbers, c.Aggregate.Network.Subnets,
			len(c.Aggregate.Network.Relays)
	}
	return v
}

// Known is what this process knows beside what is stored.
type Known struct {
	Relay *wire.Relay // that the root's host runs; nil: none
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	Clone: func(k *Known) *Known {
		c := *k
		return &c
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
