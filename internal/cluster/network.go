package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

// The service network as a cluster knows it: what the root gave it of it, and what
// each of its workers has of that, signed. What is given is decided by policy/lease.
const (
	keyBlocks = "blocks." // + "net": wire.ClusterLease, from the root
	keyLease  = "lease."  // + worker: workerLease
	keyNet    = "net."    // + worker + netOf: wire.Network, for the worker
	netOf     = ".net"
	keyNumber = "number." // + application: siteNumber
	keyLeft   = "netleft" // netLeft
)

// workerLease is what a worker has of the network.
type workerLease struct {
	wire.Lease

	// Key is the worker's (its KeyHash): another node of its name has nothing of it.
	Key string `json:"key,omitempty"`
	// By is the key of the authority that the worker's copy is signed with.
	By string `json:"by"`
	// As is the name in the copy for nodes beyond the cluster; "" where there was none
	// when it was signed.
	As string `json:"as,omitempty"`
}

// siteNumber is the number of an application that began here.
type siteNumber struct {
	V      int    `json:"v"`
	Number uint32 `json:"number"`
	// Namespace of the application.
	Namespace string `json:"namespace,omitempty"`
}

// netLeft is what is given to nobody yet, and where the next number is looked for.
type netLeft struct {
	V       int          `json:"v"`
	Rests   []lease.Rest `json:"rests,omitempty"`
	NextApp uint32       `json:"next_app,omitempty"`
	// Fenced is when the backup was restored for which what was not accounted for
	// began to rest.
	Fenced time.Time `json:"fenced,omitzero"`
}

// network of a model.
type network struct {
	// signs names the key of this cluster's authority; "" signs nothing, and then
	// nobody is given anything.
	signs   string
	leases  map[string]*workerLease
	told    map[string]*wire.Network
	numbers map[string]*siteNumber // by application
	// relayOnly: other clusters are told of a relay instead of workers' addresses.
	relayOnly bool
}

// netChanges are those of a tx; nil deletes.
type netChanges struct {
	leases  map[string]*workerLease
	told    map[string]*wire.Network
	numbers map[string]*siteNumber
}

// blocks of addresses that the root gave; nil: none yet.
func (m *model) blocks() *wire.ClusterLease { return blocksTable.One(m.DB) }

func (m *model) netLeft() netLeft {
	if l := netLeftTable.One(m.DB); l != nil {
		return *l
	}
	return netLeft{}
}

func (t *tx) netLeft() netLeft {
	if l := netLeftTable.Get(t.Rows, ""); l != nil {
		return *l
	}
	return netLeft{}
}

func (t *tx) setLeft(l netLeft) {
	l.V = wire.Version
	if old := t.netLeft(); !records.Same(l, old) {
		netLeftTable.Put(t.Rows, "", &l)
	}
}

// lease of a worker as this tx sees it; nil if it has none.
func (t *tx) lease(worker string) *workerLease {
	if l, ok := t.net.leases[worker]; ok {
		return l
	}
	return t.m.net.leases[worker]
}

// leases brings what the workers have in line with who there is.
func (t *tx) leases(now time.Time) {
	m := t.m
	if m.net.signs == "" || m.blocks() == nil {
		return
	}
	left := t.netLeft()
	left.Rests = lease.Awake(left.Rests, now)
	have := map[string]*wire.Lease{}
	var names []string
	for _, name := range records.SortedKeys(m.net.leases) {
		l, w := t.lease(name), m.Workers[name]
		if w != nil && (l.Key == "" || l.Key == w.KeyHash) {
			have[name] = &l.Lease
			continue
		}
		// It was removed, or another node has its name.
		until := now.Add(pki.LeafTTL + pki.RenewGrace)
		if g := m.Gone[l.Key]; g != nil {
			until = g.Until
		}
		numbers, subnets := lease.Parts(&l.Lease)
		left.Rests = append(slices.Clone(left.Rests), lease.Rests("worker "+name, 0, numbers, subnets, now.Round(0), until)...)
		t.net.leases[name], t.net.told[name] = nil, nil
	}
	if mark := m.Mark(); mark != nil && !left.Fenced.Equal(mark.At) {
		left.Rests = append(slices.Clone(left.Rests), lease.Fence(m.blocks(), have, left.Rests, now.Round(0), now.Round(0).Add(pki.LeafTTL+pki.RenewGrace))...)
		left.Fenced = mark.At
	}
	for name, w := range m.Workers {
		if !w.Revoked.IsZero() && have[name] == nil || m.Unasked(name) && have[name] == nil {
			continue // it may have one, which it says when it is heard
		}
		names = append(names, name)
		if old := t.lease(name); old == nil && w.Info.Lease != nil && w.Info.Lease.Worker == name {
			if l, rests := take(m.blocks(), have, left.Rests, w.Info.Lease); l != nil {
				have[name], left.Rests = l, rests
				t.setLease(name, *l, w)
			}
		}
	}
	t.setLeft(left)
	for name, l := range lease.Assign(m.blocks(), have, left.Rests, names, now) {
		t.setLease(name, *l, m.Workers[name])
	}
	t.tellNetwork()
}

