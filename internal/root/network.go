package root

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

// The service network as the root knows it: what of it each cluster was given, and
// the numbers of applications. What is given is decided by policy/lease.

const (
	networkKey = "network" // lease.Network
	keyLease   = "lease."  // + name + leaseOf: wire.ClusterLease
	leaseOf    = ".net"
)

// network of a model; without a record nothing is given.
type network struct {
	leases map[string]*wire.ClusterLease
	relay  *wire.Relay // that the root's host runs; nil: none
}

// openNetwork makes the network the first time, and takes over other pools as long
// as nobody has any of the old ones. A pool that is not given stays what it is.
func (c *core) openNetwork(ctx context.Context, prefix, pool, services netip.Prefix) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next lease.Network
	if old := c.m.serviceNetwork(); old != nil {
		next = *old
		next.Prefix, next.Pool, next.Services = orElse(prefix, old.Prefix), orElse(pool, old.Pool), orElse(services, old.Services)
	} else {
		var random [5]byte
		rand.Read(random[:]) // it never fails
		next = lease.NewNetwork(random, orElse(pool, lease.DefaultPool), orElse(services, lease.DefaultServices))
		next.Prefix = orElse(prefix, next.Prefix)
	}
	if p := next.Prefix; p.Bits() != 48 || p != p.Masked() || p.Addr().As16()[0] != 0xfd {
		return wire.Problemf(0, "bad-prefix", "write fd, 40 bits of your choice and /48, such as fd12:3456:789a::/48, or leave --network-prefix out", "this prefix of addresses cannot be used", "%s", p)
	}
	if err := lease.CheckPools(next.Pool, next.Services); err != nil {
		return wire.Problemf(0, "bad-pool", "choose others: --network-pool 10.128.0.0/9 --network-services 10.30.0.0/16", "these pools of addresses cannot be used", "%v", err)
	}
	old := c.m.serviceNetwork()
	if old != nil && old.Prefix == next.Prefix && old.Pool == next.Pool && old.Services == next.Services {
		return nil
	}
	if old != nil && old.Prefix != next.Prefix && len(c.m.net.leases) > 0 {
		name := records.SortedKeys(c.m.net.leases)[0]
		return wire.Problemf(0, "prefix-in-use", "start it with --network-prefix "+old.Prefix.String()+" or without; to change it remove the clusters first (verge remove cluster/NAME), and let them join again with empty data directories",
			"the prefix of addresses is in use", "cluster %s has some of %s", name, old.Prefix)
	}
	if old != nil && old.Pool != next.Pool {
		for _, name := range records.SortedKeys(c.m.net.leases) {
			if len(c.m.net.leases[name].Subnets) > 0 {
				return wire.Problemf(0, "pool-in-use", "start it with --network-pool "+old.Pool.String()+"; to change it remove the clusters first (verge remove cluster/NAME), and let them join again with empty data directories",
					"the pool of addresses is in use", "cluster %s has some of %s", name, old.Pool)
			}
		}
		next.Rests = nil
		for _, r := range old.Rests {
			r.Subnets = nil // of the old pool
			next.Rests = append(next.Rests, r)
		}
	}
	t := c.m.begin()
	networkTable.Put(t.rows, "", &next)
	if err := c.keeper.Whole(ctx, t); err != nil {
		return fmt.Errorf("storing the service network: %w", err)
	}
	loop.Poke(c.wake)
	return nil
}

func orElse(p, other netip.Prefix) netip.Prefix {
	if p.IsValid() {
		return p
	}
	return other
}

// SetRelay says that the root's host runs a relay, which all clusters are told of;
// nil: it runs none.
func (r *Root) SetRelay(relay *wire.Relay) {
	r.mu.Lock()
	r.m.net.relay = relay
	r.mu.Unlock()
	loop.Poke(r.wake)
}

