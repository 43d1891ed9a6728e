package peer

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// glance is how long packets for a peer go to a candidate while a relay's way is
	// in use: long enough for one question to leave, short enough for a connection
	// not to notice if nobody is there.
	glance = 30 * time.Millisecond
	// wait for the answer of one candidate. A handshake takes one round trip, the
	// question another.
	wait = 1200 * time.Millisecond
	// courtesy is what the worker with the larger key waits before it tries: two first
	// handshakes that cross end each other, and WireGuard repeats them after 5 seconds.
	courtesy = 300 * time.Millisecond
)

// round is one try of all candidates of a peer.
type round struct {
	of         *known
	acc        accepted
	candidates []netip.AddrPort
	back       netip.AddrPort // the relay's way; zero: none
	peer       wg.Peer
}

// round prepares one. The mutex is held.
func (m *Manager) round(k *known) round {
	r := round{of: k, acc: *k.acc, candidates: m.candidates(k.acc)}
	if k.direct.IsValid() {
		r.candidates = first(r.candidates, k.direct)
	}
	now := time.Now()
	r.peer, r.back = m.peer(k.acc), k.back(now)
	if k.kind == wire.PathNone && !r.back.IsValid() && k.unheard(now) > stale && len(r.candidates) > 0 {
		m.anew(k, r.candidates[0])
	}
	return r
}

// candidates at which a worker may be reached, the best first. The mutex is held.
func (m *Manager) candidates(a *accepted) []netip.AddrPort {
	var out []netip.AddrPort
	if at, ok := m.memo.of(id{a.lease.Cluster, a.lease.Worker}); ok {
		out = append(out, at)
	}
	if a.from.IsValid() {
		out = append(out, netip.AddrPortFrom(a.from, a.Port))
	}
	out = append(out, a.Candidates...)
	// Two workers may have the same private address: one's own leads nowhere else.
	mine := m.opts.Local()
	seen := map[netip.AddrPort]bool{}
	out = slices.DeleteFunc(out, func(c netip.AddrPort) bool {
		if seen[c] || slices.Contains(mine, c.Addr()) && (a.from != c.Addr()) {
			return true
		}
		seen[c] = true
		return false
	})
	return out[:min(len(out), maxCandidates)]
}

func first(all []netip.AddrPort, one netip.AddrPort) []netip.AddrPort {
	return append([]netip.AddrPort{one},
		slices.DeleteFunc(slices.Clone(all), func(c netip.AddrPort) bool { return c == one })...)
}

