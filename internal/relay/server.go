package relay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/accept"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of one relay.
const (
	// MaxWorkers that a relay knows at a time.
	MaxWorkers = 4096
	// maxAliases are as many names as are read of a certificate.
	maxAliases = 8
	// MaxChannels at a time; each has two UDP ports.
	MaxChannels = 1024
	// maxPipes that wait for their other end, and maxConns in all.
	maxPipes = 256
	maxConns = 1024
	// maxMail that waits for one worker.
	maxMail = 32
)

const (
	// admitTimeout bounds handshake and request.
	admitTimeout = 10 * time.Second
	// pipeTimeout bounds the wait for the other end of a pipe, pipeLife the pipe:
	// an offer and its answer take a moment.
	pipeTimeout = 10 * time.Second
	pipeLife    = 30 * time.Second
	// wakeEvery is how often a worker is told again that there is mail.
	wakeEvery = time.Second
	// forgetAfter is how long a worker neither asked for anything nor kept up its
	// tunnel before it is forgotten, and a channel carried nothing.
	forgetAfter = 10 * time.Minute
	sweepEvery  = time.Minute
)

// Options of a Server.
type Options struct {
	// Listen is host:port for both TCP (requests) and UDP (WireGuard); port 0 is any.
	Listen string
	// Ports for channels, first and last; zero: any that are free.
	Ports [2]uint16
	// Rate bounds what one channel forwards, in bits a second; 0: no bound.
	Rate uint64
	// Name under which others are told of it: see wire.Relay.
	Name string
	// KeyFile holds the WireGuard key of the relay, which is made if there is none.
	KeyFile string
	// TLS is the node's identity; peers must be demanded to have a certificate.
	TLS func() (*tls.Config, error)
	// Worker returns whose lease it is that a peer shows, after having checked that
	// it is the peer's own and that the peer may come in.
	Worker func(cs tls.ConnectionState, s wire.SignedLease) (wire.Lease, error)
	// Refused says why a worker with a certificate chain does not count any more, nil if
	// it does; nil: all count. See Server.PeersChanged.
	Refused func(chain []*x509.Certificate) error
	// Log; nil is slog's default.
	Log *slog.Logger
}

// Stats of a relay since it was started, and what is there now.
type Stats struct {
	Workers, Channels, Pipes int
	// Requests served and refused.
	Requests, Refused uint64
	// Packets and bytes forwarded; packets dropped, since they were none of
	// WireGuard's, from a stranger, beyond the rate, or without a way.
	Packets, Bytes, Dropped uint64
}

// id names a worker.
type id struct{ cluster, worker string }

// member is a worker that is known.
type member struct {
	id id
	// number of its lease: the same under all names.
	number uint32
	key    [32]byte
	inner  netip.Addr
	names  []id // others that it has, see Server.aliases
	chain  []*x509.Certificate
	seen   time.Time // when it last asked for something
	mail   []Mail
}

// Server is a relay. It is safe for concurrent use.
type Server struct {
	opts Options
	log  *slog.Logger
	ln   net.Listener
	tun  *tunnel

	ctx    context.Context // of all that runs
	cancel context.CancelFunc
	wg     sync.WaitGroup
	room   *accept.Room

	requests, refused        atomic.Uint64
	packets, bytes, droppeds atomic.Uint64

	mu      sync.Mutex // guards below
	members map[id]*member
	// aliases are other names of members: by that of its lease a worker is known in its
	// own cluster alone, workers of other clusters have another one, which is in its
	// certificate too.
	aliases  map[id]id
	channels map[[2]id]*channel
	pipes    map[string]*pipe
}

// pipe waits for its other end.
type pipe struct {
	to    id
	other chan net.Conn
}

// Start opens the ports and serves until Close.
func Start(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Refused == nil {
		o.Refused = func([]*x509.Certificate) error { return nil }
	}
	key, err := ensureKey(o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("start the relay: %w", err)
	}
	ln, port, err := listenBoth(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("start the relay at %s: %w", o.Listen, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		opts: o, log: o.Log, ln: ln, ctx: ctx, cancel: cancel, room: accept.NewRoom(maxConns, maxConns/2),
		members: map[id]*member{}, aliases: map[id]id{}, channels: map[[2]id]*channel{}, pipes: map[string]*pipe{},
	}
	if s.tun, err = newTunnel(key, port, o.Log); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start the relay: %w", err), ln.Close())
	}
	s.wg.Go(s.accept)
	s.wg.Go(s.sweep)
	return s, nil
}

// listenBoth finds a port that is free for both protocols: the tunnel opens the
// UDP one itself.
func listenBoth(addr string) (net.Listener, *net.UDPConn, error) {
	var errs []error
	for range 16 {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, nil, errors.Join(err, ln.Close())
		}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		pc, err := net.ListenPacket("udp", net.JoinHostPort(host, port))
		if err == nil {
			return ln, pc.(*net.UDPConn), nil
		}
		errs = append(errs, err, ln.Close())
		if _, p, _ := net.SplitHostPort(addr); p != "0" {
			break
		}
	}
	return nil, nil, errors.Join(errs...)
}

