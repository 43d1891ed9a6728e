package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/overlay/wg"
	"github.com/verge-edge/verge/internal/relay"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// Protocol is what an offer is called in a TLS handshake (ALPN), at the data port
	// of a worker and at the end of a relay's pipe.
	Protocol = "verge-peer/1"

	version       = 1
	maxMessage    = 16 << 10
	maxCandidates = 12
	maxNames      = 4
	// offerTimeout bounds an exchange of offers. Its ten packets take that long where
	// half of them are lost.
	offerTimeout = 20 * time.Second
	dialTimeout  = 8 * time.Second
	// relayDelay is how long the data port has before the relay is asked too.
	relayDelay = 700 * time.Millisecond
)

// offer is what two workers exchange. The handshake proves its sender, its freshness and its
// receiver.
type offer struct {
	V int `json:"v"`
	// Error says why there is no offer.
	Error string           `json:"error,omitempty"`
	Lease wire.SignedLease `json:"lease"`
	// Key is the public WireGuard key, in base64, Port its UDP port.
	Key  string `json:"key,omitempty"`
	Port uint16 `json:"port,omitempty"`
	// Inner is the worker's own address in the service network.
	Inner netip.Addr `json:"inner,omitzero"`
	// Candidates at which it may be reached, the best first.
	Candidates []netip.AddrPort `json:"candidates,omitempty"`
	// Relays at which it can be asked for, by name.
	Relays []string `json:"relays,omitempty"`
	// NAT says that it must keep its way open itself.
	NAT bool `json:"nat,omitempty"`
}

// accepted is an offer that was verified.
type accepted struct {
	offer
	lease   wire.Lease
	who     id // the name that routes have for it
	chain   []*x509.Certificate
	key     wg.Key
	allowed []netip.Prefix
	from    netip.Addr // where the TLS connection came from; zero through a relay
}

func writeMessage(w io.Writer, o offer) error {
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encode the offer: %w", err)
	}
	if len(body) > maxMessage {
		return fmt.Errorf("an offer of %d bytes: at most %d", len(body), maxMessage)
	}
	if _, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return fmt.Errorf("send the offer: %w", err)
	}
	return nil
}

func readMessage(r io.Reader) (offer, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return offer{}, fmt.Errorf("receive an offer: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return offer{}, fmt.Errorf("an offer of %d bytes: at most %d", n, maxMessage)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return offer{}, fmt.Errorf("receive an offer: %w", err)
	}
	var o offer
	if err := json.Unmarshal(body, &o); err != nil {
		return offer{}, fmt.Errorf("read an offer: %w", err)
	}
	return o, nil
}

var errMyself = errors.New("that is this worker itself")

// accept verifies an offer that came over a connection.
func (m *Manager) accept(cs tls.ConnectionState, o offer, from netip.Addr) (accepted, error) {
	if o.Error != "" {
		return accepted{}, fmt.Errorf("the other worker refuses: %.200q", o.Error)
	}
	lease, err := m.opts.Verify(cs.PeerCertificates, o.Lease)
	if err != nil {
		return accepted{}, err
	}
	m.mu.Lock()
	own := m.own
	m.mu.Unlock()
	a := accepted{offer: o, lease: lease, from: from}
	if a.key, err = wg.ParseKey(o.Key); err != nil {
		return accepted{}, err
	}
	switch {
	case own == nil:
		return accepted{}, errors.New("this worker has no lease of the service network yet")
	case lease.Cluster == m.opts.Cluster && lease.Worker == m.opts.Worker || lease.Number == own.lease.Number ||
		a.key == m.opts.Device.Public():
		return accepted{}, errMyself
	case lease.Prefix != own.lease.Prefix:
		return accepted{}, fmt.Errorf("its prefix is %s, here it is %s: it belongs to another root", lease.Prefix,
			own.lease.Prefix)
	case o.Port == 0:
		return accepted{}, errors.New("it has no port")
	}
	a.chain = cs.PeerCertificates
	a.who = m.called(cs.PeerCertificates[0], lease)
	net6 := worker6(lease)
	if !net6.Contains(o.Inner) {
		return accepted{}, fmt.Errorf("%s is no address of worker %d", o.Inner, lease.Number)
	}
	a.allowed = []netip.Prefix{net6}
	if v4 := lease.IPv4; v4.IsValid() && v4.Addr().Is4() && v4.Bits() >= 16 && own.lease.Pool.Contains(v4.Addr()) &&
		!v4.Overlaps(own.lease.IPv4) {
		a.allowed = append(a.allowed, v4.Masked())
	}
	a.Candidates = usable(o.Candidates)
	a.Relays = o.Relays[:min(len(o.Relays), maxNames)]
	return a, nil
}

