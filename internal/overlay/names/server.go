package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	// The library of CoreDNS: messages and servers, complete and tried.
	"github.com/miekg/dns"
	"golang.org/x/time/rate"
)

const (
	// ttl of an answer, in seconds: as long as a change may take to be seen.
	ttl = 5
	// Questions that one sender may ask in a second, and at once.
	perSecond, atOnce = 500, 1000
	// maxSenders are remembered for that.
	maxSenders = 4096
	// maxForwarded questions wait for the machine's resolvers at a time.
	maxForwarded   = 64
	forwardWithin  = 2 * time.Second
	maxConnections = 256
	idleWithin     = 5 * time.Second
)

// Options of a Server.
type Options struct {
	// Find answers names of the zone; it is called often, by goroutines of their own, and
	// must not wait for longer than a resolver does.
	Find func(Name) Answer
	// Upstream are the resolvers that are asked for all else, host:port, at the time
	// of the question; nil are those of the machine's /etc/resolv.conf.
	Upstream func() []string
	Log      *slog.Logger
}

// Server answers questions.
type Server struct {
	opts      Options
	forwarded chan struct{}
	conns     atomic.Int64

	mu      sync.Mutex // guards senders
	senders map[netip.Addr]*rate.Limiter

	// Asked, Refused and Failed count questions: all, those over the bound of their
	// sender, and those that no resolver answered.
	Asked, Refused, Failed atomic.Uint64

	answers [16]atomic.Uint64 // by code
}

// Answers are those given so far, by their code ("NOERROR", "NXDOMAIN", …).
func (s *Server) Answers() map[string]uint64 {
	out := map[string]uint64{}
	for code := range s.answers {
		if n := s.answers[code].Load(); n > 0 {
			out[dns.RcodeToString[code]] = n
		}
	}
	return out
}

// say gives an answer.
func (s *Server) say(w dns.ResponseWriter, m *dns.Msg) {
	s.answers[m.Rcode&15].Add(1) // the others need more than a header
	_ = w.WriteMsg(m)            // who asked may be gone
}

// New makes a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Upstream == nil {
		o.Upstream = machine
	}
	return &Server{opts: o, forwarded: make(chan struct{}, maxForwarded), senders: map[netip.Addr]*rate.Limiter{}}
}

// machine are the resolvers of the machine.
func machine() []string { return resolvers("/etc/resolv.conf") }

// Outside are the resolvers of the machine that are reached from another network namespace
// as well. systemd-resolved listens on a loopback address, and lists those that it asks.
func Outside() []string { return outside("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf") }

func outside(files ...string) []string {
	for _, file := range files {
		list := slices.DeleteFunc(resolvers(file), func(s string) bool {
			at, err := netip.ParseAddrPort(s)
			return err == nil && at.Addr().IsLoopback()
		})
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

func resolvers(file string) []string {
	c, err := dns.ClientConfigFromFile(file)
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range c.Servers {
		out = append(out, net.JoinHostPort(s, c.Port))
	}
	return out
}

// Listener is where a server is asked.
type Listener struct {
	udp net.PacketConn
	tcp net.Listener
}

// Opener opens sockets: a net.ListenConfig, or what knows them from a process before.
type Opener interface {
	Listen(ctx context.Context, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error)
}

// Listen opens an address for both protocols.
func Listen(ctx context.Context, by Opener, at netip.AddrPort) (*Listener, error) {
	for try := 0; ; try++ {
		udp, err := by.ListenPacket(ctx, "udp", at.String())
		if err != nil {
			return nil, fmt.Errorf("name server: %w", err)
		}
		tcp, err := by.Listen(ctx, "tcp", udp.LocalAddr().String())
		if err == nil {
			return &Listener{udp, tcp}, nil
		}
		err = errors.Join(fmt.Errorf("name server: %w", err), udp.Close())
		// A port that the system chose for one may be taken for the other.
		if at.Port() != 0 || try == 10 {
			return nil, err
		}
	}
}

// Addr is where it listens.
func (l *Listener) Addr() netip.AddrPort { return l.udp.LocalAddr().(*net.UDPAddr).AddrPort() }

// lastAnswers is how long those may take that were asked for before the end.
const lastAnswers = nameWait + forwardWithin

// nameWait is more than Options.Find waits.
const nameWait = 2 * time.Second

// Serve answers until ctx is done, gives the answers that it owes then, and closes the
// listener.
func (s *Server) Serve(ctx context.Context, l *Listener) {
	udp := &dns.Server{PacketConn: l.udp, Handler: s, ReadTimeout: idleWithin}
	tcp := &dns.Server{Listener: &bounded{l.tcp, &s.conns}, Handler: s, ReadTimeout: idleWithin,
		WriteTimeout: idleWithin, MaxTCPQueries: -1}
	var wg sync.WaitGroup
	for _, srv := range []*dns.Server{udp, tcp} {
		started := make(chan struct{})
		srv.NotifyStartedFunc = sync.OnceFunc(func() { close(started) })
		served, stop := context.WithCancel(ctx)
		wg.Go(func() {
			defer stop()
			if err := srv.ActivateAndServe(); err != nil && ctx.Err() == nil {
				s.opts.Log.Warn("name server ended", "error", err)
			}
			srv.NotifyStartedFunc() // if it could not
		})
		wg.Go(func() {
			<-served.Done()
			<-started // else there is nothing to end, and it would not
			last, cancel := context.WithTimeout(context.Background(), lastAnswers)
			defer cancel()
			_ = srv.ShutdownContext(last) // one that has ended by itself
		})
	}
	wg.Wait()
	_, _ = l.udp.Close(), l.tcp.Close() // those that never started
}

// bounded accepts so many connections at a time.
type bounded struct {
	net.Listener
	open *atomic.Int64
}

type counted struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

// Close gives the place back.
func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// Accept closes what is beyond the bound at once.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if b.open.Add(1) <= maxConnections {
			return &counted{Conn: c, open: b.open}, nil
		}
		b.open.Add(-1)
		_ = c.Close() // too many
	}
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	s.Asked.Add(1)
	if !s.allowed(w.RemoteAddr()) {
		s.Refused.Add(1)
		return // an answer would only make it more
	}
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative = true
	if len(q.Question) != 1 || q.Question[0].Qclass != dns.ClassINET {
		m.Rcode = dns.RcodeFormatError
		s.say(w, m)
		return
	}
	name, inside, ok := Parse(q.Question[0].Name)
	if !inside && dns.CountLabel(q.Question[0].Name) < 2 {
		// A single word is a service that there is not; nobody else has any.
		m.Rcode = dns.RcodeNameError
		s.say(w, m)
		return
	}
	if !inside {
		if m = s.forward(q, w.RemoteAddr().Network()); m == nil {
			m = new(dns.Msg)
			m.SetRcode(q, dns.RcodeServerFailure)
		}
		s.say(w, m)
		return
	}
	s.answer(m, name, ok)
	if w.RemoteAddr().Network() == "udp" {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(size, int(o.UDPSize()))
		}
		m.Truncate(size)
	}
	s.say(w, m)
}