// Addr is where the relay listens, over TCP and UDP.
func (s *Server) Addr() netip.AddrPort {
	ap, _ := netip.ParseAddrPort(s.ln.Addr().String())
	return ap
}

// Describe is what others have to know of the relay, given the addresses (host or
// host:port) at which they reach it.
func (s *Server) Describe(addresses []string) wire.Relay {
	r := wire.Relay{Name: s.opts.Name, Key: keyText(s.tun.public)}
	for _, a := range addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			a = net.JoinHostPort(a, strconv.Itoa(int(s.Addr().Port())))
		}
		r.Addresses = append(r.Addresses, a)
	}
	return r
}

// Stats of the relay.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		Workers: len(s.members), Channels: len(s.channels), Pipes: len(s.pipes),
		Requests: s.requests.Load(), Refused: s.refused.Load(),
		Packets: s.packets.Load(), Bytes: s.bytes.Load(), Dropped: s.droppeds.Load(),
	}
}

// Close ends the relay and all that goes through it, and waits.
func (s *Server) Close() {
	s.cancel()
	_ = s.ln.Close()
	s.mu.Lock()
	for _, c := range s.channels {
		c.close()
	}
	s.mu.Unlock()
	s.wg.Wait()
	s.tun.close()
}

func (s *Server) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			if s.ctx.Err() != nil {
				return
			}
			select { // out of descriptors
			case <-time.After(50 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		place := s.room.Enter(accept.Source(conn.RemoteAddr().String()), func() { _ = conn.Close() })
		if place == nil {
			_ = conn.Close()
			continue
		}
		s.wg.Go(func() {
			defer place.Leave()
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
			s.serve(conn, place)
		})
	}
}

// serve answers one request.
func (s *Server) serve(raw net.Conn, place *accept.Place) {
	given, err := s.opts.TLS()
	if err != nil {
		s.log.Error("the relay has no identity", "error", err)
		return
	}
	cfg := given.Clone()
	cfg.ClientAuth, cfg.NextProtos, cfg.GetConfigForClient = tls.RequireAndVerifyClientCert, []string{alpn}, nil
	conn := tls.Server(raw, cfg)
	m, req, err := s.admit(conn)
	if err != nil {
		s.refused.Add(1)
		s.log.Debug("request of the relay refused", "from", raw.RemoteAddr().String(), "why", err)
		if errors.As(err, new(tellable)) {
			_ = writeMessage(conn, Answer{V: version, Error: err.Error()})
			_ = conn.Close()
		}
		return
	}
	s.requests.Add(1)
	place.Known()
	if req.Op == opPipe || req.Op == opTake {
		s.pipe(conn, m, req)
		return
	}
	a, err := s.answer(m, req)
	if err != nil {
		a.Error = err.Error()
	}
	_ = writeMessage(conn, a)
	_ = conn.Close()
}

// tellable is an error that the other side may read: it has proven who it is.
type tellable struct{ error }

// admit does the handshake and reads the request, and finds out who makes it.
func (s *Server) admit(conn *tls.Conn) (*member, request, error) {
	ctx, cancel := context.WithTimeout(s.ctx, admitTimeout)
	defer cancel()
	var r request
	if err := conn.SetDeadline(time.Now().Add(admitTimeout)); err != nil {
		return nil, r, err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, r, fmt.Errorf("handshake: %w", err)
	}
	if err := readMessage(conn, &r); err != nil {
		return nil, r, err
	}
	lease, err := s.opts.Worker(conn.ConnectionState(), r.Lease)
	if err != nil {
		return nil, r, err
	}
	m, err := s.known(lease, conn.ConnectionState().PeerCertificates, r)
	if err != nil {
		return nil, r, tellable{err}
	}
	return m, r, nil
}

// namesIn are the names of a worker of a cluster that its certificate has.
func namesIn(chain []*x509.Certificate, cluster string) (out []id) {
	if len(chain) == 0 {
		return nil
	}
	names := chain[0].DNSNames
	for _, n := range names[:min(len(names), maxAliases)] {
		if worker, _, ok := strings.Cut(n, "."+cluster+"."); ok {
			out = append(out, id{cluster, worker})
		}
	}
	return out
}

// find returns the member that has a name or, of a cluster, a number; nil if there is
// none. The mutex is held.
func (s *Server) find(who id, number uint32) *member {
	if m := s.members[who]; m != nil {
		return m
	}
	if m := s.members[s.aliases[who]]; m != nil {
		return m
	}
	for _, m := range s.members {
		if number != 0 && m.number == number && m.id.cluster == who.cluster {
			return m
		}
	}
	return nil
}

// PeersChanged says that Refused may refuse who it did not before: who it refuses now
// is no member any more, and nothing is forwarded from it or to it, at once.
func (s *Server) PeersChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if err := s.opts.Refused(m.chain); err != nil {
			s.log.Warn("a worker counts no more at this relay", "cluster", m.id.cluster, "worker", m.id.worker, "why",
				err)
			s.remove(m)
		}
	}
}

