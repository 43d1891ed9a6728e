package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/wire"
)

// MaxPeers at a time; further ones are refused until another is idle.
const MaxPeers = 1024

// keepalive of a peer behind NAT, or of one that this side's NAT must let in: the
// usual time of NATs for UDP is 30 s.
const keepalive = 25 * time.Second

// Device is what is needed of a wg.Device.
type Device interface {
	Public() wg.Key
	Port() (uint16, error)
	Set(p wg.Peer) error
	Remove(k wg.Key) error
	Nudge(k wg.Key) error
	Widen(k wg.Key, wide bool) error
	Peers() (map[wg.Key]wg.Status, error)
}

// Options of a Manager.
type Options struct {
	// Cluster and Worker are this one's.
	Cluster, Worker string
	Device          Device
	// Question sends one question over the data path to the worker that has an
	// address; nil is returned when it was answered, within the context.
	Question func(ctx context.Context, inner netip.Addr) error
	// Wide says whether the largest packets of the device reach the worker that has an
	// address; nil: they are not to be tried.
	Wide func(ctx context.Context, inner netip.Addr) bool
	// Listen opens the UDP socket at an address of this worker in the service network;
	// nil is net.ListenUDP.
	Listen func(at netip.AddrPort) (*net.UDPConn, error)
	// TLS is the worker's identity for both directions, PeerName the name in another
	// one's certificate: as for the data port.
	TLS      func() (*tls.Config, error)
	PeerName func(cluster, worker string) string
	// Away is TLS towards other clusters and relays, to which this worker shows another
	// name, if it has one for them: Hidden. nil: it has none.
	Away   func() (*tls.Config, error)
	Hidden func() bool
	// RelayName is the name in the certificate of a relay.
	RelayName func(relay string) string
	// Verify returns the lease of the worker with a certificate chain, if it is its
	// own and the worker may come in.
	Verify func(chain []*x509.Certificate, s wire.SignedLease) (wire.Lease, error)
	// Refused returns why a worker with a certificate chain is revoked, nil if it is accepted;
	// nil: all are.
	Refused func(chain []*x509.Certificate) error
	// Local are the addresses of this machine; nil is those of its interfaces.
	Local func() []netip.Addr
	// Advertise are further addresses at which others may reach this worker.
	Advertise []netip.Addr
	// StateFile remembers paths over restarts; "" does not.
	StateFile string
	// Gone is called, without any lock, when a worker is no longer a peer.
	Gone func(cluster, worker string)
	// Changed is called, without any lock, after a path or this worker's relay has
	// changed.
	Changed func()
	// Log; nil is slog's default.
	Log *slog.Logger
}

// Network is this worker's place, as its cluster has given it.
type Network struct {
	Lease  wire.Lease
	Signed wire.SignedLease
	// Away is the same lease under the name for others; zero: none.
	Away wire.SignedLease
	// Inner is the worker's own address in the service network.
	Inner netip.Addr
	// Relays in the order in which they are to be tried.
	Relays []wire.Relay
}

// Target is a worker to be reached.
type Target struct {
	Cluster, Worker string
	// Address of its data port, host:port; "" if others cannot reach it.
	Address string
	// Relay at which it can be asked for; "" if it named none.
	Relay string
	// Number of its lease; 0: not known.
	Number uint32
}

type id struct{ cluster, worker string }

// known is a worker that is a peer or shall become one.
type known struct {
	path
	target    Target
	acc       *accepted // what it offered; nil: nothing yet
	relayName string    // of the relay whose way path.relay is
	why       string    // why the path is not direct
	// changed is when something was last set at the device: what was read of it
	// before means nothing.
	changed  time.Time
	endTry   context.CancelFunc // of the round under way; nil: none
	aimed    uint64             // what had come when a candidate was last aimed at
	offering bool
	// Whether large packets arrive is found out after the path has become another one.
	widths    retry
	measuring bool
}

// place is a Network that was taken up.
type place struct {
	Network
	lease wire.Lease
}

