package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// helloEvery keeps a NAT open towards the relay, and shows that it is there: two
	// packets and their answers a minute, which is what it costs to be reached.
	helloEvery = keepalive
	// helloAgain is when an unanswered one is repeated: as many as a line needs that
	// loses half of them.
	helloAgain           = 700 * time.Millisecond
	maxHellos            = 8
	firstJoin, slowJoin  = time.Second, time.Minute
	sightTries, sightGap = 8, 250 * time.Millisecond
)

// home is the relay at which this worker can be reached.
type home struct {
	relay    wire.Relay
	joined   bool
	joining  bool
	key      wg.Key
	inner    netip.Addr
	why      string
	retry    retry
	rx       uint64
	lastSeen time.Time // when something last came from it
	hello    time.Time // when the last one was sent
	hellos   int       // without an answer

	outside netip.AddrPort
	nat     bool

	sock   *net.UDPConn
	sockAt netip.Addr
	// guests are relays that only lead to others, by key; the value is when one was
	// last used.
	guests map[wg.Key]time.Time
	mail   bool // being asked for
}

// stepHome looks after the relay of this worker. The mutex is held.
func (m *Manager) stepHome(now time.Time, status map[wg.Key]wg.Status) time.Duration {
	h := &m.home
	for k, used := range h.guests {
		if now.Sub(used) > idleAfter {
			delete(h.guests, k)
			_ = m.opts.Device.Remove(k)
		}
	}
	if len(m.own.Relays) == 0 {
		if h.joined {
			m.leaveHome("its cluster no longer names one")
		}
		h.why = "there is no relay: start one (verge root --relay ADDRESS, verge worker --relay ADDRESS)"
		return 0
	}
	if h.joined && !slices.ContainsFunc(m.own.Relays, func(r wire.Relay) bool { return r.Name == h.relay.Name }) {
		m.leaveHome("its cluster no longer names it")
	}
	if !h.joined {
		if h.joining {
			return look
		}
		if wait := h.retry.next.Sub(now); wait > 0 {
			return wait
		}
		h.retry.tried(now, firstJoin, slowJoin, seedOf(m.opts.Cluster, m.opts.Worker))
		h.joining = true
		relays := slices.Clone(m.own.Relays)
		m.job(func(ctx context.Context) { m.findHome(ctx, relays) }, func() { h.joining = false })
		return look
	}
	if st := status[h.key]; st.Rx != h.rx {
		h.rx, h.lastSeen, h.hellos = st.Rx, now, 0
	}
	due := h.hello.Add(helloEvery)
	if h.hellos > 0 && h.lastSeen.Before(h.hello) {
		due = h.hello.Add(helloAgain)
	}
	if wait := due.Sub(now); wait > 0 {
		return wait
	}
	if h.hellos >= maxHellos {
		m.leaveHome("it no longer answers")
		return firstJoin
	}
	h.hello = now
	h.hellos++
	if err := m.greet(h.inner); err != nil {
		m.log.Debug("hello to the relay", "error", err)
	}
	return helloAgain
}

// greet sends a hello. The mutex is held.
func (m *Manager) greet(to netip.Addr) error {
	if m.home.sock == nil {
		return errors.New("no socket in the service network yet")
	}
	_, err := m.home.sock.WriteToUDPAddrPort(relay.Hello(), netip.AddrPortFrom(to, relay.WakePort))
	return err
}

// doubt has a relay greeted at once that did not answer a request: without traffic its
// death would be noticed at the next hello.
func (m *Manager) doubt(r wire.Relay, err error) {
	if errors.Is(err, relay.ErrRefused) {
		return
	}
	m.mu.Lock()
	if h := &m.home; h.joined && h.relay.Name == r.Name && !h.lastSeen.Before(h.hello) {
		h.hello = time.Time{}
	}
	m.mu.Unlock()
	m.ring()
}

// leaveHome gives the relay up. The mutex is held.
func (m *Manager) leaveHome(why string) {
	h := &m.home
	m.log.Warn("this worker can no longer be reached through its relay", "relay", h.relay.Name, "why", why)
	_ = m.opts.Device.Remove(h.key)
	h.joined, h.why, h.retry = false, fmt.Sprintf("relay %s: %s", h.relay.Name, why), retry{}
	h.outside, h.hellos = netip.AddrPort{}, 0
	m.dirty = true
}