// addressesFree says whether the service addresses that spec fixes are in the pool,
// and no other application's. Who may not see the other is not told which it is.
func (m *model) addressesFree(who access.Who, spec *api.Application) error {
	taken := map[string]string{}
	for name, app := range m.apps {
		for svc, s := range app.Spec.Services {
			switch {
			case s.ServiceIP == "" || name == spec.Application:
			case maySee(who, app):
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
		if net := m.serviceNetwork(); err != nil || net != nil && !net.Services.Contains(a) {
			pool := lease.DefaultServices
			if net != nil {
				pool = net.Services
			}
			return wire.Problemf(422, "outside-pool", "choose one of "+pool.String()+", or leave service_ip out", "a service address is not in the pool of this root", "services.%s.service_ip: %s", name, ip)
		}
		if net := m.serviceNetwork(); net != nil && (!net.Services.Contains(a.Prev()) || !net.Services.Contains(a.Next())) {
			return wire.Problemf(422, "no-host", "choose another one, or leave service_ip out", "a service address is the first or the last of "+net.Services.String()+", which are those of the network and its broadcast", "services.%s.service_ip: %s", name, ip)
		}
		if by, ok := taken[ip]; ok {
			return wire.Problemf(409, "address-taken", "choose another one, or leave service_ip out", "a service address is taken", "services.%s.service_ip: %s is that of %s already", name, ip, by)
		}
	}
	return nil
}

// needs of the clusters that may be given something.
func (m *model) needs() map[string]*wire.NetworkNeed {
	out := make(map[string]*wire.NetworkNeed, len(m.clusters))
	for name, c := range m.clusters {
		if !c.Revoked.IsZero() {
			continue
		}
		out[name] = nil
		if c.agg != nil {
			out[name] = c.agg.Network
		}
	}
	return out
}

// network as this tx sees it, to be changed with setNetwork.
func (t *tx) network() lease.Network {
	return *networkTable.Get(t.rows, "")
}

func (t *tx) setNetwork(n lease.Network) { networkTable.Put(t.rows, "", &n) }

// lease of a cluster as this tx sees it; nil if it has none.
func (t *tx) lease(cluster string) *wire.ClusterLease {
	if l, ok := t.leases[cluster]; ok {
		return l
	}
	return t.m.net.leases[cluster]
}

func (t *tx) setLease(cluster string, l *wire.ClusterLease) {
	t.leases[cluster] = l
	t.nudge[cluster] = true
}

// grant gives the clusters what they need of the network.
func (t *tx) grant(now time.Time) {
	m := t.m
	if m.serviceNetwork() == nil {
		return
	}
	net := t.network()
	if mark := m.mark(); mark != nil {
		net = net.Leap(m.net.leases, mark.At)
	}
	for _, name := range records.SortedKeys(m.net.leases) {
		l, c := m.net.leases[name], m.clusters[name]
		if c != nil && (l.Key == "" || l.Key == c.KeyHash) {
			continue
		}
		// It was removed, or another node has its name.
		until := now.Add(pki.ClusterTTL)
		if g := m.gone[l.Key]; g != nil {
			until = g.Until
		}
		net.Rests = append(slices.Clone(net.Rests), lease.Rests("cluster "+name, l.Index, l.Numbers, l.Subnets, now.Round(0), until)...)
		t.setLease(name, nil)
	}
	if awake := lease.Awake(net.Rests, now); len(awake) != len(net.Rests) {
		net.Rests = awake
	}
	t.setNetwork(net)
	left := map[string]*wire.ClusterLease{}
	for name, l := range records.Merged(m.net.leases, t.leases) {
		left[name] = l
	}
	for name, l := range net.Grant(left, m.needs(), m.mark() != nil, now) {
		l.Key = m.clusters[name].KeyHash
		t.setLease(name, l)
	}
	t.relays()
}

// relays tells each cluster of those beyond it: the root's, then other clusters'.
func (t *tx) relays() {
	all := map[string][]wire.Relay{}
	for name, c := range t.m.clusters {
		if c.agg != nil && c.agg.Network != nil {
			all[name] = c.agg.Network.Relays
		}
	}
	names := records.SortedKeys(t.m.clusters)
	// Those that have something to say of relays; of a thousand clusters it is a few.
	beyond := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return t.m.clusters[name].agg != nil && len(all[name]) == 0
	})
	for _, name := range names {
		l := t.lease(name)
		if l == nil {
			continue
		}
		var want []wire.Relay
		if t.m.net.relay != nil {
			want = append(want, *t.m.net.relay)
		}
		for _, other := range beyond {
			switch {
			case other == name:
			case t.m.clusters[other].agg == nil && len(l.Relays) == 0:
			case t.m.clusters[other].agg != nil:
				want = append(want, all[other]...)
			default: // not heard since this process started: what it said before
				want = append(want, slices.DeleteFunc(slices.Clone(l.Relays), func(r wire.Relay) bool { return !relayOf(r, other) })...)
			}
		}
		want = want[:min(len(want), wire.MaxRelays)]
		if len(want)+len(l.Relays) > 0 && !records.Same(l.Relays, want) {
			next := *l
			next.Relays = want
			t.setLease(name, &next)
		}
	}
}

func relayOf(r wire.Relay, cluster string) bool { return strings.HasPrefix(r.Name, cluster+"/") }

// checkNeed cuts off what a cluster cannot need, and refuses relays that are not
// its own.
func checkNeed(n *wire.NetworkNeed, cluster string) {
	if n == nil {
		return
	}
	n.Numbers, n.Subnets = max(n.Numbers, 0), max(n.Subnets, 0)
	n.Relays = slices.DeleteFunc(n.Relays, func(r wire.Relay) bool {
		return !relayOf(r, cluster) || len(r.Name) > maxName || len(r.Key) > maxName || len(r.Addresses) > 8 ||
			slices.ContainsFunc(r.Addresses, func(a string) bool { return len(a) > maxName })
	})
	n.Relays = n.Relays[:min(len(n.Relays), wire.MaxClusterRelays)]
}