// Manager keeps the paths. It is safe for concurrent use.
type Manager struct {
	opts Options
	log  *slog.Logger
	bell chan struct{}
	jobs chan struct{} // a slot for each job at a time

	mu    sync.Mutex // guards below
	own   *place
	peers map[id]*known
	home  home
	memo  *memory
	dirty bool                        // Changed is to be called
	spawn func(func(context.Context)) // nil: not running
}

// New makes a Manager; see Run.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Local == nil {
		o.Local = interfaceAddrs
	}
	if o.Listen == nil {
		o.Listen = func(at netip.AddrPort) (*net.UDPConn, error) {
			return net.ListenUDP("udp6", net.UDPAddrFromAddrPort(at))
		}
	}
	if o.Refused == nil {
		o.Refused = func([]*x509.Certificate) error { return nil }
	}
	if o.Hidden == nil || o.Away == nil {
		o.Hidden, o.Away = func() bool { return false }, o.TLS
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Gone == nil {
		o.Gone = func(string, string) {}
	}
	return &Manager{
		opts: o, log: o.Log, bell: make(chan struct{}, 1), jobs: make(chan struct{}, 32),
		peers: map[id]*known{}, memo: openMemory(o.StateFile, o.Log),
	}
}

// ring has the loop look at once.
func (m *Manager) ring() {
	select {
	case m.bell <- struct{}{}:
	default:
	}
}

// SetNetwork says what this worker's place is. Peers stay.
func (m *Manager) SetNetwork(n Network) {
	m.mu.Lock()
	m.own = &place{n, n.Lease}
	m.mu.Unlock()
	m.ring()
}