// findHome joins the first relay that will have this worker.
func (m *Manager) findHome(ctx context.Context, relays []wire.Relay) {
	var errs []error
	for _, r := range relays {
		a, err := m.enter(ctx, r)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		now := time.Now()
		m.mu.Lock()
		h := &m.home
		key, _ := wg.ParseKey(a.Key) // enter has looked at it
		delete(h.guests, key)
		h.relay, h.joined, h.joining, h.key, h.inner, h.why = r, true, false, key, a.Inner, ""
		h.rx, h.lastSeen, h.hello, h.hellos, h.retry = 0, now, now, 0, retry{}
		m.sighted(a.Outside)
		m.dirty = true
		for _, k := range m.peers {
			if k.kind == wire.PathNone { // it may be reached through this one
				k.asks, k.offers = retry{}, retry{}
			}
		}
		m.mu.Unlock()
		m.log.Info("this worker can be reached through a relay", "relay", r.Name, "outside", a.Outside.String())
		m.deliver(r, a)
		return
	}
	m.mu.Lock()
	m.home.joining, m.home.why = false, errors.Join(errs...).Error()
	m.mu.Unlock()
	m.log.Debug("no relay", "error", errors.Join(errs...))
}

// sighted notes where the relay sees this worker. The mutex is held.
func (m *Manager) sighted(at netip.AddrPort) {
	if !at.IsValid() {
		return
	}
	m.home.outside = at
	m.home.nat = !slices.Contains(m.opts.Local(), at.Addr())
}

// join makes this worker a peer of a relay's tunnel, for the ways that lead from
// there to others.
func (m *Manager) join(ctx context.Context, r wire.Relay) error {
	m.mu.Lock()
	h := &m.home
	there := h.joined && h.relay.Name == r.Name
	m.mu.Unlock()
	if there {
		return nil
	}
	a, err := m.enter(ctx, r)
	if err != nil {
		return err
	}
	key, _ := wg.ParseKey(a.Key) // enter has looked at it
	m.mu.Lock()
	if h.guests == nil {
		h.guests = map[wg.Key]time.Time{}
	}
	h.guests[key] = time.Now()
	m.mu.Unlock()
	return nil
}

// enter makes this worker known to a relay and a peer of its tunnel, and returns
// what the relay said when it had seen the worker there.
func (m *Manager) enter(ctx context.Context, r wire.Relay) (relay.Answer, error) {
	c, err := m.client(r)
	if err != nil {
		return relay.Answer{}, err
	}
	a, at, err := c.Mail(ctx)
	if err != nil {
		return a, err
	}
	key, err := wg.ParseKey(a.Key)
	if err != nil {
		return a, fmt.Errorf("relay %s: %w", r.Name, err)
	}
	if err := m.open(); err != nil {
		return a, err
	}
	m.mu.Lock()
	prefix := m.own.lease.Prefix
	m.mu.Unlock()
	if b := a.Inner.As16(); !prefix.Contains(a.Inner) || [7]byte(b[6:13]) != [7]byte{0xff, 0xff, 0xff, 0xff} {
		return a, fmt.Errorf("relay %s names %s as its inner address, which does not belong to a relay", r.Name,
			a.Inner)
	}
	err = m.opts.Device.Set(wg.Peer{Key: key, Endpoint: netip.AddrPortFrom(at, a.Port),
		Allowed: []netip.Prefix{netip.PrefixFrom(a.Inner, 128)}})
	if err != nil {
		return a, err
	}
	mail := a.Mail
	for range sightTries {
		m.mu.Lock()
		err := m.greet(a.Inner)
		m.mu.Unlock()
		if err != nil {
			return a, fmt.Errorf("greet relay %s: %w", r.Name, err)
		}
		t := time.NewTimer(sightGap)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return a, ctx.Err()
		}
		if status, err := m.opts.Device.Peers(); err != nil || status[key].Rx == 0 {
			continue
		}
		if a, _, err = c.Mail(ctx); err != nil {
			return a, err
		}
		mail = append(mail, a.Mail...)
		if a.Outside.IsValid() {
			a.Mail = mail
			return a, nil
		}
	}
	return a, fmt.Errorf("relay %s answers at TCP port %d and not at the UDP port of that number: a firewall "+
		"may be between", r.Name, a.Port)
}