// called is the name that routes have for a worker: of this cluster it is that of its
// lease; for other clusters a worker has another one, which its certificate is for
// too.
func (m *Manager) called(c *x509.Certificate, l wire.Lease) id {
	who := id{l.Cluster, l.Worker}
	if l.Cluster == m.opts.Cluster {
		return who
	}
	own := m.opts.PeerName(l.Cluster, l.Worker)
	suffix := strings.TrimPrefix(own, l.Worker)
	for _, n := range c.DNSNames {
		if worker, ok := strings.CutSuffix(n, suffix); ok && n != own {
			who.worker = worker
		}
	}
	return who
}

// worker6 is the IPv6 network of a worker: its root's prefix and its number.
func worker6(l wire.Lease) netip.Prefix {
	b := l.Prefix.Addr().As16()
	binary.BigEndian.PutUint32(b[6:], l.Number)
	return netip.PrefixFrom(netip.AddrFrom16(b), 80).Masked()
}

// usable leaves out addresses that nobody can be reached at from here.
func usable(in []netip.AddrPort) []netip.AddrPort {
	var out []netip.AddrPort
	for _, c := range in[:min(len(in), maxCandidates)] {
		a := c.Addr().Unmap()
		if c.Port() != 0 && a.IsValid() && !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast() &&
			!a.IsLinkLocalUnicast() {
			out = append(out, netip.AddrPortFrom(a, c.Port()))
		}
	}
	return out
}

// Serve answers an offer that somebody makes over conn, which has done its
// handshake, and closes it.
func (m *Manager) Serve(ctx context.Context, conn *tls.Conn) {
	from := netip.Addr{}
	if ap, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		from = ap.Addr().Unmap()
	}
	m.serve(ctx, conn, from)
}

func (m *Manager) serve(ctx context.Context, conn *tls.Conn, from netip.Addr) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(offerTimeout))
	err := conn.HandshakeContext(ctx)
	var o offer
	if err == nil {
		o, err = readMessage(conn)
	}
	if err != nil {
		m.log.Debug("no offer", "error", err)
		return
	}
	a, err := m.accept(conn.ConnectionState(), o, from)
	if err == nil {
		err = m.admit(a)
	}
	mine := m.offer(a.lease.Cluster)
	if err != nil {
		m.log.Warn("offer of a worker refused", "from", conn.RemoteAddr().String(), "why", err)
		mine = offer{V: version, Error: "not accepted"}
		if errors.Is(err, errMyself) || errors.Is(err, errFull) {
			mine.Error = err.Error()
		}
	}
	if err := writeMessage(conn, mine); err != nil {
		m.log.Debug("answer an offer", "error", err)
	}
	m.ring()
}

// hidden says whether this worker shows another name beyond its cluster.
func (m *Manager) hidden() bool {
	if !m.opts.Hidden() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.own != nil && m.own.Away.Sig != nil
}

// exchange makes an offer over a connection to another worker.
func (m *Manager) exchange(ctx context.Context, raw net.Conn, to Target, from netip.Addr) (accepted, error) {
	defer func() { _ = raw.Close() }()
	conn, err := m.secure(ctx, raw, to)
	if err != nil {
		return accepted{}, err
	}
	return m.converse(ctx, conn, to, from)
}