// Want says that there is traffic for a worker, or will be. It is cheap where the
// worker is a peer already, and never waits.
func (m *Manager) Want(t Target) {
	if t.Cluster == m.opts.Cluster && t.Worker == m.opts.Worker {
		return
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[id{t.Cluster, t.Worker}]
	if k != nil {
		k.target, k.wanted = t, now
		return
	}
	if len(m.peers) >= MaxPeers {
		m.log.Warn("there are too many peers for another one", "cluster", t.Cluster, "worker", t.Worker, "peers",
			len(m.peers))
		return
	}
	m.peers[id{t.Cluster, t.Worker}] = &known{path: newPath(now, seedOf(t.Cluster, t.Worker)), target: t}
	m.ring()
}

// Reaches says whether packets for an address of a worker arrive there now.
func (m *Manager) Reaches(cluster, worker string, at netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[id{cluster, worker}]
	return k != nil && k.acc != nil && k.kind != wire.PathNone &&
		slices.ContainsFunc(k.acc.allowed, func(p netip.Prefix) bool { return p.Contains(at) })
}

// Lost says whether a worker has lost its only path, and since when.
func (m *Manager) Lost(cluster, worker string) (since time.Time, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[id{cluster, worker}]
	if k == nil || k.acc == nil || k.kind != wire.PathNone || k.lastSeen.IsZero() {
		return time.Time{}, false
	}
	return k.since, true
}

// PeersChanged says that Refused may refuse more than before. Peers that it refuses now are
// removed at once, and so are those of an earlier process that have not reported since.
func (m *Manager) PeersChanged() {
	status, err := m.opts.Device.Peers()
	if err != nil {
		m.log.Warn("the WireGuard device cannot be read", "error", err)
	}
	m.mu.Lock()
	var gone []id
	for who, k := range m.peers {
		if k.acc == nil {
			continue
		}
		delete(status, k.acc.key)
		if err := m.opts.Refused(k.acc.chain); err != nil {
			m.log.Warn("a worker counts no more", "cluster", who.cluster, "worker", who.worker, "why", err)
			gone = append(gone, who)
		}
	}
	for key := range status {
		if _, guest := m.home.guests[key]; guest || m.home.key == key {
			continue
		}
		if err := m.opts.Device.Remove(key); err != nil {
			m.log.Warn("a peer cannot be removed", "error", err)
		}
	}
	m.mu.Unlock()
	for _, who := range gone {
		m.drop(who)
	}
}

// Inner is a worker's own address in the service network; false where packets do not
// arrive there now.
func (m *Manager) Inner(cluster, worker string) (netip.Addr, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[id{cluster, worker}]
	if k == nil || k.acc == nil || k.kind == wire.PathNone {
		return netip.Addr{}, false
	}
	return k.acc.Inner, true
}

var errFull = errors.New("there are too many peers here")

// admit makes who offered a peer of the device.
func (m *Manager) admit(a accepted) error {
	status, err := m.opts.Device.Peers()
	if err != nil {
		return err
	}
	now := time.Now()
	who := a.who
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.opts.Refused(a.chain); err != nil {
		return err
	}
	for other, k := range m.peers {
		if other == who || k.acc == nil {
			continue
		}
		if k.acc.key == a.key {
			return fmt.Errorf("worker %s of cluster %s has the same WireGuard key", other.worker, other.cluster)
		}
		for _, p := range a.allowed {
			if slices.ContainsFunc(k.acc.allowed, p.Overlaps) {
				return fmt.Errorf("its network %s is that of worker %s of cluster %s", p, other.worker, other.cluster)
			}
		}
	}
	k := m.peers[who]
	if k == nil {
		if len(m.peers) >= MaxPeers {
			return errFull
		}
		k = &known{path: newPath(now, seedOf(who.cluster, who.worker)),
			target: Target{Cluster: who.cluster, Worker: who.worker}}
		m.peers[who] = k
	}
	// A session with a restarted peer is useless, and WireGuard would keep trying it for 15
	// seconds before a handshake.
	anew := k.acc != nil && k.kind == wire.PathNone && k.unheard(now) > deadAfter && status[k.acc.key].Rx == k.rx
	if k.acc != nil && k.acc.key != a.key {
		k.lost(now)
		anew = true
	}
	if anew {
		if err := m.opts.Device.Remove(k.acc.key); err != nil {
			return err
		}
		k.rx, k.tx, k.changed = 0, 0, now
	}
	p := m.peer(&a)
	if k.acc == nil || anew {
		if p.Endpoint = k.back(now); !p.Endpoint.IsValid() {
			if c := m.candidates(&a); len(c) > 0 {
				p.Endpoint = c[0]
			}
		}
	}
	if err := m.opts.Device.Set(p); err != nil {
		return err
	}
	if k.acc == nil {
		k.changed = now
	}
	k.acc, k.offered, k.wanted, k.met = &a, true, now, now
	if len(a.Relays) > 0 && k.target.Relay == "" {
		k.target.Relay = a.Relays[0]
	}
	if k.kind == wire.PathNone {
		k.tries = retry{}
		if own := m.opts.Device.Public(); bytes.Compare(own[:], a.key[:]) > 0 {
			k.tries.next = now.Add(courtesy)
		}
		// Where the data port answers, WireGuard's will mostly do so too.
		if k.asks = (retry{}); a.from.IsValid() {
			k.asks.next = now.Add(relayDelay)
		}
		k.offers = retry{n: 2, next: now.Add(15 * time.Second)}
	}
	return nil
}

// Run keeps the paths until ctx is done; peers of the device stay. It is called
// once.
func (m *Manager) Run(ctx context.Context) {
	var wg sync.WaitGroup
	m.mu.Lock()
	m.spawn = func(f func(context.Context)) { wg.Go(func() { f(ctx) }) }
	m.mu.Unlock()
	defer wg.Wait()
	defer func() {
		m.mu.Lock()
		m.spawn = nil
		m.mu.Unlock()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.bell:
		}
		if next := m.step(time.Now()); next > 0 {
			timer.Reset(next)
		} else {
			timer.Stop() // nothing to look after: until the bell rings
		}
	}
}

