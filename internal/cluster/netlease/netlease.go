package netlease

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/appnumber"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// The service network as a cluster knows it: what the root gave it of it, and what
// each of its workers has of that, signed. What is given is decided by policy/lease.
const (
	KeyBlocks = "blocks." // + "net": wire.ClusterLease, from the root
	KeyLease  = "lease."  // + worker: WorkerLease
	KeyNet    = "net."    // + worker + Of: wire.Network, for the worker
	Of        = ".net"
	KeyNumber = "number." // + application: siteNumber
	KeyLeft   = "netleft" // left
)

// WorkerLease is what a worker has of the network.
type WorkerLease struct {
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

// left is what is given to nobody yet, and where the next number is looked for.
type left struct {
	V       int          `json:"v"`
	Rests   []lease.Rest `json:"rests,omitempty"`
	NextApp uint32       `json:"next_app,omitempty"`
	// Fenced is when the backup was restored for which what was not accounted for
	// began to rest.
	Fenced time.Time `json:"fenced,omitzero"`
}

// Tables of the service network. No worker may be told a number or an address that is not
// remembered.
var (
	BlocksTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyBlocks + "net", Fate: records.Holds, With: state.FromRoot,
		Drop: "the blocks of addresses are fetched from the root again",
	}, table.Rules[wire.ClusterLease]{Single: true})
	restTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyLeft, Fate: records.Holds, Ask: true,
		Drop: "addresses that no worker says it has are not given out any more",
	}, table.Rules[left]{Stage: table.First, Single: true, Essential: true})
	NumberTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyNumber, Fate: records.Holds,
		Drop: "the application, which began here, gets another number: what runs of it gets other addresses when it is started again",
	}, table.Rules[siteNumber]{Stage: table.First, Essential: true})
	LeaseTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyLease, Fate: records.Holds, Ask: true,
		Drop: "the worker says itself which addresses it has; one that is away gets others",
	}, table.Rules[WorkerLease]{Stage: table.First, Essential: true, Group: inLease[WorkerLease]})
	ToldTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyNet, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.Network]{Stage: table.First, Essential: true, Group: inLease[wire.Network], Suffix: Of})
)

// maxKey bounds the key that a relay says it has.
const maxKey = 100

// inLease: a lease and what its worker is told of it are stored together.
func inLease[T any](key string, _ *T) string { return "lease/" + key }

// Network is what the cluster itself is in the network.
type Network struct {
	// Signs names the key of this cluster's authority; "" signs nothing, and then nobody is
	// given anything.
	Signs string
	// RelayOnly: other clusters are told of a relay instead of workers' addresses.
	RelayOnly bool
}

// Pass is a transaction with what many of its steps need of the network, which is worked out
// once.
type Pass struct {
	*state.Tx

	net     Network
	relays  func() []wire.Relay
	numbers func() map[[2]string]uint32
}

// Pass returns the network as a transaction sees and changes it.
func (n Network) Pass(t *state.Tx) *Pass {
	return &Pass{
		Tx: t, net: n,
		relays:  sync.OnceValue(func() []wire.Relay { return relays(t.Model) }),
		numbers: sync.OnceValue(func() map[[2]string]uint32 { return givenNumbers(t.Model) }),
	}
}

// Blocks of addresses that the root gave; nil: none yet.
func Blocks(m *state.Model) *wire.ClusterLease { return BlocksTable.One(m.DB) }

// SiteNumber is the number of an application that began here; 0: it has none.
func SiteNumber(m *state.Model, app string) uint32 {
	if n := NumberTable.Rows(m.DB)[app]; n != nil {
		return n.Number
	}
	return 0
}

func (p *Pass) left() left {
	if l := restTable.Get(p.Rows, ""); l != nil {
		return *l
	}
	return left{}
}

func (p *Pass) setLeft(l left) {
	l.V = wire.Version
	if old := p.left(); !records.Same(l, old) {
		restTable.Put(p.Rows, "", &l)
	}
}

// lease of a worker as this tx sees it; nil if it has none.
func (p *Pass) lease(worker string) *WorkerLease { return LeaseTable.Get(p.Rows, worker) }