// setLease gives a worker a lease; another one than it had is not signed yet.
func (t *tx) setLease(name string, l wire.Lease, w *state.Worker) {
	t.net.leases[name] = &workerLease{Lease: l, Key: w.KeyHash}
}

// take lets a worker go on with what it says that it has, of what rests because
// this cluster was restored; nil if it cannot.
func take(blocks *wire.ClusterLease, have map[string]*wire.Lease, rests []lease.Rest, l *wire.Lease) (*wire.Lease, []lease.Rest) {
	if !lease.Takes(blocks, have, l) {
		return nil, rests
	}
	numbers, subnets := lease.Parts(l)
	var out []lease.Rest
	for _, r := range rests {
		if r.Of == lease.Unaccounted {
			r.Numbers, r.Subnets = lease.Without(r.Numbers, numbers), lease.Without(r.Subnets, subnets)
		} else if lease.Count(lease.Without(numbers, r.Numbers)) < 1 || len(subnets) > 0 && lease.Count(lease.Without(subnets, r.Subnets)) < 1 {
			return nil, rests // it was taken from somebody since
		}
		if len(r.Numbers)+len(r.Subnets) > 0 {
			out = append(out, r)
		}
	}
	next := *l
	return &next, out
}

// tellNetwork derives what each worker is told. What is signed anew is signed when
// this tx is closed.
func (t *tx) tellNetwork() {
	m := t.m
	all := m.relays()
	for name := range m.Workers {
		l := t.lease(name)
		if l == nil {
			continue
		}
		own := m.relayName(name)
		relays := slices.DeleteFunc(slices.Clone(all), func(r wire.Relay) bool { return r.Name == own })
		old := m.net.told[name]
		signed := old != nil && l.By == m.net.signs && l.As == m.Peer(name)
		if signed && records.Same(old.Relays, relays) {
			continue
		}
		next := &wire.Network{V: wire.Version, Relays: relays}
		if signed {
			next.Lease, next.Away = old.Lease, old.Away
		} else {
			signs := *l
			signs.By, signs.As = m.net.signs, m.Peer(name)
			t.net.leases[name] = &signs
		}
		t.net.told[name] = next
		t.Nudge[name] = true
	}
}

// sign completes what closes a tx: the leases that are new in it.
func (c *core) signLeases(t *tx) {
	for _, name := range records.SortedKeys(t.net.told) {
		n := t.net.told[name]
		if n == nil || n.Lease.Sig != nil {
			continue
		}
		err := errors.New("it is not there")
		if l := t.lease(name); l != nil && c.sign != nil {
			if n.Lease, err = c.sign(l.Lease); err == nil {
				away := l.Lease
				away.Worker = c.m.Peer(name)
				n.Away, err = c.sign(away)
			}
		}
		if err != nil {
			delete(t.net.told, name)
			delete(t.net.leases, name)
			c.log.Error("a lease of the service network cannot be signed", "worker", name, "error", err)
		}
	}
}

// relays in the order in which workers are to try them: those of this cluster, then
// what the root told of.
func (m *model) relays() []wire.Relay {
	out := m.ownRelays()
	if m.blocks() != nil {
		out = append(out, m.blocks().Relays...)
	}
	return out[:min(len(out), wire.MaxRelays)]
}

// ownRelays are the workers that are relays, under the names by which others know
// them.
func (m *model) ownRelays() []wire.Relay {
	var out []wire.Relay
	for _, name := range records.SortedKeys(m.Workers) {
		w := m.Workers[name]
		if w.Info.Network == nil || w.Info.Network.Relay == nil || !w.Revoked.IsZero() || len(out) == wire.MaxClusterRelays {
			continue
		}
		r := *w.Info.Network.Relay
		r.Name, r.Key = m.relayName(name), cut(r.Key, maxName)
		r.Addresses = slices.Clone(r.Addresses[:min(len(r.Addresses), 8)])
		out = append(out, r)
	}
	return out
}