// step looks at all once and says when to look again; 0: when something happens.
func (m *Manager) step(now time.Time) time.Duration {
	m.mu.Lock()
	idle := m.own == nil || len(m.peers) == 0 && len(m.own.Relays) == 0
	m.mu.Unlock()
	if idle {
		return 0
	}
	taken := time.Now()
	status, err := m.opts.Device.Peers()
	if err != nil {
		m.log.Warn("the WireGuard device cannot be read", "error", err)
		return lookAt
	}
	m.mu.Lock()
	next := m.stepHome(now, status)
	var gone []id
	for who, k := range m.peers {
		d := m.stepPeer(now, who, k, status, taken)
		if d.drop {
			gone = append(gone, who)
			continue
		}
		if next == 0 || d.next < next {
			next = d.next
		}
	}
	dirty := m.dirty
	m.dirty = false
	m.mu.Unlock()
	for _, who := range gone {
		m.drop(who)
	}
	if dirty {
		m.opts.Changed()
	}
	return next
}

// stepPeer decides about one peer and begins what is to be done. The mutex is
// held.
func (m *Manager) stepPeer(now time.Time, who id, k *known, status map[wg.Key]wg.Status, taken time.Time) todo {
	s := seen{rx: k.rx, tx: k.tx}
	if k.acc != nil && taken.After(k.changed) {
		st := status[k.acc.key]
		s = seen{st.Endpoint, st.Handshake, st.Rx, st.Tx}
	}
	before := k.kind
	d := k.step(now, s, len(m.relaysOf(k)) > 0)
	if k.kind != before {
		m.note(who, k, before)
	}
	if d.drop {
		return d
	}
	if d.use.IsValid() {
		m.use(k, d.use)
	}
	if d.question {
		inner := k.acc.Inner
		m.job(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, askAgain)
			defer cancel()
			_ = m.opts.Question(ctx, inner) // the device sees the answer
		}, nil)
	}
	if d.offer && !k.offering {
		k.offering = true
		to := k.target
		m.job(func(ctx context.Context) { m.offerTo(ctx, who, to) }, func() { k.offering = false })
	}
	if d.channel {
		relays := m.relaysOf(k)
		m.job(func(ctx context.Context) { m.channel(ctx, who, relays) }, func() { k.asking = false })
	}
	if m.opts.Wide != nil && k.kind != wire.PathNone && k.acc != nil && !k.measuring && k.widths.n < maxWidths &&
		k.widths.due(now) {
		k.measuring = true
		key, inner := k.acc.key, k.acc.Inner
		m.job(func(ctx context.Context) { m.widen(ctx, who, key, inner) }, func() { k.measuring = false })
	}
	if d.pause {
		relays := m.relaysNamed(k.relayName)
		m.job(func(ctx context.Context) { m.pause(ctx, who, relays[:min(1, len(relays))]) }, nil)
	}
	if d.try {
		t := m.round(k)
		m.job(func(ctx context.Context) { m.tryDirectly(ctx, who, t) }, func() { k.trying = false })
	}
	if before == wire.PathRelay && k.kind == wire.PathNone && k.relayName == m.home.relay.Name {
		m.home.hello = time.Time{} // is the relay still there?
	}
	return d
}

// job runs f, unless too much is under way: then undo is called and the next step
// decides again. The mutex is held.
func (m *Manager) job(f func(context.Context), undo func()) {
	select {
	case m.jobs <- struct{}{}:
	default:
		if undo != nil {
			undo()
		}
		return
	}
	if m.spawn == nil { // Run has ended
		<-m.jobs
		if undo != nil {
			undo()
		}
		return
	}
	m.spawn(func(ctx context.Context) {
		defer m.ring()
		defer func() { <-m.jobs }()
		f(ctx)
	})
}

// use sends what is for a peer to an endpoint from now on. The mutex is held.
func (m *Manager) use(k *known, at netip.AddrPort) {
	defer func() { k.changed = time.Now() }()
	if err := m.opts.Device.Set(wg.Peer{Key: k.acc.key, Endpoint: at}); err != nil {
		m.log.Warn("the endpoint of a peer cannot be set", "worker", k.target.Worker, "error", err)
	}
}