// Lease brings what the workers have in line with who there is.
func (p *Pass) Lease(now time.Time) {
	m := p.Model
	if p.net.Signs == "" || Blocks(m) == nil {
		return
	}
	left := p.left()
	left.Rests = lease.Awake(left.Rests, now)
	have := map[string]*wire.Lease{}
	var names []string
	for _, name := range records.SortedKeys(LeaseTable.Rows(m.DB)) {
		l, w := p.lease(name), m.Workers[name]
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
		left.Rests = append(slices.Clone(left.Rests),
			lease.Rests("worker "+name, 0, numbers, subnets, now.Round(0), until)...)
		LeaseTable.Changes(p.Rows)[name], ToldTable.Changes(p.Rows)[name] = nil, nil
	}
	if mark := m.Mark(); mark != nil && !left.Fenced.Equal(mark.At) {
		left.Rests = append(slices.Clone(left.Rests),
			lease.Fence(Blocks(m), have, left.Rests, now.Round(0), now.Round(0).Add(pki.LeafTTL+pki.RenewGrace))...)
		left.Fenced = mark.At
	}
	for name, w := range m.Workers {
		if !w.Revoked.IsZero() && have[name] == nil || m.Unasked(name) && have[name] == nil {
			continue // it may have one, which it says when it is heard
		}
		names = append(names, name)
		if old := p.lease(name); old == nil && w.Info.Lease != nil && w.Info.Lease.Worker == name {
			if l, rests := take(Blocks(m), have, left.Rests, w.Info.Lease); l != nil {
				have[name], left.Rests = l, rests
				p.setLease(name, *l, w)
			}
		}
	}
	p.setLeft(left)
	for name, l := range lease.Assign(Blocks(m), have, left.Rests, names, now) {
		p.setLease(name, *l, m.Workers[name])
	}
	p.tell()
}

// setLease gives a worker a lease; another one than it had is not signed yet.
func (p *Pass) setLease(name string, l wire.Lease, w *state.Worker) {
	LeaseTable.Changes(p.Rows)[name] = &WorkerLease{Lease: l, Key: w.KeyHash}
}

// take lets a worker go on with what it says that it has, of what rests because
// this cluster was restored; nil if it cannot.
func take(blocks *wire.ClusterLease, have map[string]*wire.Lease, rests []lease.Rest, l *wire.Lease) (*wire.Lease,
	[]lease.Rest) {
	if !lease.Takes(blocks, have, l) {
		return nil, rests
	}
	numbers, subnets := lease.Parts(l)
	var out []lease.Rest
	for _, r := range rests {
		if r.Of == lease.Unaccounted {
			r.Numbers, r.Subnets = block.Without(r.Numbers, numbers), block.Without(r.Subnets, subnets)
		} else if block.Count(block.Without(numbers, r.Numbers)) < 1 || len(subnets) > 0 &&
			block.Count(block.Without(subnets, r.Subnets)) < 1 {
			return nil, rests // it was taken from somebody since
		}
		if len(r.Numbers)+len(r.Subnets) > 0 {
			out = append(out, r)
		}
	}
	next := *l
	return &next, out
}

// tell derives what each worker is told. What is signed anew is signed when
// this tx is closed.
func (p *Pass) tell() {
	m := p.Model
	all := relays(m)
	for name := range m.Workers {
		l := p.lease(name)
		if l == nil {
			continue
		}
		own := relayName(m, name)
		relays := slices.DeleteFunc(slices.Clone(all), func(r wire.Relay) bool { return r.Name == own })
		old := ToldTable.Rows(m.DB)[name]
		signed := old != nil && l.By == p.net.Signs && l.As == m.Peer(name)
		if signed && records.Same(old.Relays, relays) {
			continue
		}
		next := &wire.Network{V: wire.Version, Relays: relays}
		if signed {
			next.Lease, next.Away = old.Lease, old.Away
		} else {
			signs := *l
			signs.By, signs.As = p.net.Signs, m.Peer(name)
			LeaseTable.Changes(p.Rows)[name] = &signs
		}
		ToldTable.Changes(p.Rows)[name] = next
		p.Nudge[name] = true
	}
}

// Sign signs the leases that are new. One that cannot be signed is tried again with the next
// pass.
func (p *Pass) Sign(sign func(wire.Lease) (wire.SignedLease, error), log *slog.Logger) {
	for _, name := range records.SortedKeys(ToldTable.Changes(p.Rows)) {
		n := ToldTable.Changes(p.Rows)[name]
		if n == nil || n.Lease.Sig != nil {
			continue
		}
		err := errors.New("it is not there")
		if l := p.lease(name); l != nil && sign != nil {
			if n.Lease, err = sign(l.Lease); err == nil {
				away := l.Lease
				away.Worker = p.Model.Peer(name)
				n.Away, err = sign(away)
			}
		}
		if err != nil {
			delete(ToldTable.Changes(p.Rows), name)
			delete(LeaseTable.Changes(p.Rows), name)
			log.Error("a lease of the service network cannot be signed", "worker", name, "error", err)
		}
	}
}

// relays in the order in which workers are to try them: those of this cluster, then
// what the root told of.
func relays(m *state.Model) []wire.Relay {
	out := ownRelays(m)
	if Blocks(m) != nil {
		out = append(out, Blocks(m).Relays...)
	}
	return out[:min(len(out), wire.MaxRelays)]
}

