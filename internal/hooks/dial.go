package hooks

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/tlsconf"
)

const (
	dialTimeout   = 5 * time.Second
	maxHeader     = 16 << 10
	idleFor       = 30 * time.Second
	maxReadNotice = 4 << 10  // of the answer to a notice, of which nothing is used
	maxReadAnswer = 64 << 10 // of that to a question
)

// metadata are the addresses at which clouds tell a machine its own secrets, besides
// the link-local ones.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::254/128"),  // Amazon, over IPv6
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google, over IPv6
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle, the older one
}

// nat64 has an IPv4 address in its last 32 bits, to which the network leads.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// forbidden says why an address may not be that of a receiver; "" if it may. mine are the
// addresses of this machine.
func forbidden(a netip.Addr, allow []netip.Prefix, mine []netip.Addr) string {
	a = a.Unmap().WithZone("")
	for _, p := range allow {
		if p.Contains(a) {
			return ""
		}
	}
	if nat64.Contains(a) {
		b := a.As16()
		return forbidden(netip.AddrFrom4([4]byte(b[12:])), allow, mine)
	}
	switch {
	case a.IsLoopback():
		return "a loopback address"
	case a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast():
		return "a link-local address"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		return "no address of a host"
	case a.IsMulticast(), a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "an address of many"
	case slices.Contains(mine, a):
		return "an address of the machine that sends it"
	}
	for _, p := range metadata {
		if p.Contains(a) {
			return "an address of cloud metadata"
		}
	}
	return ""
}

// own are the addresses of this machine: of its interfaces, as they are now, and the advertised
// ones, such as that of a router in front of it.
func own(ctx context.Context, advertised []string) ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("which addresses this machine has: %w", err)
	}
	var out []netip.Addr
	for _, n := range nets {
		if n, ok := n.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, a.Unmap())
			}
		}
	}
	for _, host := range advertised {
		if a, err := netip.ParseAddr(host); err == nil {
			out = append(out, a.Unmap().WithZone(""))
			continue
		}
		// A name that cannot be looked up here leads nobody here either.
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil && ctx.Err() != nil {
			return nil, fmt.Errorf("looking up %s, by which others reach this machine: %w", host, err)
		}
		for _, a := range found {
			out = append(out, a.Unmap().WithZone(""))
		}
	}
	return out, nil
}

// guard refuses connections to addresses that are not for hooks. It is asked when the
// name has been looked up, with the address that is connected to, so that a name which
// leads elsewhere the second time gains nothing. ours are the addresses of this machine,
// which may be others by then.
func guard(allow []netip.Prefix, ours func(context.Context) ([]netip.Addr, error)) func(ctx context.Context, network,
	address string, _ syscall.RawConn) error {
	return func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%s is no address: %w", address, err)
		}
		mine, err := ours(ctx)
		if err != nil {
			return err
		}
		if why := forbidden(at.Addr(), allow, mine); why != "" {
			return fmt.Errorf("%s is %s, and hooks may not go there: who runs this root or cluster may allow it: "+
				"--hooks-allow %s", at.Addr(), why,
				netip.PrefixFrom(at.Addr().Unmap().WithZone(""), at.Addr().Unmap().BitLen()))
		}
		return nil
	}
}

var errAuthorities = errors.New("ca has no certificate in PEM")

// newClient is a client for the receivers of one hook: no proxy, which would connect
// elsewhere; no redirects, which would too.
func newClient(allow []netip.Prefix, advertised []string, ca string) (*http.Client, error) {
	conf := tlsconf.Public()
	if ca != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errAuthorities
		}
	}
	dialer := &net.Dialer{Timeout: dialTimeout,
		ControlContext: guard(allow, func(ctx context.Context) ([]netip.Addr, error) { return own(ctx, advertised) })}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: conf, TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: maxHeader, MaxIdleConnsPerHost: 1, IdleConnTimeout: idleFor,
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