// anew makes the peer one without a session. The endpoint is set with it: a
// handshake that cannot be sent would hold up the next one. The mutex is held.
func (m *Manager) anew(k *known, at netip.AddrPort) {
	p := m.peer(k.acc)
	p.Endpoint = at
	err := m.opts.Device.Remove(k.acc.key)
	if err == nil {
		err = m.opts.Device.Set(p)
	}
	if err != nil {
		m.log.Warn("a peer cannot be set anew", "worker", k.target.Worker, "error", err)
	}
	k.rx, k.tx, k.changed = 0, 0, time.Now()
}

// peer of the device, without an endpoint. The mutex is held.
func (m *Manager) peer(a *accepted) wg.Peer {
	p := wg.Peer{Key: a.key, Allowed: a.allowed, Keepalive: -1}
	if a.NAT || m.home.nat {
		p.Keepalive = keepalive
	}
	return p
}

// note says that a path has changed. The mutex is held.
func (m *Manager) note(who id, k *known, before string) {
	m.log.Info("path to a worker", "cluster", who.cluster, "worker", who.worker, "path", k.kind, "before", before,
		"direct", k.direct.String(), "relay", k.relayName)
	m.dirty = true
	k.widths = retry{}
	if k.kind == wire.PathDirect {
		k.why = ""
		if m.memo.remember(who, k.direct) {
			m.job(func(context.Context) { m.memo.save() }, nil)
		}
	}
}

// widen finds out whether large packets reach a peer.
func (m *Manager) widen(ctx context.Context, who id, key wg.Key, inner netip.Addr) {
	began := time.Now()
	wide := m.opts.Wide(ctx, inner)
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[who]
	if k == nil {
		return
	}
	k.measuring = false
	if ctx.Err() != nil || k.acc == nil || k.acc.key != key || k.kind == wire.PathNone || k.since.After(began) {
		return // of another path: the next step sees to it
	}
	k.widths.tried(time.Now(), firstWidth, slowestWidth, k.seed)
	if wide {
		k.widths.n = maxWidths
	}
	if err := m.opts.Device.Widen(key, wide); err != nil {
		m.log.Warn("routes to a peer keep their packets small", "worker", who.worker, "error", err)
	}
	m.log.Debug("large packets to a worker", "cluster", who.cluster, "worker", who.worker, "arrive", wide)
}

// drop ends a peer.
func (m *Manager) drop(who id) {
	m.mu.Lock()
	k := m.peers[who]
	delete(m.peers, who)
	if k != nil && k.acc != nil {
		if err := m.opts.Device.Remove(k.acc.key); err != nil {
			m.log.Warn("a peer cannot be removed", "worker", who.worker, "error", err)
		}
	}
	m.mu.Unlock()
	if k != nil {
		m.log.Info("worker is no longer a peer", "cluster", who.cluster, "worker", who.worker)
		m.opts.Gone(who.cluster, who.worker)
	}
}