// ownRelays are the workers that are relays, under the names by which others know
// them.
func ownRelays(m *state.Model) []wire.Relay {
	var out []wire.Relay
	for _, name := range records.SortedKeys(m.Workers) {
		w := m.Workers[name]
		if w.Info.Network == nil || w.Info.Network.Relay == nil || !w.Revoked.IsZero() ||
			len(out) == wire.MaxClusterRelays {
			continue
		}
		r := *w.Info.Network.Relay
		r.Name, r.Key = relayName(m, name), r.Key[:min(len(r.Key), maxKey)]
		r.Addresses = slices.Clone(r.Addresses[:min(len(r.Addresses), 8)])
		out = append(out, r)
	}
	return out
}

func relayName(m *state.Model, worker string) string { return m.Name + "/" + m.Peer(worker) }

// Shown is what a worker says of the network, with relays of this cluster under
// the names that people know.
func Shown(m *state.Model, n *wire.NetworkInfo) *wire.NetworkInfo {
	if n == nil || n.Via == "" {
		return n
	}
	for name := range m.Workers {
		if n.Via == relayName(m, name) {
			said := *n
			said.Via = m.Name + "/" + name
			return &said
		}
	}
	return n
}

// RelayOf is the relay through which a worker is reached, "" if none: the one that
// it says, or the first where it has no address at which others reach it.
func (p *Pass) RelayOf(w *state.Worker) string {
	n := w.Info.Network
	if n == nil || n.Mode != wire.NetworkOverlay {
		return ""
	}
	all := p.relays()
	if n.Via != "" && slices.ContainsFunc(all, func(r wire.Relay) bool { return r.Name == n.Via }) {
		return n.Via
	}
	if w.Info.Address != "" && !p.net.RelayOnly || len(all) == 0 {
		return ""
	}
	return all[0].Name
}

// Need is what the root is told.
func Need(m *state.Model) *wire.NetworkNeed {
	var rest []lease.Rest
	if l := restTable.One(m.DB); l != nil {
		rest = l.Rests
	}
	n := lease.Need(Blocks(m), rest, len(m.Workers), time.Time{})
	n.Relays = ownRelays(m)
	return n
}

// View is the part of the network that is here, nil for none.
func View(m *state.Model) *apiv1.NetworkView {
	l := Blocks(m)
	if l == nil {
		return nil
	}
	v := &apiv1.NetworkView{Prefix: l.Prefix, Pool: l.Pool, Services: l.Services, Subnets: block.Count(l.Subnets)}
	for _, w := range LeaseTable.Rows(m.DB) {
		if w.IPv4.IsValid() {
			v.Given++
		}
	}
	return v
}

