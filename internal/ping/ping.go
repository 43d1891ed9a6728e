package ping

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/net/icmp" // its messages and sockets are those of every system
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/time/rate"
)

const (
	// echoes of one question, of which the least time counts; each is waited for within.
	echoes = 3
	within = time.Second
	// perSecond questions are answered, burst at once.
	perSecond, burst = 10, 16
	maxPacket        = 1500
)

// Ports that are tried where none is named and nobody answers echoes: of web servers, and
// of the echo service.
var Ports = []int{443, 80, 7}

// ErrRefused says that an address is not asked.
var ErrRefused = errors.New("is not asked")

// Pinger asks. It is safe for concurrent use. The zero value is not ready: see New.
type Pinger struct {
	limit *rate.Limiter
	// lookup is net.DefaultResolver's, but in tests; allow is Allowed, but in tests.
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	allow  func(netip.Addr) error
}

// New makes a Pinger with the limits of this package.
func New() *Pinger {
	return &Pinger{
		limit: rate.NewLimiter(perSecond, burst), allow: Allowed,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// never are addresses that are refused beside those that netip knows a word for.
var never = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("240.0.0.0/4"), // nobody, and all
	// Metadata services of clouds that are not link-local.
	netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"), netip.MustParsePrefix("fd20:ce::254/128"),
	// IPv4 in other clothes, which would lead around the rest.
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("::/96"),
}

// Allowed says why an address is not asked, nil if it is.
func Allowed(a netip.Addr) error {
	a = a.Unmap()
	var what string
	switch {
	case !a.IsValid(), a.IsUnspecified():
		what = "no address of a host"
	case a.IsLoopback():
		what = "the machine itself"
	case a.IsLinkLocalUnicast():
		what = "link-local, as metadata services are"
	case a.IsMulticast():
		what = "an address of many"
	case slices.ContainsFunc(never, func(p netip.Prefix) bool { return p.Contains(a) }):
		what = "reserved, or a metadata service"
	default:
		return nil
	}
	return fmt.Errorf("%s %w: it is %s", a, ErrRefused, what)
}

// Ping measures the round trip to a host. With a port it is that of a TCP connection to
// it; without one (0) that of an ICMP echo, or, where those are not answered or not
// permitted, of a TCP connection to one of Ports. by says which it was.
func (p *Pinger) Ping(ctx context.Context, host string, port int) (rtt time.Duration, by string, err error) {
	if !p.limit.Allow() {
		return 0, "", fmt.Errorf("%s: too many questions at a time: at most %d a second", host, perSecond)
	}
	addr, err := p.address(ctx, host)
	if err != nil {
		return 0, "", err
	}
	if port > 0 {
		rtt, err = connect(ctx, addr, port)
		return rtt, "tcp " + strconv.Itoa(port), err
	}
	rtt, echoErr := echo(ctx, addr)
	if echoErr == nil {
		return rtt, "icmp", nil
	}
	for _, port := range Ports {
		if rtt, err = connect(ctx, addr, port); err == nil {
			return rtt, "tcp " + strconv.Itoa(port), nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return 0, "", fmt.Errorf("%s answers neither ICMP echoes (%w) nor TCP on ports 443, 80 and 7", host, echoErr)
}

// address is the first of a host that may be asked.
func (p *Pinger) address(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.Unmap(), p.allow(a)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	all, err := p.lookup(ctx, host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up %s: %w", host, err)
	}
	var refused error
	for _, a := range all {
		if refused = p.allow(a); refused == nil {
			return a.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s: %w", host, cmp.Or(refused, errors.New("it has no address")))
}

// connect is how long a connection takes to be made or refused.
func connect(ctx context.Context, addr netip.Addr, port int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var d net.Dialer
	begin := time.Now()
	conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, uint16(port)).String())
	rtt := time.Since(begin)
	if err == nil {
		_ = conn.Close() // nothing was said
		return rtt, nil
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return rtt, nil
	}
	return 0, fmt.Errorf("no answer on TCP port %d", port)
}

// echo is the least round trip of some ICMP echoes.
func echo(ctx context.Context, addr netip.Addr) (time.Duration, error) {
	raw, free, proto, ask, tell := "ip4:icmp", "udp4", 1, icmp.Type(ipv4.ICMPTypeEcho),
		icmp.Type(ipv4.ICMPTypeEchoReply)
	if addr.Is6() {
		raw, free, proto, ask, tell = "ip6:ipv6-icmp", "udp6", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	to := net.Addr(&net.IPAddr{IP: addr.AsSlice()})
	conn, err := icmp.ListenPacket(raw, "")
	if err != nil { // as root or with a capability; else as the kernel permits it to all
		if conn, err = icmp.ListenPacket(free, ""); err != nil {
			return 0, errors.New("not permitted on this machine")
		}
		to = &net.UDPAddr{IP: addr.AsSlice()}
	}
	defer func() { _ = conn.Close() }() // what was answered was read
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return 0, err
	}
	best := time.Duration(0)
	for seq := range echoes {
		rtt, err := echoOnce(conn, to, addr, proto, ask, tell, token, seq)
		if err != nil || ctx.Err() != nil {
			break // one that is lost is not worth three seconds
		}
		if best == 0 || rtt < best {
			best = rtt
		}
	}
	if best == 0 {
		return 0, errors.New("no answer")
	}
	return best, nil
}

func echoOnce(conn *icmp.PacketConn, to net.Addr, addr netip.Addr, proto int, ask, tell icmp.Type, token []byte,
	seq int) (time.Duration, error) {
	msg := icmp.Message{Type: ask, Body: &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: seq, Data: token}}
	b, err := msg.Marshal(nil)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := conn.SetDeadline(begin.Add(within)); err != nil {
		return 0, err
	}
	if _, err := conn.WriteTo(b, to); err != nil {
		return 0, err
	}
	buf := make([]byte, maxPacket)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return 0, err
		}
		rtt := time.Since(begin)
		m, err := icmp.ParseMessage(proto, buf[:n])
		if err != nil || m.Type != tell || !sameHost(from, addr) {
			continue // a raw socket hears all
		}
		if e, ok := m.Body.(*icmp.Echo); ok && e.Seq == seq && slices.Equal(e.Data, token) {
			return rtt, nil
		}
	}
}

func sameHost(from net.Addr, addr netip.Addr) bool {
	var ip net.IP
	switch a := from.(type) {
	case *net.IPAddr:
		ip = a.IP
	case *net.UDPAddr:
		ip = a.IP
	}
	got, ok := netip.AddrFromSlice(ip)
	return ok && got.Unmap() == addr
}