// offerTo makes an offer and takes up the answer.
func (m *Manager) offerTo(ctx context.Context, who id, to Target) {
	a, err := m.propose(ctx, to)
	if err == nil && a.who != who {
		err = fmt.Errorf("worker %s of cluster %s answered", a.who.worker, a.who.cluster)
	}
	if err == nil {
		err = m.admit(a)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[who]
	if k == nil {
		return
	}
	k.offering = false
	if err != nil {
		k.why = fmt.Sprintf("no answer to an offer: %v", err)
		m.log.Debug("offer to a worker", "cluster", who.cluster, "worker", who.worker, "error", err)
	}
}

// channel asks relays for a way to a peer.
func (m *Manager) channel(ctx context.Context, who id, relays []wire.Relay) {
	errs := []error{}
	for _, r := range relays {
		at, err := m.channelAt(ctx, r, who)
		if err == nil {
			m.gotChannel(ctx, who, r.Name, at, false)
			return
		}
		m.doubt(r, err)
		errs = append(errs, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.peers[who]; k != nil {
		k.asking = false
		if err := errors.Join(errs...); err != nil && k.kind == wire.PathNone {
			k.why = err.Error()
		}
	}
}

func (m *Manager) channelAt(ctx context.Context, r wire.Relay, who id) (netip.AddrPort, error) {
	c, err := m.client(r)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if err := m.join(ctx, r); err != nil {
		return netip.AddrPort{}, err
	}
	return c.Channel(ctx, m.asked(who))
}

// gotChannel takes a relay's way up.
func (m *Manager) gotChannel(ctx context.Context, who id, name string, at netip.AddrPort, invited bool) {
	m.mu.Lock()
	k := m.peers[who]
	if k == nil || k.acc == nil {
		if k != nil {
			k.asking = false
		}
		m.mu.Unlock()
		return
	}
	now := time.Now()
	before := k.kind
	use := k.gotChannel(now, at, invited)
	k.relayName = name
	if k.kind != before {
		m.note(who, k, before)
	}
	if use {
		if k.endTry != nil {
			k.endTry() // what is tried now does not know of this way back
		}
		if now.Sub(k.lastSeen) > deadAfter {
			// The session is of no use, and WireGuard would try it for 15 seconds before
			// it makes a handshake, which shows the relay where this side is.
			m.anew(k, at)
		} else {
			m.use(k, at)
		}
	}
	inner := k.acc.Inner
	m.mu.Unlock()
	m.ring()
	if !use {
		return
	}
	// Both send at once: the first packets show the relay where they are.
	ctx, cancel := context.WithTimeout(ctx, deadAfter)
	defer cancel()
	_ = m.opts.Question(ctx, inner)
}

// pause tells the relay that its way is not needed now.
func (m *Manager) pause(ctx context.Context, who id, relays []wire.Relay) {
	for _, r := range relays {
		c, err := m.client(r)
		if err == nil {
			err = c.Pause(ctx, m.asked(who))
		}
		if err != nil {
			m.log.Debug("pause a relay's way", "relay", r.Name, "error", err)
		}
	}
}

// asked is how a relay is asked for a worker.
func (m *Manager) asked(who id) relay.To {
	to := relay.To{Cluster: who.cluster, Worker: who.worker}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.peers[who]; k != nil {
		if to.Number = k.target.Number; k.acc != nil {
			to.Number = k.acc.lease.Number
		}
	}
	return to
}

// client for a relay.
func (m *Manager) client(r wire.Relay) (*relay.Client, error) {
	hidden := m.opts.Hidden()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own == nil {
		return nil, errors.New("this worker has no lease of the service network yet")
	}
	show, lease := m.opts.TLS, m.own.Signed
	if hidden && m.own.Away.Sig != nil {
		show, lease = m.opts.Away, m.own.Away
	}
	return &relay.Client{Relay: r, ServerName: m.opts.RelayName(r.Name), TLS: show, Lease: lease,
		Key: m.opts.Device.Public().String(), Inner: m.own.Inner}, nil
}

// relaysFor are the relays to ask, that with a name first.
func (m *Manager) relaysFor(name string) []wire.Relay {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.relaysNamed(name)
}

// relaysNamed is relaysFor with the mutex held.
func (m *Manager) relaysNamed(name string) []wire.Relay {
	if m.own == nil {
		return nil
	}
	var first, rest []wire.Relay
	for _, r := range m.own.Relays {
		if r.Name == name {
			first = append(first, r)
		} else {
			rest = append(rest, r)
		}
	}
	all := slices.Concat(first, rest)
	return all[:min(len(all), maxNames)]
}

// relaysOf are the relays through which a peer may be reached. The mutex is held.
func (m *Manager) relaysOf(k *known) []wire.Relay { return m.relaysNamed(k.target.Relay) }