// remove ends a member. The mutex is held.
func (s *Server) remove(m *member) {
	s.tun.remove(m.key)
	s.closeChannelsOf(m.id)
	for _, n := range m.names {
		delete(s.aliases, n)
	}
	delete(s.members, m.id)
}

// known notes who a worker is, and makes it a peer of the tunnel.
func (s *Server) known(l wire.Lease, chain []*x509.Certificate, r request) (*member, error) {
	key, err := parseKey(r.Key)
	if err != nil {
		return nil, err
	}
	if !within(l, r.Inner) {
		return nil, fmt.Errorf("%s is no address of worker %d", r.Inner, l.Number)
	}
	who, names := id{l.Cluster, l.Worker}, namesIn(chain, l.Cluster)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.opts.Refused(chain); err != nil {
		return nil, err
	}
	m := s.members[who]
	if m == nil && len(s.members) >= MaxWorkers {
		return nil, errors.New("there are too many workers at this relay")
	}
	for _, o := range s.members {
		switch {
		case o.key != key || o.id == who:
		case o.id.cluster == who.cluster && o.number == l.Number:
			s.remove(o) // it came under another name before
		default:
			return nil, errors.New("another worker has this WireGuard key")
		}
	}
	if m != nil && (m.key != key || m.inner != r.Inner) {
		s.remove(m)
		m = nil
	}
	if m == nil {
		m = &member{id: who, number: l.Number, key: key, inner: r.Inner}
		if err := s.tun.add(key, r.Inner); err != nil {
			return nil, err
		}
		s.members[who] = m
	}
	m.seen, m.names, m.chain = time.Now(), names, chain
	for _, n := range names {
		if n != who {
			s.aliases[n] = who
		}
	}
	return m, nil
}

// within says whether an address is of the worker that has a lease.
func within(l wire.Lease, a netip.Addr) bool {
	if !l.Prefix.Contains(a) {
		return false
	}
	b := a.As16()
	return uint32(b[6])<<24|uint32(b[7])<<16|uint32(b[8])<<8|uint32(b[9]) == l.Number
}

// answer serves what needs no stream.
func (s *Server) answer(m *member, r request) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := Answer{V: version, Key: keyText(s.tun.public), Port: s.Addr().Port(), Inner: s.tun.inner(m.inner),
		Outside: s.tun.outside(m.key)}
	switch r.Op {
	case opMail:
		a.Mail, m.mail = m.mail, nil
		return a, nil
	case opChannel, opPause:
	default:
		return a, fmt.Errorf("this relay does not know %.20q", r.Op)
	}
	other := s.find(id{r.Cluster, r.Worker}, r.Number)
	if other == nil {
		return a, fmt.Errorf("worker %.63s of cluster %.63s is not known here", r.Worker, r.Cluster)
	}
	if r.Op == opPause {
		if c := s.channels[pairOf(m.id, other.id)]; c != nil {
			c.paused.Store(true)
		}
		return a, nil
	}
	c, err := s.channel(m, other)
	if err != nil {
		return a, err
	}
	a.Channel = c.portOf(m.id)
	s.tell(other, Mail{Cluster: m.id.cluster, Worker: m.id.worker, Number: m.number, Key: keyText(m.key),
		Channel: c.portOf(other.id)})
	return a, nil
}

// tell leaves mail for a worker and wakes it until it has asked for it. The mutex
// is held.
func (s *Server) tell(m *member, mail Mail) {
	for _, old := range m.mail {
		if old == mail {
			return
		}
	}
	if len(m.mail) >= maxMail {
		m.mail = m.mail[1:]
	}
	m.mail = append(m.mail, mail)
	if len(m.mail) > 1 {
		return // it is being woken
	}
	s.wg.Go(func() {
		tick := time.NewTicker(wakeEvery)
		defer tick.Stop()
		for range pipeTimeout / wakeEvery {
			s.mu.Lock()
			waits := len(m.mail) > 0
			s.mu.Unlock()
			if !waits {
				return
			}
			s.tun.wake(m.inner)
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				return
			}
		}
		// It cannot be reached: what is there is of no use later.
		s.mu.Lock()
		m.mail = nil
		s.mu.Unlock()
	})
}

// sweep forgets what nobody uses.
func (s *Server) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			s.forget(time.Now())
		}
	}
}

func (s *Server) forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pair, c := range s.channels {
		if now.Sub(c.lastUse()) > forgetAfter {
			c.close()
			delete(s.channels, pair)
		}
	}
	for _, m := range s.members {
		if now.Sub(m.seen) > forgetAfter && now.Sub(s.tun.handshake(m.key)) > forgetAfter {
			s.remove(m)
		}
	}
}

// closeChannelsOf a worker. The mutex is held.
func (s *Server) closeChannelsOf(who id) {
	for pair, c := range s.channels {
		if pair[0] == who || pair[1] == who {
			c.close()
			delete(s.channels, pair)
		}
	}
}