// tryDirectly asks each candidate in turn, until one has answered.
func (m *Manager) tryDirectly(ctx context.Context, who id, r round) {
	answered := false
	ctx, end := context.WithCancel(ctx)
	defer end()
	m.mu.Lock()
	if k := m.peers[who]; k != nil {
		k.endTry = end
	}
	m.mu.Unlock()
	for _, c := range r.candidates {
		if ctx.Err() != nil {
			break
		}
		if over, settled := m.settled(who, r); over {
			answered = settled && m.asks(ctx, r)
			break
		}
		if answered = m.answers(ctx, r, c); answered {
			break
		}
	}
	now := time.Now()
	status, err := m.opts.Device.Peers()
	var found netip.AddrPort
	if answered && err == nil {
		// WireGuard sends to where the last packet came from, which may be none of the
		// candidates.
		found = status[r.acc.key].Endpoint
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[who]
	if k == nil {
		return
	}
	if found == k.relay { // because a session was made there just now
		found = netip.AddrPort{}
	}
	before := k.kind
	k.endTry, k.changed = nil, now
	k.aimed = status[r.acc.key].Rx // if nothing follows, it was no handshake
	k.triedDirectly(now, found)
	switch back := k.back(now); {
	case k.kind == wire.PathDirect:
	case back.IsValid():
		m.use(k, back) // it may have come during the round
	case k.direct.IsValid():
		m.use(k, k.direct) // where it was last; it may have been a bad time
	}
	switch {
	case k.kind != before:
		m.note(who, k, before)
	case !found.IsValid() && k.kind != wire.PathDirect:
		k.why = "none of its addresses answered: " + list(r.candidates)
	}
}

// settled says that the round is over: the other side has found a direct way
// meanwhile, or the peer is another one now.
func (m *Manager) settled(who id, r round) (over, settled bool) {
	status, err := m.opts.Device.Peers()
	if err != nil {
		return true, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.peers[who]
	if k == nil || k.acc == nil || k.acc.key != r.acc.key {
		return true, false
	}
	s := status[r.acc.key]
	settled = k.kind == wire.PathNone && (s.Rx != k.rx || k.stirred.IsValid()) && s.Endpoint != r.back
	return settled, settled
}

// answers asks one candidate.
func (m *Manager) answers(ctx context.Context, r round, c netip.AddrPort) bool {
	if err := m.aim(ctx, r, c); err != nil {
		m.log.Debug("try an address", "address", c.String(), "error", err)
		return false
	}
	got := make(chan bool, 1)
	go func() { got <- m.asks(ctx, r) }()
	if !r.back.IsValid() {
		return <-got
	}
	t := time.NewTimer(glance)
	defer t.Stop()
	select {
	case ok := <-got:
		if !ok {
			m.goBack(ctx, r)
		}
		return ok
	case <-t.C:
	}
	m.goBack(ctx, r)
	if !<-got {
		return false
	}
	// The way back was set meanwhile: once more, and this time for good if it is
	// answered.
	if m.aim(ctx, r, c) == nil && m.asks(ctx, r) {
		return true
	}
	m.goBack(ctx, r)
	return false
}

// asks sends a question and waits for its answer; without one, a second question
// follows, for which the handshake is there that the first one had to wait for.
func (m *Manager) asks(ctx context.Context, r round) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	got := make(chan bool, 2)
	ask := func() { got <- m.opts.Question(ctx, r.acc.Inner) == nil }
	go ask()
	t := time.NewTimer(wait / 2)
	defer t.Stop()
	for open := 1; open > 0; {
		select {
		case ok := <-got:
			if ok {
				return true
			}
			open--
		case <-t.C:
			open++
			go ask()
		}
	}
	return false
}

// aim sends what is for the peer to a candidate. Without a session, WireGuard
// makes a handshake every five seconds only: a new peer has not made any. One that
// has said something since the last try is making one itself. A handshake that was
// begun at the candidate just now goes on: the other side would take another one for
// a repetition, and its answer would find the peer that began the first gone.
func (m *Manager) aim(ctx context.Context, r round, c netip.AddrPort) error {
	m.mu.Lock() // who ends the round sets the peer itself
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	p := r.peer
	p.Endpoint = c
	status, err := m.opts.Device.Peers()
	s := status[p.Key]
	begun := s.Endpoint == c && time.Since(r.of.changed) < wait/2
	if err == nil && s.Handshake.IsZero() && s.Rx == r.of.aimed && !r.back.IsValid() && !begun {
		if err := m.opts.Device.Remove(p.Key); err != nil {
			return err
		}
		r.of.aimed, r.of.rx, r.of.tx, r.of.changed = 0, 0, 0, time.Now()
	} else {
		r.of.aimed = s.Rx
	}
	return m.opts.Device.Set(p)
}

// goBack sends what is for the peer to the relay again, unless the round was
// ended.
func (m *Manager) goBack(ctx context.Context, r round) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() == nil {
		_ = m.opts.Device.Set(wg.Peer{Key: r.acc.key, Endpoint: r.back})
	}
}

// interfaceAddrs are the addresses of this machine that others could know.
func interfaceAddrs() []netip.Addr {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, n := range nets {
		p, err := netip.ParsePrefix(n.String())
		if a := p.Addr().Unmap(); err == nil && a.IsGlobalUnicast() {
			out = append(out, a)
		}
	}
	return out
}

// offer of this worker to one of a cluster.
func (m *Manager) offer(cluster string) offer {
	away := cluster != m.opts.Cluster && m.hidden()
	port, err := m.opts.Device.Port()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || m.own == nil {
		return offer{V: version, Error: "not ready"}
	}
	o := offer{V: version, Lease: m.own.Signed, Key: m.opts.Device.Public().String(), Port: port, Inner: m.own.Inner,
		NAT: m.home.nat}
	if away {
		o.Lease = m.own.Away
	}
	add := func(c netip.AddrPort) {
		if len(o.Candidates) < maxCandidates && !slices.Contains(o.Candidates, c) {
			o.Candidates = append(o.Candidates, c)
		}
	}
	for _, a := range m.opts.Advertise {
		add(netip.AddrPortFrom(a, port))
	}
	if m.home.outside.IsValid() {
		add(m.home.outside)
	}
	for _, a := range m.opts.Local() {
		if !m.own.lease.Prefix.Contains(a) && !m.own.lease.Pool.Contains(a) {
			add(netip.AddrPortFrom(a, port))
		}
	}
	if m.home.joined {
		o.Relays = []string{m.home.relay.Name}
	}
	return o
}