// open makes the socket in the service network.
func (m *Manager) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.home
	if m.own == nil || m.spawn == nil {
		return errors.New("not running")
	}
	if h.sock != nil && h.sockAt == m.own.Inner {
		return nil
	}
	sock, err := m.opts.Listen(netip.AddrPortFrom(m.own.Inner, relay.WakePort))
	if err != nil {
		return fmt.Errorf("listen in the service network: %w", err)
	}
	if h.sock != nil {
		_ = h.sock.Close()
	}
	h.sock, h.sockAt = sock, m.own.Inner
	m.spawn(func(ctx context.Context) {
		defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
		buf := make([]byte, 128)
		for {
			n, from, err := sock.ReadFromUDPAddrPort(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && relay.IsWake(buf[:n]) {
				m.wake(from.Addr())
			}
		}
	})
	return nil
}

// wake asks for the mail at the relay whose inner address it is.
func (m *Manager) wake(from netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.home
	if !h.joined || from != h.inner || h.mail {
		return
	}
	h.mail = true
	r := h.relay
	m.job(func(ctx context.Context) {
		c, err := m.client(r)
		var a relay.Answer
		if err == nil {
			a, _, err = c.Mail(ctx)
		}
		m.mu.Lock()
		h.mail = false
		m.sighted(a.Outside)
		m.mu.Unlock()
		if err != nil {
			m.log.Debug("ask for mail", "relay", r.Name, "error", err)
			return
		}
		m.deliver(r, a)
	}, func() { h.mail = false })
}

// deliver does what the mail asks for.
func (m *Manager) deliver(r wire.Relay, a relay.Answer) {
	for _, l := range a.Mail {
		m.mu.Lock()
		who := m.namedLocked(l)
		m.job(func(ctx context.Context) {
			if l.Pipe != "" {
				m.take(ctx, r, l.Pipe)
			}
			if l.Channel != 0 {
				m.invited(ctx, r, who, l.Channel)
			}
		}, nil)
		m.mu.Unlock()
	}
}

// namedLocked is the name that routes have for the peer that mail is from: a relay
// knows the number of its lease, and the name in the one that it was shown.
func (m *Manager) namedLocked(l relay.Mail) id {
	for who, k := range m.peers {
		if k.acc == nil || k.acc.lease.Cluster != l.Cluster {
			continue
		}
		if k.acc.lease.Worker == l.Worker || l.Number != 0 && k.acc.lease.Number == l.Number {
			return who
		}
	}
	return id{l.Cluster, l.Worker}
}

// take answers an offer that comes through a relay.
func (m *Manager) take(ctx context.Context, r wire.Relay, pipe string) {
	c, err := m.client(r)
	var raw net.Conn
	if err == nil {
		raw, err = c.Take(ctx, pipe)
	}
	if err != nil {
		m.log.Debug("take a pipe", "relay", r.Name, "error", err)
		return
	}
	given, err := m.opts.TLS()
	if err != nil {
		_ = raw.Close()
		m.log.Error("own identity", "error", err)
		return
	}
	cfg := given.Clone()
	cfg.ClientAuth, cfg.NextProtos, cfg.GetConfigForClient = tls.RequireAndVerifyClientCert, []string{Protocol}, nil
	m.serve(ctx, tls.Server(raw, cfg), netip.Addr{})
}

// invited takes up a way that another worker has asked the relay for.
func (m *Manager) invited(ctx context.Context, r wire.Relay, who id, port uint16) {
	m.mu.Lock()
	st, known := m.home, m.peers[who] != nil
	m.mu.Unlock()
	if !known || !st.joined {
		return // nothing was agreed with that one
	}
	status, err := m.opts.Device.Peers()
	if err != nil {
		return
	}
	at := netip.AddrPortFrom(status[st.key].Endpoint.Addr(), port)
	m.gotChannel(ctx, who, r.Name, at, true)
}