func (m *model) relayName(worker string) string { return m.Name + "/" + m.Peer(worker) }

// shownNetwork is what a worker says of the network, with relays of this cluster under
// the names that people know.
func (m *model) shownNetwork(n *wire.NetworkInfo) *wire.NetworkInfo {
	if n == nil || n.Via == "" {
		return n
	}
	for name := range m.Workers {
		if n.Via == m.relayName(name) {
			said := *n
			said.Via = m.Name + "/" + name
			return &said
		}
	}
	return n
}

// relayOf is the relay through which a worker is reached, "" if none: the one that
// it says, or the first where it has no address at which others reach it.
func (t *tx) relayOf(w *state.Worker) string {
	m, n := t.m, w.Info.Network
	if n == nil || n.Mode != wire.NetworkOverlay {
		return ""
	}
	all := t.relays()
	if n.Via != "" && slices.ContainsFunc(all, func(r wire.Relay) bool { return r.Name == n.Via }) {
		return n.Via
	}
	if w.Info.Address != "" && !m.net.relayOnly || len(all) == 0 {
		return ""
	}
	return all[0].Name
}

// need is what the root is told.
func (m *model) need() *wire.NetworkNeed {
	n := lease.Need(m.blocks(), m.netLeft().Rests, len(m.Workers), time.Time{})
	n.Relays = m.ownRelays()
	return n
}

// networkView is the part of the network that is here, nil for none.
func (m *model) networkView() *wire.NetworkView {
	l := m.blocks()
	if l == nil {
		return nil
	}
	v := &wire.NetworkView{Prefix: l.Prefix, Pool: l.Pool, Services: l.Services, Subnets: lease.Count(l.Subnets)}
	for _, w := range m.net.leases {
		if w.IPv4.IsValid() {
			v.Given++
		}
	}
	return v
}