// number gives each application its number: that which its site gave it, where it
// began there, so that what runs keeps its addresses.
func (t *tx) number() {
	if t.m.serviceNetwork() == nil {
		return
	}
	var used map[uint32]bool
	for _, name := range records.SortedKeys(t.m.apps) {
		app := t.app(name)
		if app == nil || app.Number != 0 || !app.Deleting.IsZero() {
			continue
		}
		if used == nil {
			used = t.numbers()
		}
		next := *app
		if next.Number = t.siteNumber(app, used); next.Number == 0 {
			net := t.network()
			next.Number, net.NextApp = lease.App(net.NextApp, func(n uint32) bool { return used[n] })
			t.setNetwork(net)
		}
		if next.Number == 0 {
			continue // 8 million applications
		}
		used[next.Number] = true
		t.apps[name] = &next
	}
}

// numbers that applications have, or that routes still say.
func (t *tx) numbers() map[uint32]bool {
	used := map[uint32]bool{}
	for _, app := range records.Merged(t.m.apps, t.apps) {
		used[app.Number] = true
	}
	for _, r := range t.m.routes {
		used[r.AppNumber] = true
	}
	return used
}

// siteNumber is what a cluster gave an application that began there, 0 if none did.
func (t *tx) siteNumber(app *wire.Application, used map[uint32]bool) uint32 {
	for _, name := range records.SortedKeys(t.m.clusters) {
		c, l := t.m.clusters[name], t.lease(name)
		for _, svc := range app.Spec.ServiceNames() {
			ch := c.locals[app.Name+"."+svc]
			if ch == nil || l == nil || used[ch.AppNumber] || !lease.SiteOwns(l.Index, ch.AppNumber) || ch.Namespace != "" && ch.Namespace != wire.NamespaceOf(app.Spec) {
				continue
			}
			return ch.AppNumber
		}
	}
	return 0
}

// numberOf an application as this tx sees it.
func (t *tx) numberOf(app string) uint32 {
	if a := t.app(app); a != nil {
		return a.Number
	}
	return 0
}

// adoptNumber takes over the number under which a cluster runs an application that
// has none here.
func (t *tx) adoptNumber(s *wire.Share) bool {
	app := t.app(s.App)
	if app == nil || app.Number != 0 || s.AppNumber == 0 || s.AppNumber >= 1<<24 || t.numbers()[s.AppNumber] {
		return false
	}
	next := *app
	next.Number = s.AppNumber
	t.apps[s.App] = &next
	return true
}

// adoptLease takes over what a cluster has of the network beyond what is known.
func (t *tx) adoptLease(c *cluster) bool {
	if t.m.serviceNetwork() == nil || c.held.lease == nil {
		return false
	}
	all := map[string]*wire.ClusterLease{}
	for name, l := range records.Merged(t.m.net.leases, t.leases) {
		all[name] = l
	}
	next := t.network().Adopt(c.Name, c.held.lease, all)
	if lease.Known(all[c.Name], next) {
		return false
	}
	next.Key = c.KeyHash
	t.setLease(c.Name, next)
	t.event("cluster/"+c.Name, "it has more of the service network than the backup knows: taken over")
	return true
}

// endpoint is what other clusters are told of an instance that a cluster reports.
func (t *tx) endpoint(c *cluster, rep *wire.Reported) wire.Endpoint {
	return wire.Endpoint{
		Instance: rep.ID, Cluster: c.Name, Worker: rep.Peer, Address: rep.Address, Relay: rep.Relay,
		Addrs: lease.Ours(t.lease(c.Name), t.numberOf(rep.App), rep.Addrs), CPU: rep.CPU, Serves: rep.Serves, ServesBy: rep.ServesBy,
		Trial: rep.Trial, TrialShare: rep.TrialShare,
	}
}

// networkProblems are what people must know about the network.
func (c *core) networkProblems() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m.serviceNetwork() == nil {
		return nil
	}
	return c.m.serviceNetwork().Short(c.m.net.leases, c.m.needs(), c.m.mark() != nil)
}

// networkView is the network as people see it, nil where there is none.
func (m *model) networkView() *wire.NetworkView {
	net := m.serviceNetwork()
	if net == nil {
		return nil
	}
	v := &wire.NetworkView{Prefix: net.Prefix, Pool: net.Pool, Services: net.Services, Subnets: lease.SubnetsIn(net.Pool)}
	for _, l := range m.net.leases {
		v.Given += lease.Count(l.Subnets)
	}
	return v
}

// clusterNetwork is what a cluster has of it, nil for nothing.
func (m *model) clusterNetwork(c *cluster) *wire.ClusterNetwork {
	l := m.net.leases[c.Name]
	if l == nil {
		return nil
	}
	v := &wire.ClusterNetwork{Numbers: lease.Count(l.Numbers), Subnets: lease.Count(l.Subnets)}
	if c.agg != nil && c.agg.Network != nil {
		v.NeedNumbers, v.NeedSubnets, v.Relays = c.agg.Network.Numbers, c.agg.Network.Subnets, len(c.agg.Network.Relays)
	}
	return v
}