// secure does the handshake with another worker.
func (m *Manager) secure(ctx context.Context, raw net.Conn, to Target) (*tls.Conn, error) {
	show := m.opts.TLS
	if to.Cluster != m.opts.Cluster && m.hidden() {
		show = m.opts.Away
	}
	given, err := show()
	if err != nil {
		return nil, fmt.Errorf("own identity: %w", err)
	}
	cfg := given.Clone()
	cfg.ServerName, cfg.NextProtos, cfg.GetConfigForClient = m.opts.PeerName(to.Cluster, to.Worker), []string{Protocol},
		nil
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	return conn, nil
}

// converse exchanges offers over a connection that has done its handshake.
func (m *Manager) converse(ctx context.Context, conn *tls.Conn, to Target, from netip.Addr) (accepted, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := writeMessage(conn, m.offer(to.Cluster)); err != nil {
		return accepted{}, err
	}
	o, err := readMessage(conn)
	if err != nil {
		return accepted{}, err
	}
	return m.accept(conn.ConnectionState(), o, from)
}

// propose makes an offer to a worker, at its data port and, where that takes long
// or fails, through a relay.
func (m *Manager) propose(ctx context.Context, to Target) (accepted, error) {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	type result struct {
		a   accepted
		err error
	}
	results := make(chan result, 2)
	relays := m.relaysFor(to.Relay)
	failed := make(chan struct{})
	go func() {
		a, err := m.proposeDirectly(ctx, to)
		if err != nil {
			close(failed)
		}
		results <- result{a, err}
	}()
	go func() {
		t := time.NewTimer(relayDelay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-failed:
		case <-ctx.Done():
		}
		a, err := m.proposeThrough(ctx, relays, to)
		results <- result{a, err}
	}()
	var errs []error
	for range 2 {
		r := <-results
		if r.err == nil {
			cancel()
			if len(errs) == 0 { // the other one ends soon
				<-results
			}
			return r.a, nil
		}
		errs = append(errs, r.err)
	}
	return accepted{}, errors.Join(errs...)
}

func (m *Manager) proposeDirectly(ctx context.Context, to Target) (accepted, error) {
	if to.Address == "" {
		return accepted{}, errors.New("its data port cannot be reached by others")
	}
	conn, err := relay.DialRacing(ctx, func(ctx context.Context) (*tls.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		raw, err := d.DialContext(ctx, "tcp", to.Address)
		if err != nil {
			return nil, fmt.Errorf("reach its data port: %w", err)
		}
		conn, err := m.secure(ctx, raw, to)
		if err != nil {
			_ = raw.Close() // nothing was said on it
			return nil, fmt.Errorf("at its data port: %w", err)
		}
		return conn, nil
	})
	if err != nil {
		return accepted{}, err
	}
	defer func() { _ = conn.NetConn().Close() }() // all was said
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return accepted{}, fmt.Errorf("address of its data port: %w", err)
	}
	a, err := m.converse(ctx, conn, to, ap.Addr().Unmap())
	if err != nil {
		return accepted{}, fmt.Errorf("at its data port: %w", err)
	}
	return a, nil
}

func (m *Manager) proposeThrough(ctx context.Context, relays []wire.Relay, to Target) (accepted, error) {
	if ctx.Err() != nil {
		return accepted{}, ctx.Err()
	}
	errs := []error{}
	for _, r := range relays {
		c, err := m.client(r)
		if err != nil {
			return accepted{}, err
		}
		raw, err := c.Pipe(ctx, relay.To{Cluster: to.Cluster, Worker: to.Worker, Number: to.Number})
		if err == nil {
			var a accepted
			if a, err = m.exchange(ctx, raw, to, netip.Addr{}); err == nil {
				return a, nil
			}
		} else {
			m.doubt(r, err)
		}
		errs = append(errs, err)
	}
	if len(relays) == 0 {
		errs = append(errs, errors.New("there is no relay to ask"))
	}
	return accepted{}, errors.Join(errs...)
}