// WithoutIPv4 says in words that workers have none, "" if all have, or nobody has
// asked yet.
func WithoutIPv4(m *state.Model) string {
	n := 0
	for name := range m.Workers {
		if l := LeaseTable.Rows(m.DB)[name]; l != nil && !l.IPv4.IsValid() {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return wire.Count(n, "worker") + " without IPv4 in the service network, until the root gives this cluster more of its pool; IPv6 works"
}

// givenNumbers are those that the root has given, by application and namespace.
func givenNumbers(m *state.Model) map[[2]string]uint32 {
	out := map[[2]string]uint32{}
	for _, r := range m.Far {
		if r.AppNumber != 0 {
			out[[2]string{r.App, cmp.Or(r.Namespace, api.DefaultNamespace)}] = r.AppNumber
		}
	}
	for _, s := range m.FromRoot {
		if s.AppNumber != 0 {
			out[[2]string{s.App, cmp.Or(s.Namespace, api.DefaultNamespace)}] = s.AppNumber
		}
	}
	return out
}

// AppNumber is the application in addresses: the root's number for it, or one of
// this cluster's own where it began here. 0 without a service network.
func (p *Pass) AppNumber(app, namespace string) uint32 {
	m := p.Model
	same := func(other string) bool {
		return cmp.Or(other, api.DefaultNamespace) == cmp.Or(namespace, api.DefaultNamespace)
	}
	if n := p.numbers()[[2]string{app, cmp.Or(namespace, api.DefaultNamespace)}]; n != 0 {
		return n
	}
	if Blocks(m) == nil {
		return 0
	}
	if n := p.siteNumber(app); n != nil && same(n.Namespace) {
		return n.Number
	}
	if m.Mark() != nil {
		return 0 // a worker that has not been heard yet may know one
	}
	used := p.usedNumbers()
	left := p.left()
	number, next := appnumber.NextAtSite(Blocks(m).Index, left.NextApp, func(n uint32) bool { return used[n] })
	if number == 0 {
		return 0
	}
	left.NextApp = next
	p.setLeft(left)
	NumberTable.Changes(p.Rows)[app] = &siteNumber{V: wire.Version, Number: number, Namespace: namespace}
	return number
}

// siteNumber of an application as this tx sees it, nil if it has none.
func (p *Pass) siteNumber(app string) *siteNumber { return NumberTable.Get(p.Rows, app) }

// AdoptNumber is the number that an instance has in its addresses, 0 if none. What
// its application lost with the backup it has again.
func (p *Pass) AdoptNumber(s *wire.Share, st wire.InstanceStatus) uint32 {
	blocks := Blocks(p.Model)
	if blocks == nil {
		return 0
	}
	for _, a := range st.Addrs {
		_, n, _, ok := lease.Parse(blocks.Prefix, a)
		if !ok || n != s.AppNumber && !appnumber.SiteOwns(blocks.Index, n) {
			continue
		}
		if n != s.AppNumber && p.siteNumber(s.App) == nil && !p.usedNumbers()[n] {
			NumberTable.Changes(p.Rows)[s.App] = &siteNumber{V: wire.Version, Number: n, Namespace: s.Namespace}
		}
		return n
	}
	return 0
}

// usedNumbers are all that something here may still have.
func (p *Pass) usedNumbers() map[uint32]bool {
	used := map[uint32]bool{}
	for _, s := range p.Model.FromRoot {
		used[s.AppNumber] = true
	}
	for _, r := range p.Model.Far {
		used[r.AppNumber] = true
	}
	for _, o := range p.Model.Orders {
		used[o.AppNumber] = true
	}
	for _, o := range p.Orders {
		if o != nil {
			used[o.AppNumber] = true
		}
	}
	for _, n := range NumberTable.All(p.Rows) {
		used[n.Number] = true
	}
	return used
}

// DropNumbers forgets those of applications of which nothing is left here.
func (p *Pass) DropNumbers() {
	if len(NumberTable.Rows(p.Model.DB)) == 0 {
		return
	}
	alive := map[string]bool{}
	for _, s := range p.Model.Shares {
		alive[s.App] = true
	}
	for _, o := range p.Model.Orders {
		alive[o.App] = true
	}
	for app := range NumberTable.Rows(p.Model.DB) {
		if !alive[app] {
			NumberTable.Changes(p.Rows)[app] = nil
		}
	}
}

// OrderNumber is the number that an order says: what its incarnation began with,
// since the addresses of what runs do not change.
func (p *Pass) OrderNumber(i *wire.Instance, s *wire.Share) uint32 {
	if o := p.Ordered(i.Worker + "." + i.ID); o != nil && o.Incarnation == i.Incarnation {
		return o.AppNumber
	}
	return p.AppNumber(s.App, s.Namespace)
}

// Addrs of an instance on a worker, as far as they are that worker's to give.
func (p *Pass) Addrs(i *wire.Instance, w *state.Worker) []netip.Addr {
	l := p.lease(w.Info.Name)
	if l == nil {
		return nil
	}
	o := p.Ordered(w.Info.Name + "." + i.ID)
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
	if r := p.Model.Routes[i.App+"."+i.Service]; r != nil {
		for _, e := range r.Endpoints {
			if e.Instance == i.ID && e.Worker == w.Info.Name && e.Cluster == p.Model.Name {
				return e.Addrs
			}
		}
	}
	return nil
}

// TakeBlocks takes what the root gives this cluster of the network. It is never taken away: a
// root that does not know it any more will ask.
func TakeBlocks(t *state.Tx, ch wire.Change, log *slog.Logger) error {
	if ch.Deleted {
		return nil
	}
	var l wire.ClusterLease
	if err := json.Unmarshal(ch.Value, &l); err != nil {
		return err
	}
	if !usable(&l, t.Model.Name) {
		log.Error("what the root gives of the service network cannot be used and is left out", "cluster", l.Cluster,
			"prefix", l.Prefix, "pool", l.Pool, "services", l.Services)
		return nil
	}
	BlocksTable.Put(t.Rows, "", &l)
	return nil
}

// usable says whether a part of the network can be worked with.
func usable(l *wire.ClusterLease, cluster string) bool {
	return l.Cluster == cluster && l.Prefix.IsValid() && l.Prefix.Bits() == 48 &&
		lease.CheckPools(l.Pool, l.Services) == nil && !block.Has(l.Numbers, 0)
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Network]{
	Clone: func(n *Network) *Network { c := *n; return &c },
})

// NetworkOf is what the cluster of m is in the network.
func NetworkOf(m *state.Model) *Network { return memory.Of(m.DB) }

var scratch = table.AddScratch[Pass](&state.Schema)

// In is the network as the pass that t is of sees it.
func In(t *state.Tx) *Pass {
	return scratch.Of(t.Rows, func() *Pass { return NetworkOf(t.Model).Pass(t) })
}