// answer fills in what is known of a name of the zone.
func (s *Server) answer(m *dns.Msg, n Name, ok bool) {
	asked := m.Question[0]
	var a Answer
	if ok {
		a = s.opts.Find(n)
	}
	head := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
	}
	ports := slices.DeleteFunc(slices.Clone(a.Ports), func(p Port) bool {
		return n.Port != "" && (p.Name != n.Port || p.Proto != n.Proto)
	})
	switch {
	case a.Unknown:
		m.Rcode = dns.RcodeServerFailure
		return
	case !a.Found, n.Port != "" && len(ports) == 0:
		m.Rcode = dns.RcodeNameError
	case asked.Qtype == dns.TypeSRV:
		target := asked.Name
		if n.Port != "" {
			target = asked.Name[len(n.Port)+len(n.Proto)+4:]
		}
		for _, p := range ports {
			m.Answer = append(m.Answer, &dns.SRV{Hdr: head(asked.Name, dns.TypeSRV), Port: p.Number, Target: target})
		}
		for _, x := range a.Addrs {
			m.Extra = append(m.Extra, record(head, target, x))
		}
	case n.Port == "":
		for _, x := range a.Addrs {
			if r := record(head, asked.Name, x); asked.Qtype == r.Header().Rrtype || asked.Qtype == dns.TypeANY {
				m.Answer = append(m.Answer, r)
			}
		}
	}
	if len(m.Answer) == 0 {
		m.Ns = []dns.RR{&dns.SOA{
			Hdr: head(Zone, dns.TypeSOA), Ns: "ns." + Zone, Mbox: "worker." + Zone,
			Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl,
		}}
	}
}

func record(head func(string, uint16) dns.RR_Header, name string, a netip.Addr) dns.RR {
	if a.Is4() {
		return &dns.A{Hdr: head(name, dns.TypeA), A: a.AsSlice()}
	}
	return &dns.AAAA{Hdr: head(name, dns.TypeAAAA), AAAA: a.AsSlice()}
}

// forward asks the machine's resolvers, in order; nil if none answered.
func (s *Server) forward(q *dns.Msg, network string) *dns.Msg {
	select {
	case s.forwarded <- struct{}{}:
		defer func() { <-s.forwarded }()
	default:
		s.Failed.Add(1)
		return nil
	}
	servers := s.opts.Upstream()
	deadline := time.Now().Add(forwardWithin)
	for i, to := range servers {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		// Each of those that are left has its part of the time.
		c := &dns.Client{Net: strings.TrimSuffix(network, "6"), Timeout: left / time.Duration(len(servers)-i)}
		if m, _, err := c.Exchange(q, to); err == nil {
			m.Id = q.Id
			return m
		}
	}
	s.Failed.Add(1)
	return nil
}

// allowed says whether a sender is within its bound.
func (s *Server) allowed(from net.Addr) bool {
	var a netip.Addr
	switch f := from.(type) {
	case *net.UDPAddr:
		a = f.AddrPort().Addr()
	case *net.TCPAddr:
		a = f.AddrPort().Addr()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.senders[a]
	if l == nil {
		if len(s.senders) >= maxSenders {
			clear(s.senders) // all begin anew, which is kinder than refusing new ones
		}
		l = rate.NewLimiter(perSecond, atOnce)
		s.senders[a] = l
	}
	return l.Allow()
}