// withoutIPv4 says in words that workers have none, "" if all have, or nobody has
// asked yet.
func (m *model) withoutIPv4() string {
	n := 0
	for name := range m.Workers {
		if l := m.net.leases[name]; l != nil && !l.IPv4.IsValid() {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return wire.Count(n, "worker") + " without IPv4 in the service network, until the root gives this cluster more of its pool; IPv6 works"
}

// givenNumbers are those that the root has given, by application and namespace.
func (m *model) givenNumbers() map[[2]string]uint32 {
	out := map[[2]string]uint32{}
	for _, r := range m.Far {
		if r.AppNumber != 0 {
			out[[2]string{r.App, cmp.Or(r.Namespace, api.DefaultNamespace)}] = r.AppNumber
		}
	}
	for _, s := range m.Given {
		if s.AppNumber != 0 {
			out[[2]string{s.App, cmp.Or(s.Namespace, api.DefaultNamespace)}] = s.AppNumber
		}
	}
	return out
}

// appNumber is the application in addresses: the root's number for it, or one of
// this cluster's own where it began here. 0 without a service network.
func (t *tx) appNumber(app, namespace string) uint32 {
	m := t.m
	same := func(other string) bool {
		return cmp.Or(other, api.DefaultNamespace) == cmp.Or(namespace, api.DefaultNamespace)
	}
	if n := t.numbers()[[2]string{app, cmp.Or(namespace, api.DefaultNamespace)}]; n != 0 {
		return n
	}
	if m.blocks() == nil {
		return 0
	}
	if n := t.siteNumber(app); n != nil && same(n.Namespace) {
		return n.Number
	}
	if m.Mark() != nil {
		return 0 // a worker that has not been heard yet may know one
	}
	used := t.usedNumbers()
	left := t.netLeft()
	number, next := lease.SiteApp(m.blocks().Index, left.NextApp, func(n uint32) bool { return used[n] })
	if number == 0 {
		return 0
	}
	left.NextApp = next
	t.setLeft(left)
	t.net.numbers[app] = &siteNumber{V: wire.Version, Number: number, Namespace: namespace}
	return number
}

// siteNumber of an application as this tx sees it, nil if it has none.
func (t *tx) siteNumber(app string) *siteNumber {
	if n, ok := t.net.numbers[app]; ok {
		return n
	}
	return t.m.net.numbers[app]
}

// adoptNumber is the number that an instance has in its addresses, 0 if none. What
// its application lost with the backup it has again.
func (t *tx) adoptNumber(s *wire.Share, st wire.InstanceStatus) uint32 {
	blocks := t.m.blocks()
	if blocks == nil {
		return 0
	}
	for _, a := range st.Addrs {
		_, n, _, ok := lease.Parse(blocks.Prefix, a)
		if !ok || n != s.AppNumber && !lease.SiteOwns(blocks.Index, n) {
			continue
		}
		if n != s.AppNumber && t.siteNumber(s.App) == nil && !t.usedNumbers()[n] {
			t.net.numbers[s.App] = &siteNumber{V: wire.Version, Number: n, Namespace: s.Namespace}
		}
		return n
	}
	return 0
}

// usedNumbers are all that something here may still have.
func (t *tx) usedNumbers() map[uint32]bool {
	used := map[uint32]bool{}
	for _, s := range t.m.Given {
		used[s.AppNumber] = true
	}
	for _, r := range t.m.Far {
		used[r.AppNumber] = true
	}
	for _, o := range t.m.Orders {
		used[o.AppNumber] = true
	}
	for _, o := range t.Orders {
		if o != nil {
			used[o.AppNumber] = true
		}
	}
	for _, n := range records.Merged(t.m.net.numbers, t.net.numbers) {
		used[n.Number] = true
	}
	return used
}

// dropNumbers forgets those of applications of which nothing is left here.
func (t *tx) dropNumbers() {
	if len(t.m.net.numbers) == 0 {
		return
	}
	alive := map[string]bool{}
	for _, s := range t.m.Shares {
		alive[s.App] = true
	}
	for _, o := range t.m.Orders {
		alive[o.App] = true
	}
	for app := range t.m.net.numbers {
		if !alive[app] {
			t.net.numbers[app] = nil
		}
	}
}

// orderNumber is the number that an order says: what its incarnation began with,
// since the addresses of what runs do not change.
func (t *tx) orderNumber(i *wire.Instance, s *wire.Share) uint32 {
	if o := t.Ordered(i.Worker + "." + i.ID); o != nil && o.Incarnation == i.Incarnation {
		return o.AppNumber
	}
	return t.appNumber(s.App, s.Namespace)
}

// addrs of an instance on a worker, as far as they are that worker's to give.
func (t *tx) addrs(i *wire.Instance, w *state.Worker) []netip.Addr {
	l := t.lease(w.Info.Name)
	if l == nil {
		return nil
	}
	o := t.Ordered(w.Info.Name + "." + i.ID)
	if o == nil {
		return nil
	}
	if st, ok := w.Status[i.ID]; ok {
		if st.Incarnation != o.Incarnation {
			return nil
		}
		return lease.Mine(&l.Lease, o.AppNumber, st.Addrs)
	}
	if w.EverHeard && w.Inbox.Ack().Inc != "" {
		return nil
	}
	// This process has not heard of it yet: what it said to the one before.
	if r := t.m.Routes[i.App+"."+i.Service]; r != nil {
		for _, e := range r.Endpoints {
			if e.Instance == i.ID && e.Worker == w.Info.Name && e.Cluster == t.m.Name {
				return e.Addrs
			}
		}
	}
	return nil
}

// takeBlocks is what the root has given this cluster of the network. It is never
// taken away: a root that does not know it any more will ask.
func (c *core) takeBlocks(ch wire.Change) (*wire.ClusterLease, error) {
	if ch.Deleted {
		return c.m.blocks(), nil
	}
	var l wire.ClusterLease
	if err := json.Unmarshal(ch.Value, &l); err != nil {
		return nil, err
	}
	if !usable(&l, c.name) {
		c.log.Error("what the root gives of the service network cannot be used and is left out", "cluster", l.Cluster, "prefix", l.Prefix, "pool", l.Pool, "services", l.Services)
		return c.m.blocks(), nil
	}
	return &l, nil
}

// usable says whether a part of the network can be worked with.
func usable(l *wire.ClusterLease, cluster string) bool {
	return l.Cluster == cluster && l.Prefix.IsValid() && l.Prefix.Bits() == 48 && lease.CheckPools(l.Pool, l.Services) == nil && !lease.Has(l.Numbers, 0)
}

// close completes what cannot be decided: what is sealed, and what is signed.
func (c *core) close(ctx context.Context, t *tx) {
	c.m.vault.Seal(ctx, t.Tx, c.store, c.log)
	c.signLeases(t)
}
